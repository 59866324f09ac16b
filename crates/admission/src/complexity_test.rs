//! For tests of work that grows with what a tenant writes.

use std::time::{Duration, Instant};

/// 32 times as many should take a little more than 32 times as long; quadratic work would take 1,024 times as long.
#[track_caller]
pub fn check(few: usize, time: impl Fn(usize) -> Duration) {
    let many = few * 32;
    // Tried again in case the machine was busy.
    assert!((0..4).any(|_| time(many) < time(few) * 320), "{many} take more than 320 times as long as {few}");
}

/// The shortest time of three, which the rest of the machine lengthens least.
#[expect(clippy::disallowed_methods, reason = "the tests measure the time")]
pub fn shortest(work: impl Fn()) -> Duration {
    let timed = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..3).map(|_| timed()).min().unwrap_or_default()
}
