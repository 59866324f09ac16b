//! Drops days that are too old for any window.

use headroom_usage::window_merge::DAYS_KEPT;
use headroom_usage::{DAY, day_of};

use super::{DAYS, EXPIRED_FACT, FACTS, OWED, Store, StoreError, WORKLOADS};

impl Store {
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
}
