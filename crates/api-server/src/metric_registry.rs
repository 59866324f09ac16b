//! Families of metrics in the OpenMetrics text format, for the collector and the quota controller.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Ending {
    pub result: &'static str,
}

pub type Endings = Family<Ending, Counter>;

pub fn count(endings: &Endings, result: &'static str) {
    endings.get_or_create(&Ending { result }).inc();
}

pub fn set(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

pub struct Families<'r>(pub &'r mut Registry);

impl Families<'_> {
    pub fn counter(&mut self, name: &str, help: &str) -> Counter {
        self.add(name, help, Counter::default())
    }

    pub fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        self.add(name, help, Gauge::default())
    }

    /// An amount for each set of labels.
    pub fn amounts<L>(&mut self, name: &str, help: &str) -> Family<L, Gauge<f64, AtomicU64>>
    where
        L: EncodeLabelSet + Clone + Debug + Eq + Hash + Send + Sync + 'static,
    {
        self.add(name, help, Family::default())
    }

    /// Registers a counter by result. All results are exported from the start, so that rates can be computed.
    pub fn endings(&mut self, name: &str, help: &str, results: &[&'static str]) -> Endings {
        let endings = self.add(name, help, Endings::default());
        for result in results {
            drop(endings.get_or_create(&Ending { result }));
        }
        endings
    }

    pub fn histogram(&mut self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        self.add(name, help, Histogram::new(buckets.iter().copied()))
    }

    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Of {
        name: String,
    }

    #[test]
    fn no_value_of_a_label_ends_early() {
        let mut registry = Registry::default();
        let amounts = Families(&mut registry).amounts("a", "b");
        amounts.get_or_create(&Of { name: "x\"} 2\n# EOF\\".to_owned() }).set(1.0);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert_eq!(text.lines().find(|line| line.starts_with("a{")), Some(r#"a{name="x\"} 2\n# EOF\\"} 1.0"#));
    }
}
