//! Mergeable summaries of usage, whose size does not depend on the number of samples. The collector stores them, and publishes
//! them as UsageProfiles ([`profile`]).
//!
//! Modules in reading order.

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod profile;

pub mod sample;

pub mod varint;

pub mod cardinality;
pub mod sketch;

pub mod busy_pods;

pub mod observed;

pub mod covered;

pub mod batch;
pub mod window_merge;

/// Seconds in a day; summaries are kept by day.
pub const DAY: i64 = 86_400;

/// The UTC day that holds a moment, counted from the epoch. Moments before the epoch are the first day's.
pub fn day_of(unix_seconds: i64) -> u32 {
    u32::try_from(unix_seconds.div_euclid(DAY).max(0)).unwrap_or(u32::MAX)
}
