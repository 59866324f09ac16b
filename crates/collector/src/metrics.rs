//! Metrics about the collector itself, in the OpenMetrics text format. Usage is in UsageProfiles.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use headroom_core::cluster::usage::Resource;
use headroom_kube::metric_registry::{Endings, Families, count, set};
use headroom_usage::accuracy::{Sum, Sums};
use headroom_usage::batch::Gathered;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use headroom_sources::SourceError;

/// The labels of metrics about estimates.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EstimateLabels {
    namespace: String,
    resource: &'static str,
}

/// In cores or bytes, or a number of containers.
type Amounts = Family<EstimateLabels, Gauge<f64, AtomicU64>>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    samples: Counter,
    outside: Counter,
    impossible: Counter,
    reads: Endings,
    owed: Gauge,
    planned: Gauge,
    runs: Endings,
    last_success: Gauge,
    profiles: Endings,
    profile_bytes: Gauge,
    store_bytes: Gauge,
    stores_damaged: Counter,
    leads: Gauge,
    /// In the order of [`Sum`]'s fields.
    estimates: [Amounts; 4],
    /// Unix seconds of the last sign of life: any answer, commit or tick.
    alive: AtomicI64,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("headroom_collector");
        let mut families = Families(&mut registry);
        let reads = ["done", "overloaded", "temporary", "permanent"];
        let profiles = ["written", "unchanged", "deleted", "failed"];
        let metrics = Self {
            registry: Registry::default(),
            samples: families.counter("samples", "Samples added to the history"),
            outside: families
                .counter("samples_outside", "Samples dropped because they were of another window than was asked for"),
            impossible: families.counter("samples_impossible", "Samples dropped because no container can use as much"),
            reads: families.endings("reads", "Questions asked of the source, by how they ended", &reads),
            runs: families.endings("runs", "Runs, by how they ended", &["done", "failed"]),
            profiles: families.endings("profiles", "Profiles, by what was done about them", &profiles),
            owed: families.gauge("owed_pieces", "Windows of namespaces still to be read"),
            planned: families.gauge("planned_timestamp_seconds", "Everything before this moment was read or is owed"),
            last_success: families.gauge("last_success_timestamp_seconds", "When the last run ended well"),
            profile_bytes: families.gauge("profile_bytes", "Size of all profiles together"),
            store_bytes: families.gauge("store_bytes", "Size of the store on disk"),
            stores_damaged: families.counter("stores_damaged", "Damaged stores that were moved aside"),
            leads: families.gauge(
                "leads",
                "1 if this collector holds the lease and writes, 0 if it stands by or writes to no cluster",
            ),
            estimates: [
                ("estimated_containers", "Containers whose requests were estimated, as far as seen within 7 days"),
                ("estimated_containers_above", "Of those, how many used more than estimated for over 5% of their time"),
                ("estimated_requests", "What was estimated for those containers, in cores or bytes"),
                ("estimated_usage", "What those containers used on average, in cores or bytes"),
            ]
            .map(|(name, help)| families.amounts(name, help)),
            alive: AtomicI64::default(),
        };
        Self { registry, ..metrics }
    }
}

impl Metrics {
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

    pub fn owed(&self, pieces: u64) {
        set(&self.owed, pieces);
    }

    pub fn planned_up_to(&self, moment: i64) {
        self.planned.set(moment);
    }

    pub fn ran(&self, now: i64, is_done: bool) {
        count(&self.runs, if is_done { "done" } else { "failed" });
        if is_done {
            self.last_success.set(now);
        }
    }

    /// Counts a profile: `written`, `unchanged`, `deleted` or `failed`.
    pub fn profile(&self, result: &'static str) {
        count(&self.profiles, result);
    }

    pub fn sizes(&self, profiles: u64, store: u64) {
        set(&self.profile_bytes, profiles);
        set(&self.store_bytes, store);
    }

    /// Counts a damaged store that was moved aside.
    pub fn store_damaged(&self) {
        self.stores_damaged.inc();
    }

    /// Sets whether this collector holds the Lease.
    pub fn leads(&self, leads: bool) {
        self.leads.set(leads.into());
        if !leads {
            self.estimates(&BTreeMap::new());
        }
    }

    /// Sets the accuracy of estimates by namespace. Only the collector that holds the Lease exports it.
    pub fn estimates(&self, of_namespaces: &BTreeMap<String, Sums>) {
        self.estimates.iter().for_each(Family::clear);
        for (namespace, sums) in of_namespaces {
            for (resource, Sum { containers, above, estimated, used }) in Resource::ALL.into_iter().zip(sums) {
                if *containers == 0 {
                    continue;
                }
                let of = EstimateLabels { namespace: namespace.clone(), resource: resource.name() };
                let unit = if resource == Resource::Cpu { 1e9 } else { 1.0 };
                let amount = |amount: &u64| *amount as f64 / unit;
                let shown = [*containers as f64, *above as f64, amount(estimated), amount(used)];
                for (family, amount) in self.estimates.iter().zip(shown) {
                    family.get_or_create(&of).set(amount);
                }
            }
        }
    }

    /// Records a sign of life.
    pub fn alive(&self, now: i64) {
        self.alive.store(now, Ordering::Relaxed);
    }

    pub fn last_sign_of_life(&self) -> i64 {
        self.alive.load(Ordering::Relaxed)
    }

    pub fn samples(&self) -> u64 {
        self.samples.get()
    }
}

/// The text of a scrape.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(f, &self.registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_help_and_its_own_values() {
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

    #[test]
    fn estimates_are_shown_in_cores_and_bytes_as_long_as_there_are_any() {
        let metrics = Metrics::default();
        let cpu = Sum { containers: 4, above: 1, estimated: 1_500_000_000, used: 250_000_000 };
        let sums = BTreeMap::from([("shop".to_owned(), [cpu, Sum::default(), Sum::default()])]);
        metrics.estimates(&sums);
        let text = metrics.to_string();
        let shown: Vec<&str> = text.lines().filter(|line| line.contains("{namespace=")).collect();
        assert_eq!(
            shown,
            [
                r#"headroom_collector_estimated_containers{namespace="shop",resource="cpu"} 4.0"#,
                r#"headroom_collector_estimated_containers_above{namespace="shop",resource="cpu"} 1.0"#,
                r#"headroom_collector_estimated_requests{namespace="shop",resource="cpu"} 1.5"#,
                r#"headroom_collector_estimated_usage{namespace="shop",resource="cpu"} 0.25"#,
            ]
        );
        metrics.leads(false);
        assert!(!metrics.to_string().contains("shop"));
    }
}
