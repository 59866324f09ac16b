//! What is remembered of usage: mergeable summaries that stay small however many samples there were.
//!
//! Decides how a sample is kept and what merging means. Where the summaries lie is [`crate::store`]'s business, and
//! what is published of them [`crate::profile`]'s.

pub mod bytes;
pub mod distinct;
pub mod observed;
pub mod sketch;

/// Seconds in a day; summaries are kept by day.
pub const DAY: i64 = 86_400;

/// The UTC day that holds a moment, counted from the epoch. Moments before the epoch are the first day's.
pub fn day_of(unix_seconds: i64) -> u32 {
    u32::try_from(unix_seconds.div_euclid(DAY).max(0)).unwrap_or(u32::MAX)
}
