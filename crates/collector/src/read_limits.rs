//! Limits of reading a source: how much at once, and how long to wait after a failure.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use headroom_kube::retry::Retry;
use headroom_usage::DAY;
use headroom_usage::sample::Window;

/// The limits of reading.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The number of reads under way at the same time.
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
            max_query_range: DAY,
            sample_delay: 120,
            days: headroom_usage::window_merge::DAYS_KEPT,
            retry: Retry { attempts: 6, first_wait, longest_wait },
            timeout: Duration::from_secs(300),
            max_images: 20_000,
        }
    }
}

/// The present length of queries and number of namespaces in each, shared by all readers: halved when the source is overloaded, and
/// doubled after many successes.
#[derive(Debug)]
pub struct Span {
    step: i64,
    longest: i64,
    most_namespaces: usize,
    seconds: AtomicI64,
    namespaces: AtomicUsize,
    successes: AtomicU32,
}

/// Successes in a row before the span is doubled.
const SUCCESSES_TO_DOUBLE: u32 = 16;

impl Span {
    pub fn new(step: i64, longest: i64, most_namespaces: usize) -> Self {
        let (step, most_namespaces) = (step.max(1), most_namespaces.max(1));
        let longest = (longest / step * step).max(step);
        let (seconds, namespaces) = (AtomicI64::new(longest), AtomicUsize::new(most_namespaces));
        Self { step, longest, most_namespaces, seconds, namespaces, successes: AtomicU32::new(0) }
    }

    pub fn seconds(&self) -> i64 {
        self.seconds.load(Ordering::Relaxed)
    }

    pub fn namespaces(&self) -> usize {
        self.namespaces.load(Ordering::Relaxed)
    }

    /// The next window to plan. Windows end at multiples of their length, so that they are the same whenever a run starts.
    pub fn planned(&self, rest: Window) -> Window {
        Window { to: rest.to.min((rest.from.div_euclid(self.longest) + 1) * self.longest), ..rest }
    }

    /// The beginning of a window that one query reads.
    pub fn first(&self, window: Window) -> Window {
        Window { to: window.to.min(window.from + self.seconds()), ..window }
    }

    /// Asks for half of the namespaces from now on, for so many were too many.
    pub fn halve_namespaces(&self, asked: usize) {
        self.successes.store(0, Ordering::Relaxed);
        self.namespaces.fetch_min((asked / 2).max(1), Ordering::Relaxed);
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
        let is_less = self.seconds() < self.longest || self.namespaces() < self.most_namespaces;
        if is_less && self.successes.fetch_add(1, Ordering::Relaxed) + 1 >= SUCCESSES_TO_DOUBLE {
            self.successes.store(0, Ordering::Relaxed);
            self.seconds.store((self.seconds() * 2).min(self.longest), Ordering::Relaxed);
            self.namespaces.store((self.namespaces() * 2).min(self.most_namespaces), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overloaded_source_is_asked_for_half_and_later_for_more() {
        let span = Span::new(60, 3600, 8);
        assert!(span.halve(3600));
        assert!(span.halve(3600));
        assert_eq!(span.seconds(), 1800);
        assert!(span.halve(1800) && span.halve(900) && span.halve(420));
        assert_eq!(span.seconds(), 180);
        assert!(!span.halve(60));
        span.halve_namespaces(8);
        assert_eq!(span.namespaces(), 4);
        (0..SUCCESSES_TO_DOUBLE * 10).for_each(|_| span.succeeded());
        assert_eq!((span.seconds(), span.namespaces()), (3600, 8));
    }
}
