//! Damaged stores: found when they are opened, or when a page is read, and moved aside.
//!
//! redb verifies its checksums only when it is asked to, and panics on some pages that cannot be right.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use super::{Store, StoreError, Trouble};

impl Store {
    /// Opens the store; a damaged one is moved aside, because the source still has what was in it. True if it was.
    pub fn open_or_replace(path: &Path) -> Result<(Self, bool), StoreError> {
        match Self::open(path) {
            Err(damaged @ StoreError::Damaged { .. }) => Ok((Self::open_in_place_of(path, &damaged)?, true)),
            opened => Ok((opened?, false)),
        }
    }

    /// Goes on with an empty store.
    pub fn replace(&mut self, damaged: &StoreError) -> Result<(), StoreError> {
        let old = std::mem::replace(self, Self::open_in_place_of(&self.path, damaged)?);
        // Closing it may fail as reading did, and nothing in it counts any more.
        _ = caught(|| {
            drop(old);
            Ok(())
        });
        Ok(())
    }

    fn open_in_place_of(path: &Path, damaged: &StoreError) -> Result<Self, StoreError> {
        let aside = path.with_added_extension("damaged");
        std::fs::rename(path, &aside).map_err(|error| super::worded(path, error.into()))?;
        tracing::error!(aside = %aside.display(), "{damaged}: moved aside, and collection begins again");
        Self::open(path)
    }
}

thread_local! {
    /// None outside of [`caught`]; true if redb panicked in it.
    static PANICKED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Runs what uses the database. A panic in redb becomes an error, without a text; any other goes on.
pub(super) fn caught<T>(what: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            let is_of_redb = panicked.location().is_some_and(|place| place.file().contains("/redb-"));
            match PANICKED.get() {
                Some(_) if is_of_redb => PANICKED.set(Some(true)),
                _ => before(panicked),
            }
        }));
    });
    let around = PANICKED.replace(Some(false));
    let done = panic::catch_unwind(AssertUnwindSafe(what));
    match (done, PANICKED.replace(around)) {
        (Ok(done), _) => done,
        (Err(_), Some(true)) => Err(Trouble::Panicked),
        (Err(panicked), _) => panic::resume_unwind(panicked),
    }
}
