//! What the collector tells of itself, in Prometheus' text format.
//!
//! Counts of our own doing only; what was collected is in the profiles.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::collect::gathered::Gathered;
use crate::source::SourceError;

#[derive(Debug, Default)]
pub struct Metrics {
    samples: AtomicU64,
    outside: AtomicU64,
    reads_done: AtomicU64,
    reads_overloaded: AtomicU64,
    reads_temporary: AtomicU64,
    reads_permanent: AtomicU64,
    owed: AtomicU64,
    planned: AtomicI64,
    runs_done: AtomicU64,
    runs_failed: AtomicU64,
    last_success: AtomicI64,
    profiles_written: AtomicU64,
    profiles_unchanged: AtomicU64,
    profiles_deleted: AtomicU64,
    profiles_failed: AtomicU64,
    profile_bytes: AtomicU64,
    store_bytes: AtomicU64,
    leads: AtomicU64,
    /// Unix seconds of the last sign of life: any answer, commit or tick.
    alive: AtomicI64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Metrics {
    pub fn gathered(&self, gathered: &Gathered) {
        add(&self.samples, gathered.samples);
        add(&self.outside, gathered.outside);
    }

    pub fn read(&self, error: Option<&SourceError>) {
        let counter = match error {
            None => &self.reads_done,
            Some(SourceError::Overloaded(_)) => &self.reads_overloaded,
            Some(SourceError::Temporary(_)) => &self.reads_temporary,
            Some(SourceError::Permanent(_)) => &self.reads_permanent,
        };
        add(counter, 1);
    }

    pub fn owed(&self, pieces: u64) {
        self.owed.store(pieces, Ordering::Relaxed);
    }

    pub fn planned_up_to(&self, moment: i64) {
        self.planned.store(moment, Ordering::Relaxed);
    }

    pub fn ran(&self, now: i64, is_done: bool) {
        add(if is_done { &self.runs_done } else { &self.runs_failed }, 1);
        if is_done {
            self.last_success.store(now, Ordering::Relaxed);
        }
    }

    pub fn profile_written(&self) {
        add(&self.profiles_written, 1);
    }

    pub fn profile_unchanged(&self) {
        add(&self.profiles_unchanged, 1);
    }

    pub fn profile_deleted(&self) {
        add(&self.profiles_deleted, 1);
    }

    pub fn profile_failed(&self) {
        add(&self.profiles_failed, 1);
    }

    pub fn sizes(&self, profiles: u64, store: u64) {
        self.profile_bytes.store(profiles, Ordering::Relaxed);
        self.store_bytes.store(store, Ordering::Relaxed);
    }

    /// Whether this collector is the one that writes.
    pub fn leads(&self, leads: bool) {
        self.leads.store(leads.into(), Ordering::Relaxed);
    }

    /// Notes a sign of life.
    pub fn alive(&self, now: i64) {
        self.alive.store(now, Ordering::Relaxed);
    }

    pub fn last_sign_of_life(&self) -> i64 {
        self.alive.load(Ordering::Relaxed)
    }

    pub fn samples(&self) -> u64 {
        self.samples.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut family = |name: &str, kind: &str, help: &str, values: &[(&str, &dyn fmt::Display)]| {
            writeln!(f, "# HELP headroom_collector_{name} {help}\n# TYPE headroom_collector_{name} {kind}")?;
            values.iter().try_for_each(|(labels, value)| writeln!(f, "headroom_collector_{name}{labels} {value}"))
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let moment = |counter: &AtomicI64| counter.load(Ordering::Relaxed);
        family("samples_total", "counter", "Samples added to the history.", &[("", &count(&self.samples))])?;
        family(
            "samples_outside_total",
            "counter",
            "Samples dropped because they were of another window than was asked for.",
            &[("", &count(&self.outside))],
        )?;
        family(
            "reads_total",
            "counter",
            "Questions asked of the source, by how they ended.",
            &[
                (r#"{result="done"}"#, &count(&self.reads_done)),
                (r#"{result="overloaded"}"#, &count(&self.reads_overloaded)),
                (r#"{result="temporary"}"#, &count(&self.reads_temporary)),
                (r#"{result="permanent"}"#, &count(&self.reads_permanent)),
            ],
        )?;
        family("owed_pieces", "gauge", "Windows of namespaces still to be read.", &[("", &count(&self.owed))])?;
        family(
            "planned_timestamp_seconds",
            "gauge",
            "Everything before this moment was read or is owed.",
            &[("", &moment(&self.planned))],
        )?;
        family(
            "runs_total",
            "counter",
            "Runs, by how they ended.",
            &[(r#"{result="done"}"#, &count(&self.runs_done)), (r#"{result="failed"}"#, &count(&self.runs_failed))],
        )?;
        family(
            "last_success_timestamp_seconds",
            "gauge",
            "When the last run ended well.",
            &[("", &moment(&self.last_success))],
        )?;
        family(
            "profiles_total",
            "counter",
            "Profiles, by what was done about them.",
            &[
                (r#"{result="written"}"#, &count(&self.profiles_written)),
                (r#"{result="unchanged"}"#, &count(&self.profiles_unchanged)),
                (r#"{result="deleted"}"#, &count(&self.profiles_deleted)),
                (r#"{result="failed"}"#, &count(&self.profiles_failed)),
            ],
        )?;
        family("profile_bytes", "gauge", "Size of all profiles together.", &[("", &count(&self.profile_bytes))])?;
        family("store_bytes", "gauge", "Size of the store on disk.", &[("", &count(&self.store_bytes))])?;
        family(
            "leads",
            "gauge",
            "1 if this collector holds the lease and writes, 0 if it stands by or writes to no cluster.",
            &[("", &count(&self.leads))],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_described_and_every_value_stands_in_its_family() {
        let metrics = Metrics::default();
        metrics.read(Some(&SourceError::Overloaded(String::new())));
        metrics.ran(1_763_683_200, true);
        let text = metrics.to_string();
        let mut family = String::new();
        for line in text.lines() {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                family = described.split(' ').next().unwrap().to_owned();
                assert!(text.contains(&format!("# HELP {family} ")));
            } else if !line.starts_with('#') {
                assert!(line.starts_with(&family), "{line}");
            }
        }
        assert!(text.contains("headroom_collector_reads_total{result=\"overloaded\"} 1\n"));
        assert!(text.contains("headroom_collector_last_success_timestamp_seconds 1763683200\n"));
    }
}
