//! Metrics of a replica, and of quotas on the leader, in the OpenMetrics text format.

use std::collections::HashSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use headroom_admission::amount::Quantity;
use headroom_api_server::parts::{Parts, locked};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use headroom_api_server::metric_registry::{Ending, Endings, Families, count};

#[derive(Debug)]
pub struct QuotaServerMetrics {
    registry: Registry,
    reviews: Endings,
    review_seconds: Histogram,
    batch_size: Histogram,
    pub writes: Counter,
    pub conflicts: Counter,
    pub released: Counter,
    pub claims: Gauge,
    pub claim_age_seconds: Gauge,
    pub objects: Gauge,
    pub leads: Gauge,
    pub unconfigured: Gauge,
    pub failed_statuses: Counter,
    pub foreign_statuses: Counter,
    pub parts: Parts,
    quotas: Family<QuotaLabels, Gauge<f64, AtomicU64>>,
    /// The label sets that are in `quotas`.
    shown: Mutex<HashSet<QuotaLabels>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QuotaLabels {
    pub quota: String,
    pub resource: String,
    /// `hard`, `used` or `reserved`
    pub r#type: &'static str,
}

/// From a response without a write to the timeout of a review.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 7.0];
const SIZES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

impl Default for QuotaServerMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("headroom");
        let quotas = Families(&mut registry).amounts("tenantquota", "Bounds and usage of TenantQuotas");
        let mut families = Families(registry.sub_registry_with_prefix("ledger"));
        let parts = Parts::default();
        families.0.register_collector(Box::new(parts.clone()));
        let results = ["allowed", "rejected", "busy"];
        let metrics = Self {
            registry: Registry::default(),
            reviews: families.endings("reviews", "Reviews of charged requests, by answer", &results),
            review_seconds: families.histogram("review_seconds", "How long reviews took", &SECONDS),
            batch_size: families.histogram("batch_size", "Reviews that one write answered", &SIZES),
            writes: families.counter("writes", "Writes of ledgers"),
            conflicts: families.counter("conflicts", "Writes that conflicted with another replica's"),
            released: families.counter("released", "Claims of requests that failed after they were admitted here"),
            claims: families.gauge("claims", "Claims of unfinished requests"),
            claim_age_seconds: families.gauge("claim_age_seconds", "Age of the oldest claim"),
            objects: families.gauge("objects", "Objects that the leader counts"),
            leads: families.gauge("leads", "1 on the replica that counts, 0 on the others"),
            unconfigured: families
                .gauge("unconfigured", "1 on the replica that counts if the webhook configuration is not as wanted"),
            failed_statuses: families.counter("failed_statuses", "Writes of a TenantQuota's status that failed"),
            foreign_statuses: families
                .counter("foreign_statuses", "Statuses of ResourceQuotas that differed from the count"),
            parts,
            quotas,
            shown: Mutex::default(),
        };
        Self { registry, ..metrics }
    }
}

impl QuotaServerMetrics {
    pub fn reviewed(&self, result: &'static str, took: Duration) {
        count(&self.reviews, result);
        self.review_seconds.observe(took.as_secs_f64());
    }

    pub fn reviews(&self, result: &'static str) -> u64 {
        self.reviews.get_or_create(&Ending { result }).get()
    }

    pub fn wrote(&self, reviews: usize) {
        self.writes.inc();
        // Writes without reviews only update the count.
        if reviews > 0 {
            self.batch_size.observe(reviews as f64);
        }
    }

    /// Forgets what only the leader knows.
    pub fn resign(&self) {
        let gauges = [&self.leads, &self.unconfigured, &self.claims, &self.claim_age_seconds, &self.objects];
        gauges.into_iter().for_each(|gauge| _ = gauge.set(0));
        self.set_quotas(Vec::new());
    }

    /// Sets the amounts of all TenantQuotas. A concurrent scrape misses none that stays.
    pub fn set_quotas(&self, amounts: Vec<(QuotaLabels, Quantity)>) {
        let mut shown = locked(&self.shown);
        let mut gone = std::mem::take(&mut *shown);
        for (labels, amount) in amounts {
            self.quotas.get_or_create(&labels).set(amount.milli_value() as f64 / 1000.0);
            gone.remove(&labels);
            shown.insert(labels);
        }
        gone.iter().for_each(|labels| _ = self.quotas.remove(labels));
    }
}

impl fmt::Display for QuotaServerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(f, &self.registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_a_quota_exist_as_long_as_the_quota() {
        let metrics = QuotaServerMetrics::default();
        let amount = |quota: &str, r#type, amount: &str| {
            let labels = QuotaLabels { quota: quota.to_owned(), resource: "requests.cpu".to_owned(), r#type };
            (labels, amount.parse().unwrap())
        };
        metrics.set_quotas(vec![amount("payments", "hard", "100"), amount("payments", "used", "61205m")]);
        let text = metrics.to_string();
        for line in ["type=\"hard\"} 100.0\n", "type=\"used\"} 61.205\n"] {
            let line = format!("headroom_tenantquota{{quota=\"payments\",resource=\"requests.cpu\",{line}");
            assert!(text.contains(&line), "{text}");
        }
        metrics.set_quotas(vec![amount("search", "hard", "1Gi")]);
        let text = metrics.to_string();
        assert!(text.contains("{quota=\"search\",resource=\"requests.cpu\",type=\"hard\"} 1073741824.0\n"), "{text}");
        assert!(!text.contains("payments"), "{text}");
    }

    #[test]
    fn reviews_and_writes_are_counted() {
        let metrics = QuotaServerMetrics::default();
        metrics.reviewed("rejected", Duration::from_millis(4));
        metrics.wrote(3);
        metrics.wrote(0);
        let text = metrics.to_string();
        for line in [
            "headroom_ledger_reviews_total{result=\"allowed\"} 0\n",
            "headroom_ledger_reviews_total{result=\"rejected\"} 1\n",
            "headroom_ledger_review_seconds_bucket{le=\"0.005\"} 1\n",
            "headroom_ledger_batch_size_sum 3.0\n",
            "headroom_ledger_batch_size_count 1\n",
            "headroom_ledger_writes_total 2\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
