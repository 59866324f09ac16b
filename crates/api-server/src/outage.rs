//! The log of an outage of the API server: all loops of a process share one line a minute, and one when it answers again.

use std::fmt::Display;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::parts::locked;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Outage {
    logged_at: Option<Instant>,
    is_away: bool,
}

static OUTAGE: Mutex<Outage> = Mutex::new(Outage { logged_at: None, is_away: false });

/// Logs what fails and why, at most once a minute.
pub fn failed(what: &str, error: &dyn Display) {
    let mut outage = locked(&OUTAGE);
    if outage.logged_at.is_none_or(|at| at.elapsed() >= MINUTE) {
        *outage = Outage { logged_at: Some(Instant::now()), is_away: true };
        tracing::warn!(%error, "{what}");
    }
}

/// Logs that the API server answers, if a failure was logged before.
pub fn answered() {
    let mut outage = locked(&OUTAGE);
    if std::mem::take(&mut outage.is_away) {
        tracing::info!("the API server answers again");
    }
}
