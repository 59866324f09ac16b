//! Metrics of the loop, in the OpenMetrics text format.

use std::fmt;
use std::sync::atomic::AtomicU64;

use crate::decision::{ComputeResource, Event, Note};
use headroom_api_server::metric_registry::{Endings, Families, count, set};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
    /// `up` or `down`
    direction: &'static str,
}

#[derive(Debug)]
pub struct ResizerMetrics {
    registry: Registry,
    changes: Endings,
    rounds: Endings,
    pods: [Gauge; 6],
    would: Family<ResourceLabels, Gauge<f64, AtomicU64>>,
    pub last_pass: Gauge,
    pub leads: Gauge,
    pub supported: Gauge,
}

#[derive(Debug, Default)]
pub struct PassCounts {
    pub pods: u64,
    pub measured: u64,
    pub under_way: u64,
    would: u64,
    waits: u64,
    unfit: u64,
    /// Millicores and bytes, of each those that would be added and removed.
    more: [[u64; 2]; 2],
}

impl Default for ResizerMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("headroom_resize");
        let mut families = Families(&mut registry);
        let results = ["begun", "settled", "taken_back", "dropped"];
        let changes = families.endings("changes", "Changes of running pods, by what became of them", &results);
        let results = ["done", "overtaken", "failed"];
        let rounds = families.endings("rounds", "Rounds for a workload, by how they ended", &results);
        let pods = [
            ("pods", "Running pods that are looked at"),
            ("pods_measured", "Of those, how many have recent usage in the metrics API"),
            ("pods_under_way", "Pods with a change under way"),
            ("pods_would_change", "Pods that would be changed in another mode"),
            ("pods_waiting", "Pods whose change waits for others, or for tomorrow"),
            ("pods_unfit", "Pods whose change would be refused or would wait"),
        ];
        let pods = pods.map(|(name, help)| families.gauge(name, help));
        let would = families.amounts("would_change", "Requests that would change in another mode, in cores or bytes");
        let last_pass = families.gauge("last_pass_timestamp_seconds", "When the cluster was last looked at");
        let leads = families.gauge("leads", "1 on the replica that resizes, 0 on the others");
        let supported = families.gauge("supported", "1 if the API server has pods/resize");
        Self { registry, changes, rounds, pods, would, last_pass, leads, supported }
    }
}

impl ResizerMetrics {
    pub fn ended(&self, result: &'static str) {
        count(&self.rounds, result);
    }

    pub fn seen(&self, seen: &PassCounts) {
        let PassCounts { pods, measured, under_way, would, waits, unfit, more } = *seen;
        for (gauge, amount) in self.pods.iter().zip([pods, measured, under_way, would, waits, unfit]) {
            set(gauge, amount);
        }
        for ((resource, unit), amounts) in [("cpu", 1e3), ("memory", 1.0)].into_iter().zip(more) {
            for (direction, amount) in ["up", "down"].into_iter().zip(amounts) {
                self.would.get_or_create(&ResourceLabels { resource, direction }).set(amount as f64 / unit);
            }
        }
    }

    pub fn noted(&self, event: &Event) {
        let result = match event {
            Event::Begun { .. } => "begun",
            Event::Settled => "settled",
            Event::TakingBack { .. } => "taken_back",
            Event::Dropped(_) | Event::GivenUp(_) => "dropped",
            _ => return,
        };
        count(&self.changes, result);
    }
}

impl PassCounts {
    pub fn add(&mut self, notes: &[Note]) {
        for Note { event, .. } in notes {
            match event {
                Event::Would { containers, .. } => {
                    self.would += 1;
                    for of in containers {
                        for (resource, [up, down]) in ComputeResource::ALL.into_iter().zip(&mut self.more) {
                            let [from, to] = [of.from, of.to].map(|size| size.requests.of(resource).unwrap_or(0));
                            *up += to.saturating_sub(from);
                            *down += from.saturating_sub(to);
                        }
                    }
                }
                Event::Waits(_) => self.waits += 1,
                Event::DoesNotFit(_) => self.unfit += 1,
                _ => {}
            }
        }
    }
}

impl fmt::Display for ResizerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(f, &self.registry)
    }
}
