//! Metrics about the collector itself, in the OpenMetrics text format. Usage is in UsageProfiles.

use std::fmt;

use headroom_api_server::metric_registry::{Endings, Families, count, set};
use headroom_api_server::parts::Parts;
use headroom_usage::batch::Gathered;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use headroom_metrics_stores::SourceError;

#[derive(Debug)]
pub struct CollectorMetrics {
    registry: Registry,
    samples: Counter,
    outside: Counter,
    impossible: Counter,
    reads: Endings,
    pub owed: Gauge,
    pub planned: Gauge,
    runs: Endings,
    pub last_success: Gauge,
    /// `written`, `unchanged`, `deleted` or `failed`
    pub profiles: Endings,
    profile_bytes: Gauge,
    store_bytes: Gauge,
    pub stores_damaged: Counter,
    pub leads: Gauge,
    pub parts: Parts,
}

impl Default for CollectorMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("headroom_collector");
        let mut families = Families(&mut registry);
        let reads = ["done", "overloaded", "temporary", "permanent"];
        let parts = Parts::default();
        families.0.register_collector(Box::new(parts.clone()));
        let profiles = ["written", "unchanged", "deleted", "failed"];
        Self {
            samples: families.counter("samples", "Samples added to the history"),
            outside: families
                .counter("samples_outside", "Samples dropped because they were of another window than was asked for"),
            impossible: families.counter("samples_impossible", "Samples dropped because no container can use as much"),
            reads: families.endings("reads", "Questions asked of the source, by how they ended", &reads),
            runs: families.endings("runs", "Runs, by how they ended", &["done", "failed"]),
            profiles: families.endings("profiles", "Profiles, by what was done about them", &profiles),
            owed: families.gauge("owed_pieces", "Windows of namespaces still to be read"),
            planned: families.gauge("planned_timestamp_seconds", "Everything before this moment was read or is owed"),
            last_success: families.gauge(
                "last_success_timestamp_seconds",
                "When the last run ended well, if the last publication did too",
            ),
            profile_bytes: families.gauge("profile_bytes", "Size of all profiles together"),
            store_bytes: families.gauge("store_bytes", "Size of the store on disk"),
            stores_damaged: families.counter("stores_damaged", "Damaged stores that were moved aside"),
            leads: families.gauge(
                "leads",
                "1 if this collector holds the lease and writes, 0 if it stands by or writes to no cluster",
            ),
            parts,
            registry,
        }
    }
}

impl CollectorMetrics {
    pub fn gathered(&self, gathered: &Gathered) {
        self.samples.inc_by(gathered.samples);
        self.outside.inc_by(gathered.outside);
        self.impossible.inc_by(gathered.impossible.count);
        if gathered.impossible.count > 0 {
            tracing::warn!("left out {}", gathered.impossible);
        }
    }

    pub fn read(&self, error: Option<&SourceError>) {
        let result = match error {
            None => "done",
            Some(SourceError::Overloaded(_)) => "overloaded",
            Some(SourceError::Temporary(_)) => "temporary",
            Some(_) => "permanent",
        };
        count(&self.reads, result);
    }

    pub fn ran(&self, is_done: bool) {
        count(&self.runs, if is_done { "done" } else { "failed" });
    }

    pub fn sizes(&self, profiles: u64, store: u64) {
        set(&self.profile_bytes, profiles);
        set(&self.store_bytes, store);
    }
}

/// The text of a scrape.
impl fmt::Display for CollectorMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(f, &self.registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_runs_are_counted_by_how_they_ended() {
        let metrics = CollectorMetrics::default();
        metrics.read(Some(&SourceError::Overloaded(String::new())));
        metrics.ran(true);
        let text = metrics.to_string();
        assert!(text.contains("headroom_collector_reads_total{result=\"overloaded\"} 1\n"));
        assert!(text.contains("headroom_collector_runs_total{result=\"done\"} 1\n"));
    }
}
