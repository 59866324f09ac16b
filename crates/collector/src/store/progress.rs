//! The windows that were read, and those that are still to be read. Usage is added in the transaction that notes its window.

use headroom_metrics_stores::paced::UsageSlice;
use headroom_usage::batch::Gathered;
use headroom_usage::sample::Window;
use redb::ReadableTable;

use super::days::add;
use super::{FACTS, FILES, MEMORY, OWED, PLANNED_FACT, Store, StoreError, Trouble};

impl Store {
    /// The time before which all usage was read or is owed; none if nothing was planned.
    pub fn planned(&self) -> Result<Option<i64>, StoreError> {
        self.fact(PLANNED_FACT)
    }

    /// Notes that a window is to be read, for each of these namespaces.
    pub fn plan(&self, window: Window, namespaces: &[String]) -> Result<(), StoreError> {
        self.write(|txn| {
            let mut owed = txn.open_table(OWED)?;
            for namespace in namespaces {
                let namespace = namespace.as_str();
                // Adjacent windows are merged, so that a namespace that cannot be read for a month has one row, not hundreds.
                let mut from = window.from;
                for entry in owed.range((namespace, i64::MIN)..=(namespace, i64::MAX))? {
                    let (key, to) = entry?;
                    if to.value() == window.from {
                        from = key.value().1;
                    }
                }
                owed.insert((namespace, from), window.to)?;
            }
            txn.open_table(FACTS)?.insert(PLANNED_FACT, window.to)?;
            Ok(())
        })
    }

    /// The windows that are still to be read, each with its namespace: by namespace, oldest first.
    pub fn owed(&self) -> Result<Vec<(String, Window)>, StoreError> {
        self.read(|txn| {
            let mut pieces = Vec::new();
            for entry in txn.open_table(OWED)?.range::<(&str, i64)>(..)? {
                let (key, to) = entry?;
                let (namespace, from) = key.value();
                pieces.push((namespace.to_owned(), Window { from, to: to.value() }));
            }
            Ok(pieces)
        })
    }

    /// Adds usage that is owed, and notes that it was read.
    pub fn settle(
        &self,
        UsageSlice { namespaces, window }: &UsageSlice,
        gathered: &Gathered,
    ) -> Result<(), StoreError> {
        self.write(|txn| {
            let mut owed = txn.open_table(OWED)?;
            for namespace in namespaces.iter().map(String::as_str) {
                let newest = owed.range((namespace, i64::MIN)..=(namespace, window.from))?.next_back().transpose()?;
                let around = newest.map(|(key, to)| Window { from: key.value().1, to: to.value() });
                let Some(Window { from, to }) = around.filter(|around| around.to >= window.to) else {
                    return Err(Trouble::NotOwed(format!("{namespace} from {} to {}", window.from, window.to)));
                };
                owed.remove((namespace, from))?;
                for (from, to) in [(from, window.from), (window.to, to)] {
                    if from < to {
                        owed.insert((namespace, from), to)?;
                    }
                }
            }
            add(txn, gathered)
        })
    }

    /// The state of the source at the last commit.
    pub fn memory(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|txn| Ok(txn.open_table(MEMORY)?.get(())?.map(|memory| memory.value().to_vec())))
    }

    /// Adds the usage of a window that cannot be read again, with the state of the source.
    pub fn add_present(&self, window: Window, gathered: &Gathered, memory: Option<&[u8]>) -> Result<(), StoreError> {
        self.write(|txn| {
            let planned = txn.open_table(FACTS)?.insert(PLANNED_FACT, window.to)?.map(|planned| planned.value());
            if planned.is_some_and(|planned| planned > window.from) {
                return Err(Trouble::NotOwed(format!("the window from {}", window.from)));
            }
            if let Some(memory) = memory {
                txn.open_table(MEMORY)?.insert((), memory)?;
            }
            add(txn, gathered)
        })
    }

    /// The number of bytes that were read of the file with this beginning.
    pub fn file_position(&self, beginning: &str) -> Result<u64, StoreError> {
        self.read(|txn| Ok(txn.open_table(FILES)?.get(beginning)?.map_or(0, |position| position.value())))
    }

    /// Adds the usage in a file between two positions, and notes that it was read.
    pub fn settle_file(&self, beginning: &str, from: u64, to: u64, gathered: &Gathered) -> Result<(), StoreError> {
        self.write(|txn| {
            let known = txn.open_table(FILES)?.insert(beginning, to)?.map_or(0, |position| position.value());
            if known != from {
                return Err(Trouble::NotOwed(format!("bytes {from} to {to}")));
            }
            add(txn, gathered)
        })
    }
}
