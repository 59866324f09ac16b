//! The only file that reads the clock, which costs only requests whose decision depends on the time.

use std::time::SystemTime;

use headroom_admission::timestamp::Timestamp;

/// None if the clock is set to before 1970 or after the year 9999.
pub fn now() -> Option<Timestamp> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Timestamp::from_unix_seconds(i64::try_from(since_1970.as_secs()).ok()?)
}
