//! Limits of reading a source: how much at once, and how long to wait after a failure.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use headroom_kube::retry::Retry;
use headroom_usage::sample::Window;

/// The limits that an operator may choose.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The number of namespaces that are read at the same time.
    pub concurrency: usize,
    /// The longest time range of a query, in seconds.
    pub max_query_range: i64,
    /// The age of final samples, in seconds: scrapes and remote writes come late.
    pub sample_delay: i64,
    /// The number of days before now that the first run reads.
    pub days: u32,
    /// The attempts of a read before it is left to the next run.
    pub retry: Retry,
    /// The timeout of a query.
    pub timeout: Duration,
    /// The most images (on a day each) in one result. More of them are read in shorter windows, to limit memory.
    pub max_images: usize,
}

impl Default for Pace {
    fn default() -> Self {
        let (first_wait, longest_wait) = (Duration::from_secs(1), Duration::from_secs(60));
        Self {
            concurrency: 4,
            max_query_range: 6 * 3600,
            sample_delay: 120,
            days: headroom_usage::window_merge::DAYS_KEPT,
            retry: Retry { attempts: 6, first_wait, longest_wait },
            timeout: Duration::from_secs(300),
            max_images: 20_000,
        }
    }
}

/// The present length of queries, shared by all readers. It is halved when the source is overloaded, and doubled after many
/// successes.
#[derive(Debug)]
pub struct Span {
    step: i64,
    longest: i64,
    seconds: AtomicI64,
    successes: AtomicU32,
}

/// Successes in a row before the span is doubled.
const SUCCESSES_TO_DOUBLE: u32 = 16;

impl Span {
    pub fn new(step: i64, longest: i64) -> Self {
        let step = step.max(1);
        let longest = (longest / step * step).max(step);
        Self { step, longest, seconds: AtomicI64::new(longest), successes: AtomicU32::new(0) }
    }

    /// The longest span, in whole steps.
    pub fn longest(&self) -> i64 {
        self.longest
    }

    pub fn seconds(&self) -> i64 {
        self.seconds.load(Ordering::Relaxed)
    }

    /// The beginning of a window that one query reads.
    pub fn first(&self, window: Window) -> Window {
        Window { to: window.to.min(window.from + self.seconds()), ..window }
    }

    /// Shortens the span to half of a query that was too large, in whole steps. Returns false if that was a single step.
    pub fn halve(&self, asked: i64) -> bool {
        self.successes.store(0, Ordering::Relaxed);
        if asked <= self.step {
            return false;
        }
        let half = (asked / 2 / self.step * self.step).max(self.step);
        // Concurrent queries of the same length halve it once.
        self.seconds.fetch_min(half, Ordering::Relaxed);
        true
    }

    pub fn succeeded(&self) {
        if self.seconds() < self.longest && self.successes.fetch_add(1, Ordering::Relaxed) + 1 >= SUCCESSES_TO_DOUBLE {
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
        (0..SUCCESSES_TO_DOUBLE * 10).for_each(|_| span.succeeded());
        assert_eq!(span.seconds(), 3600);
    }
}
