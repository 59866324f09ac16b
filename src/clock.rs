//! The only file that asks what time it is; only requests whose judgement depends on history pay for it.

use std::time::SystemTime;

use headroom_core::timestamp::Timestamp;

/// None for a clock that is set to before 1970 or after the year 9999.
pub fn now() -> Option<Timestamp> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Timestamp::from_unix_seconds(i64::try_from(since_1970.as_secs()).ok()?)
}
