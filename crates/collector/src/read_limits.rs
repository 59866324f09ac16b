//! Limits of reading a source: how much at once, and how long to wait after a failure.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use headroom_api_server::retry::Retry;
use headroom_metrics_stores::paced::UsageSlice;
use headroom_usage::DAY;
use headroom_usage::sample::Window;

/// The longest time range of a query, in seconds.
pub const MAX_QUERY_RANGE: i64 = DAY;
/// The age of final samples, in seconds: scrapes and remote writes come late.
pub const SAMPLE_DELAY: i64 = 120;
/// The longest time for a query.
pub const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone)]
pub struct Pace {
    pub concurrency: usize,
    /// The number of days before now that the first run reads.
    pub days: u32,
    /// The attempts of a read before it is left to the next run.
    pub retry: Retry,
    /// The most images (on a day each) in one result. More of them are read in shorter windows, to limit memory.
    pub max_images: usize,
}

impl Default for Pace {
    fn default() -> Self {
        let (first_wait, longest_wait) = (Duration::from_secs(1), Duration::from_secs(60));
        Self {
            concurrency: 4,
            days: headroom_usage::window_merge::DAYS_KEPT,
            retry: Retry { attempts: 6, first_wait, longest_wait },
            max_images: 20_000,
        }
    }
}

/// The present length of queries and number of namespaces in each, shared by all readers: halved when the source is overloaded, and
/// doubled after many successes.
#[derive(Debug)]
pub struct Span {
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
        Self { longest, most_namespaces, seconds, namespaces, successes: AtomicU32::new(0) }
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

    /// True if not more is asked for at once than the source bears.
    pub fn bears(&self, slice: &UsageSlice) -> bool {
        slice.window.seconds() <= self.seconds() && slice.namespaces.len() <= self.namespaces()
    }

    /// Asks for no more than the larger of these halves from now on, because the whole was too much. Returns false if less was
    /// asked for already, as of two that are refused at the same time.
    pub fn refused(&self, whole: &UsageSlice, [_, half]: &[UsageSlice; 2]) -> bool {
        let is_new = self.bears(whole);
        if is_new {
            self.successes.store(0, Ordering::Relaxed);
            match whole.namespaces.len() > 1 {
                true => self.namespaces.store(half.namespaces.len(), Ordering::Relaxed),
                false => self.seconds.store(half.window.seconds(), Ordering::Relaxed),
            }
        }
        is_new
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
        let of = |namespaces: usize, to| UsageSlice {
            namespaces: vec!["shop".to_owned(); namespaces],
            window: Window { from: 0, to },
        };
        let refused = |whole: UsageSlice| span.refused(&whole, &whole.halves(60).unwrap());
        assert!(refused(of(1, 3600)) && !refused(of(1, 3600)));
        assert_eq!(span.seconds(), 1800);
        assert!(refused(of(1, 1800)) && refused(of(1, 900)) && refused(of(1, 420)));
        assert_eq!(span.seconds(), 240);
        assert!(refused(of(8, 60)) && !span.bears(&of(8, 60)) && span.bears(&of(4, 240)));
        assert_eq!(span.namespaces(), 4);
        (0..SUCCESSES_TO_DOUBLE * 10).for_each(|_| span.succeeded());
        assert_eq!((span.seconds(), span.namespaces()), (3600, 8));
    }
}
