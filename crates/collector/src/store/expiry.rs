//! What is dropped: days that are too old for any window, and with the last of them the claim that an image has a history
//! in a namespace.

use headroom_core::cluster::usage::Root;
use headroom_usage::window_merge::DAYS_KEPT;
use headroom_usage::{DAY, day_of};
use redb::{ReadableTable, WriteTransaction};

use super::compared::{self, DAYS_COMPARED};
use super::{DAYS, EXPIRED_FACT, FACTS, OWED, PLACES, Store, StoreError, Trouble, WORKLOADS};

impl Store {
    /// The oldest day that is kept, as the newest observation has it. A clock that is wrong cannot move it.
    pub fn oldest_kept(&self) -> Result<u32, StoreError> {
        Ok(self.newest()?.map_or(0, |newest| day_of(newest).saturating_sub(DAYS_KEPT)))
    }

    /// Drops what is older than any window that is published, as seen from the newest observation, but never from a
    /// day after `today`. Looks through the store at most once a day.
    pub fn expire(&self, today: u32) -> Result<(), StoreError> {
        let oldest = self.oldest_kept()?.min(today.saturating_sub(DAYS_KEPT));
        if self.fact(EXPIRED_FACT)? == Some(oldest.into()) {
            return Ok(());
        }
        self.write(|txn| {
            txn.open_table(DAYS)?.retain(|(_, _, _, _, day), _| day >= oldest)?;
            txn.open_table(WORKLOADS)?.retain(|(_, _, _, _, day), _| day >= oldest)?;
            compared::drop_unseen_since(txn, i64::from(oldest + DAYS_KEPT - DAYS_COMPARED) * DAY)?;
            txn.open_table(OWED)?.retain(|_, to| to > i64::from(oldest) * DAY)?;
            forget_empty_places(txn)?;
            txn.open_table(FACTS)?.insert(EXPIRED_FACT, i64::from(oldest))?;
            Ok(())
        })
    }
}

/// Forgets places without any day.
fn forget_empty_places(txn: &WriteTransaction) -> Result<(), Trouble> {
    let days = txn.open_table(DAYS)?;
    let mut places = txn.open_table(PLACES)?;
    let mut empty = Vec::new();
    for entry in places.range::<(&str, &str, &str)>(..)? {
        let key = entry?.0;
        let (namespace, repository, reference) = key.value();
        let root = Root::of(repository).number();
        let range = (root, repository, reference, namespace, 0)..(root, repository, reference, namespace, u32::MAX);
        if days.range(range)?.next().transpose()?.is_none() {
            empty.push((namespace.to_owned(), repository.to_owned(), reference.to_owned()));
        }
    }
    for (namespace, repository, reference) in &empty {
        places.remove((namespace.as_str(), repository.as_str(), reference.as_str()))?;
    }
    Ok(())
}
