//! Adds summaries, visits them in the order in which profiles are built, and drops those that are too old for any window.

use std::collections::BTreeMap;

use headroom_admission::cluster::usage::Root;
use headroom_admission::image::{Reference, Repository};
use headroom_usage::batch::{Gathered, Place, WorkloadPlace};
use headroom_usage::observed::Observed;
use headroom_usage::varint::Damaged;
use headroom_usage::window_merge::DAYS_KEPT;
use headroom_usage::{DAY, day_of};
use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use super::{DAYS, DayKey, EXPIRED_FACT, FACTS, NEWEST_FACT, OWED, Store, StoreError, Trouble, WORKLOADS};

impl Store {
    /// The time of the newest sample; none in an empty store.
    pub fn newest(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.fact(NEWEST_FACT)?.filter(|newest| *newest > 0))
    }

    /// The oldest day that is kept, by the newest sample. A wrong clock cannot move it.
    pub fn oldest_kept(&self) -> Result<u32, StoreError> {
        Ok(self.newest()?.map_or(0, |newest| day_of(newest).saturating_sub(DAYS_KEPT)))
    }

    /// Drops rows older than all published windows as of the newest sample, or as of `today` if that is earlier. Reads the store
    /// at most once a day.
    pub fn expire(&self, today: u32) -> Result<(), StoreError> {
        let oldest = self.oldest_kept()?.min(today.saturating_sub(DAYS_KEPT));
        if self.fact(EXPIRED_FACT)? == Some(oldest.into()) {
            return Ok(());
        }
        self.write(|txn| {
            txn.open_table(DAYS)?.retain(|(_, _, _, _, day), _| day >= oldest)?;
            txn.open_table(WORKLOADS)?.retain(|(_, _, _, _, day), _| day >= oldest)?;
            txn.open_table(OWED)?.retain(|_, to| to > i64::from(oldest) * DAY)?;
            txn.open_table(FACTS)?.insert(EXPIRED_FACT, i64::from(oldest))?;
            Ok(())
        })
    }

    /// Visits a root's images by repository, with what is read of each day. Images with an invalid name, which no admission request
    /// can have, are skipped.
    pub fn visit_root<T>(
        &self,
        root: Root,
        read: impl Fn(&[u8]) -> Result<T, Damaged>,
        visit: impl FnMut(Place, BTreeMap<u32, T>),
    ) -> Result<(), StoreError> {
        let place = |repository, reference: &str, namespace: &str| {
            Some(Place { repository, reference: Reference::parse(reference)?, namespace: namespace.to_owned() })
        };
        self.visit(DAYS, root, place, read, visit)
    }

    /// Visits the workloads that run a root's images, with their days.
    pub fn visit_workloads(
        &self,
        root: Root,
        visit: impl FnMut(WorkloadPlace, BTreeMap<u32, Observed>),
    ) -> Result<(), StoreError> {
        let place = |repository, namespace: &str, workload: &str| {
            Some(WorkloadPlace { repository, namespace: namespace.to_owned(), workload: workload.to_owned() })
        };
        self.visit(WORKLOADS, root, place, Observed::read, visit)
    }

    fn visit<P: PartialEq, T>(
        &self,
        table: TableDefinition<'_, DayKey, &[u8]>,
        root: Root,
        place: impl Fn(Repository, &str, &str) -> Option<P>,
        read: impl Fn(&[u8]) -> Result<T, Damaged>,
        mut visit: impl FnMut(P, BTreeMap<u32, T>),
    ) -> Result<(), StoreError> {
        let number = root.number();
        self.read(|txn| {
            let rows = (number, "", "", "", 0)..(number + 1, "", "", "", 0);
            // The days of a place follow each other.
            let mut open: Option<(P, BTreeMap<u32, T>)> = None;
            for entry in txn.open_table(table)?.range(rows)? {
                let (key, row) = entry?;
                let (_, repository, second, third, day) = key.value();
                let repository = Repository::from_full(repository);
                let Some(place) = repository.and_then(|repository| place(repository, second, third)) else { continue };
                let of_day = read(row.value()).map_err(Trouble::Row)?;
                if let Some((_, days)) = open.as_mut().filter(|(of, _)| *of == place) {
                    days.insert(day, of_day);
                } else if let Some((of, days)) = open.replace((place, BTreeMap::from([(day, of_day)]))) {
                    visit(of, days);
                }
            }
            open.into_iter().for_each(|(of, days)| visit(of, days));
            Ok(())
        })
    }
}

/// Merges gathered summaries into the stored ones.
pub(super) fn add(txn: &WriteTransaction, gathered: &Gathered) -> Result<(), Trouble> {
    let mut days = txn.open_table(DAYS)?;
    let mut facts = txn.open_table(FACTS)?;
    let mut newest = facts.get(NEWEST_FACT)?.map_or(0, |newest| newest.value());
    for (place, row) in gathered.rows() {
        let Place { repository, reference, namespace } = place;
        let (repository, reference) = (repository.as_str(), reference.to_string());
        let key = (Root::of(repository).number(), repository, reference.as_str(), namespace.as_str(), row.day);
        newest = newest.max(row.observed.last_seen);
        merge(&mut days, key, &row.observed)?;
    }
    let mut workloads = txn.open_table(WORKLOADS)?;
    for (place, day, observed) in gathered.workloads() {
        let WorkloadPlace { repository, namespace, workload } = place;
        let repository = repository.as_str();
        let key = (Root::of(repository).number(), repository, namespace.as_str(), workload.as_str(), day);
        merge(&mut workloads, key, observed)?;
    }
    facts.insert(NEWEST_FACT, newest)?;
    Ok(())
}

fn merge(
    table: &mut Table<'_, DayKey, &'static [u8]>,
    key: (u8, &str, &str, &str, u32),
    observed: &Observed,
) -> Result<(), Trouble> {
    let known = table.get(key)?.map(|known| Observed::read(known.value())).transpose();
    let mut known = known.map_err(Trouble::Row)?;
    known.iter_mut().for_each(|known| known.merge(observed));
    let mut text = Vec::new();
    known.as_ref().unwrap_or(observed).write(&mut text);
    table.insert(key, text.as_slice())?;
    Ok(())
}
