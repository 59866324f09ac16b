//! What the store remembers of published objects: histories of other stores that it took over.

use headroom_core::cluster::usage::Root;
use headroom_usage::varint;
use redb::WriteTransaction;

use super::{ADOPTED, Store, StoreError, Trouble};

impl Store {
    /// Keeps a history that another store published, as of when it was collected.
    pub fn adopt(&self, namespace: &str, name: &str, collected_at: i64, text: &str) -> Result<(), StoreError> {
        let mut row = Vec::with_capacity(text.len() + 10);
        varint::write(&mut row, collected_at.max(0) as u64);
        row.extend_from_slice(text.as_bytes());
        self.write(|txn| {
            txn.open_table(ADOPTED)?.insert((namespace, name), row.as_slice())?;
            Ok(())
        })
    }

    /// The histories that were adopted from a root and its pages.
    pub fn adopted(&self, namespace: &str, root: Root) -> Result<Vec<String>, StoreError> {
        let root = root.to_string();
        self.read(|txn| {
            let mut histories = Vec::new();
            for entry in txn.open_table(ADOPTED)?.range((namespace, root.as_str())..)? {
                let (key, row) = entry?;
                let (of, name) = key.value();
                // The names of its pages begin with that of the root.
                if of != namespace || !name.starts_with(&root) {
                    break;
                }
                let mut text = row.value();
                varint::read(&mut text)?;
                histories.push(String::from_utf8_lossy(text).into_owned());
            }
            Ok(histories)
        })
    }
}

/// Drops adopted histories that were collected before a moment.
pub(super) fn drop_adopted_before(txn: &WriteTransaction, moment: i64) -> Result<(), Trouble> {
    let is_young = |mut row: &[u8]| varint::read(&mut row).is_ok_and(|collected_at| collected_at as i64 >= moment);
    txn.open_table(ADOPTED)?.retain(|_, row| is_young(row))?;
    Ok(())
}
