//! The log of an outage of the API server: all loops of a process share one line a minute, and one when it answers them all again.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::parts::locked;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Outage {
    logged_at: Option<Instant>,
    is_logged: bool,
    /// The lines of the loops that fail: one may get answers while another is refused.
    failing: BTreeSet<&'static str>,
}

static OUTAGE: Mutex<Outage> = Mutex::new(Outage::NONE);

/// Logs what fails and why, at most once a minute.
pub fn failed(what: &'static str, error: &dyn Display) {
    if locked(&OUTAGE).failed(what, Instant::now()) {
        tracing::warn!(%error, "{what}");
    }
}

/// Logs that the API server answers, if a failure was logged before, and nothing else fails.
pub fn answered(what: &str) {
    if locked(&OUTAGE).answered(what) {
        tracing::info!("the API server answers again");
    }
}

impl Outage {
    const NONE: Self = Self { logged_at: None, is_logged: false, failing: BTreeSet::new() };

    fn failed(&mut self, what: &'static str, now: Instant) -> bool {
        self.failing.insert(what);
        let is_told = self.logged_at.is_none_or(|at| now.duration_since(at) >= MINUTE);
        if is_told {
            (self.logged_at, self.is_logged) = (Some(now), true);
        }
        is_told
    }

    fn answered(&mut self, what: &str) -> bool {
        self.failing.remove(what);
        self.failing.is_empty() && std::mem::take(&mut self.is_logged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loop_that_is_answered_says_nothing_of_another() {
        let (mut outage, now) = (Outage::NONE, Instant::now());
        assert!(!outage.answered("lease"));
        assert!(outage.failed("pass", now) && !outage.failed("lease", now));
        assert!(!outage.answered("lease") && !outage.answered("lease"));
        assert!(outage.answered("pass") && !outage.answered("pass"));
        assert!(!outage.failed("pass", now) && outage.failed("pass", now + MINUTE));
    }
}
