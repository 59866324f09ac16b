//! How gently a source is read: how much at once, and how long to wait after a failure.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use headroom_kube::retry::Retry;

/// What an operator may choose.
#[derive(Debug, Clone)]
pub struct Pace {
    /// How many namespaces are read at a time.
    pub concurrency: usize,
    /// The longest window that is asked for, in seconds.
    pub window: i64,
    /// How old data must be to be final, in seconds: scrapes and remote writes come late.
    pub lag: i64,
    /// How many days back the first run looks.
    pub days: u32,
    /// How often a read is tried before it is left to the next run.
    pub attempts: u32,
    /// The wait after the first failure; it doubles with each.
    pub first_wait: Duration,
    pub longest_wait: Duration,
    /// How long one answer may take before it counts as too much asked for.
    pub patience: Duration,
    /// How many images (on a day each) one answer may have before it counts as too much for our memory.
    pub most_images: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            concurrency: 4,
            window: 6 * 3600,
            lag: 120,
            days: headroom_usage::window_merge::DAYS_KEPT,
            attempts: 6,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(60),
            patience: Duration::from_secs(300),
            most_images: 20_000,
        }
    }
}

impl Pace {
    /// The attempts of a read, and the waits between them.
    pub fn retry(&self) -> Retry {
        Retry { attempts: self.attempts, first_wait: self.first_wait, longest_wait: self.longest_wait }
    }
}

/// The span that is asked for at present, shared by all readers: halved when the source is overloaded, doubled again
/// after a run of successes.
#[derive(Debug)]
pub struct Span {
    step: i64,
    longest: i64,
    seconds: AtomicI64,
    successes: AtomicU32,
}

/// Successes in a row before more is asked for.
const PATIENCE: u32 = 16;

impl Span {
    pub fn new(step: i64, longest: i64) -> Self {
        let step = step.max(1);
        let longest = (longest / step * step).max(step);
        Self { step, longest, seconds: AtomicI64::new(longest), successes: AtomicU32::new(0) }
    }

    /// The longest that is asked for at a time: whole steps.
    pub fn longest(&self) -> i64 {
        self.longest
    }

    pub fn seconds(&self) -> i64 {
        self.seconds.load(Ordering::Relaxed)
    }

    /// That much was too much: asks for half, in whole steps. False if it cannot be less.
    pub fn halve(&self, asked: i64) -> bool {
        self.successes.store(0, Ordering::Relaxed);
        if asked <= self.step {
            return false;
        }
        let half = (asked / 2 / self.step * self.step).max(self.step);
        // Readers that asked for the same at the same time halve it once together.
        self.seconds.fetch_min(half, Ordering::Relaxed);
        true
    }

    pub fn succeeded(&self) {
        if self.seconds() < self.longest && self.successes.fetch_add(1, Ordering::Relaxed) + 1 >= PATIENCE {
            self.successes.store(0, Ordering::Relaxed);
            self.seconds.store((self.seconds() * 2).min(self.longest), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overloaded_source_is_asked_for_half_and_later_for_more() {
        let span = Span::new(60, 3600);
        assert!(span.halve(3600));
        assert!(span.halve(3600));
        assert_eq!(span.seconds(), 1800);
        assert!(span.halve(1800) && span.halve(900) && span.halve(420));
        assert_eq!(span.seconds(), 180);
        assert!(!span.halve(60));
        (0..PATIENCE * 10).for_each(|_| span.succeeded());
        assert_eq!(span.seconds(), 3600);
    }
}
