//! Comparisons of estimates with usage, by container.

use headroom_core::cluster::usage::Root;
use headroom_core::image::Repository;
use headroom_usage::accuracy::{ComparedPlace, Comparison};
use headroom_usage::batch::Gathered;
use redb::{ReadableTable, WriteTransaction};

use super::{COMPARED, Store, StoreError, Trouble};

/// Days after which a container that was not seen is dropped.
pub(super) const DAYS_COMPARED: u32 = 7;

impl Store {
    /// Visits the comparisons of a root's images by image and namespace.
    pub fn visit_compared(
        &self,
        root: Root,
        mut visit: impl FnMut(ComparedPlace, Comparison),
    ) -> Result<(), StoreError> {
        let number = root.number();
        self.read(|txn| {
            let rows = (number, "", "", "", "")..(number + 1, "", "", "", "");
            for entry in txn.open_table(COMPARED)?.range(rows)? {
                let (key, row) = entry?;
                let (_, repository, namespace, pod, container) = key.value();
                let Some(repository) = Repository::from_full(repository) else { continue };
                let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
                visit(ComparedPlace { repository, namespace, pod, container }, Comparison::read(row.value())?);
            }
            Ok(())
        })
    }
}

/// Merges gathered comparisons into the stored ones.
pub(super) fn add(txn: &WriteTransaction, gathered: &Gathered) -> Result<(), Trouble> {
    let mut table = txn.open_table(COMPARED)?;
    let mut row = Vec::new();
    for (place, comparison) in gathered.compared() {
        let ComparedPlace { repository, namespace, pod, container } = place;
        let repository = repository.as_str();
        let key = (Root::of(repository).number(), repository, namespace.as_str(), pod.as_str(), container.as_str());
        let known = table.get(key)?.map(|known| Comparison::read(known.value())).transpose()?;
        let mut whole = known.unwrap_or_default();
        whole.merge(comparison);
        row.clear();
        whole.write(&mut row);
        table.insert(key, row.as_slice())?;
    }
    Ok(())
}

/// Drops containers that were not seen since a moment.
pub(super) fn drop_unseen_since(txn: &WriteTransaction, moment: i64) -> Result<(), Trouble> {
    let is_seen = |row: &[u8]| Comparison::read(row).is_ok_and(|comparison| comparison.last_seen >= moment);
    txn.open_table(COMPARED)?.retain(|_, row| is_seen(row))?;
    Ok(())
}
