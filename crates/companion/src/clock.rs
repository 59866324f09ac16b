//! The machine's clock, read here only.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix seconds. A clock before the epoch reads as the epoch.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
