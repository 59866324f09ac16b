//! What the store remembers of published objects: histories of other stores that it took over, and its own that ended.

use redb::WriteTransaction;

use super::{ADOPTED, ENDED, Store, StoreError, Trouble};
use crate::history::bytes;

/// An object whose history was in this store and has expired.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ended {
    /// None for a pooled one, which stands in the namespace of the pool.
    pub namespace: Option<String>,
    pub name: String,
}

impl Store {
    /// Keeps a history that another store published, as of when it was collected.
    pub fn adopt(&self, namespace: &str, name: &str, collected_at: i64, text: &str) -> Result<(), StoreError> {
        let mut row = Vec::with_capacity(text.len() + 10);
        bytes::write(&mut row, collected_at.max(0) as u64);
        row.extend_from_slice(text.as_bytes());
        self.write(|txn| {
            txn.open_table(ADOPTED)?.insert((namespace, name), row.as_slice())?;
            Ok(())
        })
    }

    /// The history that was adopted for an object.
    pub fn adopted(&self, namespace: &str, name: &str) -> Result<Option<String>, StoreError> {
        self.read(|txn| {
            let Some(row) = txn.open_table(ADOPTED)?.get((namespace, name))? else { return Ok(None) };
            let mut text = row.value();
            bytes::read(&mut text)?;
            Ok(Some(String::from_utf8_lossy(text).into_owned()))
        })
    }

    /// Objects whose history was here and has expired, and of which nobody has said yet that they are gone.
    pub fn ended(&self) -> Result<Vec<Ended>, StoreError> {
        self.read(|txn| {
            let mut ended = Vec::new();
            for entry in txn.open_table(ENDED)?.range::<(&str, &str)>(..)? {
                let key = entry?.0;
                let (namespace, name) = key.value();
                let namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
                ended.push(Ended { namespace, name: name.to_owned() });
            }
            Ok(ended)
        })
    }

    /// There is nothing more to do about an object that ended.
    pub fn forget_ended(&self, ended: &Ended) -> Result<(), StoreError> {
        self.write(|txn| {
            let namespace = ended.namespace.as_deref().unwrap_or_default();
            txn.open_table(ENDED)?.remove((namespace, ended.name.as_str()))?;
            Ok(())
        })
    }
}

/// Drops adopted histories that were collected before a moment.
pub(super) fn drop_adopted_before(txn: &WriteTransaction, moment: i64) -> Result<(), Trouble> {
    let is_young = |mut row: &[u8]| bytes::read(&mut row).is_ok_and(|collected_at| collected_at as i64 >= moment);
    txn.open_table(ADOPTED)?.retain(|_, row| is_young(row))?;
    Ok(())
}
