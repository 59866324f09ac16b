//! Adds summaries, and visits them in the order in which profiles are built.

use headroom_admission::cluster::usage::Root;
use headroom_admission::image::{Reference, Repository};
use headroom_usage::batch::{Gathered, Place, WorkloadPlace};
use headroom_usage::observed::Observed;
use headroom_usage::varint::Damaged;
use redb::{ReadTransaction, ReadableTable, WriteTransaction};

use super::{DAYS, FACTS, NEWEST_FACT, Store, StoreError, Trouble, WORKLOADS};

/// The usage of an image in a namespace on a day.
#[derive(Debug)]
pub struct StoredDay {
    pub place: Place,
    pub day: u32,
    pub observed: Observed,
}

/// The usage of a workload's container on a day.
#[derive(Debug)]
pub struct WorkloadDay {
    pub place: WorkloadPlace,
    pub day: u32,
    pub observed: Observed,
}

/// The time when an image was last seen on a day.
#[derive(Debug)]
pub struct LastSeen {
    pub place: Place,
    pub day: u32,
    pub last_seen: i64,
}

impl Store {
    /// The time of the newest sample; none in an empty store.
    pub fn newest(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.fact(NEWEST_FACT)?.filter(|newest| *newest > 0))
    }

    /// Visits the days of a root's images by repository.
    pub fn visit_root(&self, root: Root, mut visit: impl FnMut(StoredDay)) -> Result<(), StoreError> {
        self.read(|txn| {
            each_day(txn, root, &mut |place, day, row| {
                visit(StoredDay { place, day, observed: Observed::read(row)? });
                Ok(())
            })
        })
    }

    /// Visits the days of workloads that run a root's images, workload by workload.
    pub fn visit_workloads(&self, root: Root, mut visit: impl FnMut(WorkloadDay)) -> Result<(), StoreError> {
        let number = root.number();
        self.read(|txn| {
            let rows = (number, "", "", "", 0)..(number + 1, "", "", "", 0);
            for entry in txn.open_table(WORKLOADS)?.range(rows)? {
                let (key, row) = entry?;
                let (_, repository, namespace, workload, day) = key.value();
                let Some(repository) = Repository::from_full(repository) else { continue };
                let [namespace, workload] = [namespace, workload].map(str::to_owned);
                let place = WorkloadPlace { repository, namespace, workload };
                visit(WorkloadDay { place, day, observed: Observed::read(row.value())? });
            }
            Ok(())
        })
    }

    /// Like [`Self::visit_root`], but reads only the time when an image was last seen.
    pub fn visit_root_moments(&self, root: Root, mut visit: impl FnMut(LastSeen)) -> Result<(), StoreError> {
        self.read(|txn| {
            each_day(txn, root, &mut |place, day, row| {
                visit(LastSeen { place, day, last_seen: Observed::read_last_seen(row)? });
                Ok(())
            })
        })
    }
}

/// Merges gathered summaries into the stored ones.
pub(super) fn add(txn: &WriteTransaction, gathered: &Gathered) -> Result<(), Trouble> {
    let mut days = txn.open_table(DAYS)?;
    let mut facts = txn.open_table(FACTS)?;
    let mut newest = facts.get(NEWEST_FACT)?.map_or(0, |newest| newest.value());
    let mut text = Vec::new();
    for (place, row) in gathered.rows() {
        let Place { repository, reference, namespace } = place;
        let (repository, reference) = (repository.as_str(), reference.to_string());
        let key = (Root::of(repository).number(), repository, reference.as_str(), namespace.as_str(), row.day);
        newest = newest.max(row.observed.last_seen);
        let known = days.get(key)?.map(|known| Observed::read(known.value())).transpose()?;
        text.clear();
        match known {
            None => row.observed.write(&mut text),
            Some(mut observed) => {
                observed.merge(&row.observed);
                observed.write(&mut text);
            }
        }
        days.insert(key, text.as_slice())?;
    }
    let mut workloads = txn.open_table(WORKLOADS)?;
    for (place, day, observed) in gathered.workloads() {
        let WorkloadPlace { repository, namespace, workload } = place;
        let repository = repository.as_str();
        let key = (Root::of(repository).number(), repository, namespace.as_str(), workload.as_str(), day);
        let known = workloads.get(key)?.map(|known| Observed::read(known.value())).transpose()?;
        let mut whole = known.unwrap_or_default();
        whole.merge(observed);
        text.clear();
        whole.write(&mut text);
        workloads.insert(key, text.as_slice())?;
    }
    facts.insert(NEWEST_FACT, newest)?;
    Ok(())
}

type EachRow<'a> = dyn FnMut(Place, u32, &[u8]) -> Result<(), Damaged> + 'a;

/// Skips images with an invalid name, which no admission request can have.
fn each_day(txn: &ReadTransaction, root: Root, each: &mut EachRow<'_>) -> Result<(), Trouble> {
    let number = root.number();
    let rows = (number, "", "", "", 0)..(number + 1, "", "", "", 0);
    for entry in txn.open_table(DAYS)?.range(rows)? {
        let (key, observed) = entry?;
        let (_, repository, reference, namespace, day) = key.value();
        if let (Some(repository), Some(reference)) = (Repository::from_full(repository), Reference::parse(reference)) {
            each(Place { repository, reference, namespace: namespace.to_owned() }, day, observed.value())?;
        }
    }
    Ok(())
}
