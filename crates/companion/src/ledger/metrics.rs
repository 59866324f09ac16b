//! What is counted about the ledger itself, in Prometheus' format.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use headroom_core::amount::Quantity;

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
    /// Statuses of ResourceQuotas that others had changed.
    pub foreign_statuses: Count,
    quotas: Mutex<Vec<QuotaSample>>,
}

/// What a quota has of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaSample {
    pub quota: String,
    pub resource: String,
    /// `hard`, `used` or `reserved`
    pub kind: &'static str,
    pub amount: Quantity,
}

impl Metrics {
    /// What the leader knows of the TenantQuotas.
    pub fn set_quotas(&self, samples: Vec<QuotaSample>) {
        *self.quotas.lock().unwrap_or_else(PoisonError::into_inner) = samples;
    }
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
        family("leads", "gauge", "1 on the replica that counts, 0 on the others.", &one(&self.leads))?;
        family(
            "foreign_statuses_total",
            "counter",
            "Statuses of ResourceQuotas that were not what is counted.",
            &one(&self.foreign_statuses),
        )?;
        let quotas = self.quotas.lock().unwrap_or_else(PoisonError::into_inner);
        if !quotas.is_empty() {
            writeln!(
                f,
                "# HELP headroom_tenantquota Bounds and usage of TenantQuotas.\n# TYPE headroom_tenantquota gauge"
            )?;
        }
        quotas.iter().try_for_each(|QuotaSample { quota, resource, kind, amount }| {
            let thousandths = amount.milli_value();
            let resource = resource.replace(['\\', '"', '\n'], "_");
            let amount = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            writeln!(f, r#"headroom_tenantquota{{quota="{quota}",resource="{resource}",type="{kind}"}} {amount}"#)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_told_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        assert!(!metrics.to_string().contains("tenantquota"));
        let sample = |kind, amount: &str| QuotaSample {
            quota: "payments".to_owned(),
            resource: "requests.cpu".to_owned(),
            kind,
            amount: amount.parse().unwrap(),
        };
        metrics.set_quotas(vec![sample("hard", "100"), sample("used", "61205m")]);
        let told = metrics.to_string();
        assert!(
            told.ends_with(
                "headroom_tenantquota{quota=\"payments\",resource=\"requests.cpu\",type=\"hard\"} 100.000\n\
                 headroom_tenantquota{quota=\"payments\",resource=\"requests.cpu\",type=\"used\"} 61.205\n"
            ),
            "{told}"
        );
    }
}
