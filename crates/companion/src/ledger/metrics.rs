//! What is counted about the ledger itself, in Prometheus' format.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Metrics {
    pub allowed: Count,
    pub refused: Count,
    pub busy: Count,
    /// Microseconds that reviews took, together.
    pub review_micros: Count,
    pub writes: Count,
    /// Requests that were in those writes.
    pub batched: Count,
    pub conflicts: Count,
    pub released: Count,
    pub claims: Count,
    pub oldest_claim_seconds: Count,
    pub objects: Count,
    pub leads: Count,
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut family = |name: &str, kind: &str, help: &str, values: &[(&str, String)]| {
            writeln!(f, "# HELP headroom_ledger_{name} {help}\n# TYPE headroom_ledger_{name} {kind}")?;
            values.iter().try_for_each(|(labels, value)| writeln!(f, "headroom_ledger_{name}{labels} {value}"))
        };
        let one = |count: &Count| [("", count.get().to_string())];
        let reviews = [
            (r#"{result="allowed"}"#, self.allowed.get().to_string()),
            (r#"{result="refused"}"#, self.refused.get().to_string()),
            (r#"{result="busy"}"#, self.busy.get().to_string()),
        ];
        family("reviews_total", "counter", "Reviews of charged requests, by answer.", &reviews)?;
        let micros = self.review_micros.get();
        let seconds = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        family("review_seconds_total", "counter", "Time that reviews took.", &[("", seconds)])?;
        family("writes_total", "counter", "Writes of ledgers.", &one(&self.writes))?;
        family("batched_reviews_total", "counter", "Reviews answered by those writes.", &one(&self.batched))?;
        family("conflicts_total", "counter", "Writes that met another replica's.", &one(&self.conflicts))?;
        family(
            "released_total",
            "counter",
            "Claims of requests that failed after they were admitted here.",
            &one(&self.released),
        )?;
        family("claims", "gauge", "Claims of unfinished requests.", &one(&self.claims))?;
        family("claim_age_seconds", "gauge", "Age of the oldest claim.", &one(&self.oldest_claim_seconds))?;
        family("objects", "gauge", "Objects that the leader counts.", &one(&self.objects))?;
        family("leads", "gauge", "1 on the replica that counts, 0 on the others.", &one(&self.leads))
    }
}
