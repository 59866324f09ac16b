//! Reads usage by pod and container, who made the pods, and what became of the containers.
//!
//! Images are not asked for: who keeps usage by workload has the images from the cluster. Many namespaces are asked about at
//! once, because most are small.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_usage::sample::{Resource, Sample, Window};

use super::super::names::State;
use super::super::{Options, Prometheus, answer};
use super::{Killed, Reader};
use crate::SourceError;
use crate::http::Http;

/// How finely counters are read, in seconds.
const COUNTING_SECONDS: u32 = 3_600;
/// How finely containers are counted.
const DAY_SECONDS: u32 = 86_400;

const THROTTLED: &str = "container_cpu_cfs_throttled_periods_total";
const PERIODS: &str = "container_cpu_cfs_periods_total";

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerRef {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// Who made an object, by kube-state-metrics: `("ReplicaSet", "web-5d8f")` made by `("Deployment", "web")`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub namespace: String,
    /// Kind and name.
    pub object: (&'static str, String),
    pub owner: (String, String),
}

/// How often a container could have run, and how often it had to wait for its CPU limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    pub periods: u64,
    pub throttled: u64,
}

impl Reader {
    /// Asks at once what the store calls things. Fails if it has neither CPU nor memory of any container.
    pub async fn connect(http: Http, options: Options) -> Result<Arc<Self>, SourceError> {
        Prometheus::new(http, options).probe().await
    }

    /// The store's own clock.
    pub async fn now(&self) -> Result<i64, SourceError> {
        self.api.now().await
    }

    pub fn knows(&self, resource: Resource) -> bool {
        match resource {
            Resource::Cpu => self.names.cpu.is_some(),
            Resource::Memory => self.names.memory.is_some(),
            Resource::EphemeralStorage => self.names.storage.is_some(),
        }
    }

    /// Whether kube-state-metrics is in the store, without which it tells neither owners nor kills.
    pub fn knows_state(&self) -> bool {
        self.names.state.is_some()
    }

    /// The most containers that each namespace had on any day of a window, counted once a day.
    pub async fn containers(
        &self,
        namespaces: &[String],
        window: Window,
    ) -> Result<BTreeMap<String, u64>, SourceError> {
        let names = &self.names;
        let metric = names.memory.as_ref().or(names.cpu.as_ref().map(|cpu| &cpu.metric));
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        let Some(metric) = metric else { return Ok(found) };
        let question = self.queries().containers(&texts(namespaces), metric);
        // Whole days before the end, and the end itself, which a window leaves to the next one.
        let step = i64::from(DAY_SECONDS);
        let days = window.seconds().div_euclid(step).max(0);
        let daily = Window { from: window.to - days * step, to: window.to + step };
        self.api
            .range(&question, daily, DAY_SECONDS, &mut |row| {
                let most = row.points().iter().map(|(_, count)| *count as u64).max().unwrap_or(0);
                found.insert(row.label(&names.usage.namespace).to_owned(), most);
                Ok(())
            })
            .await?;
        Ok(found)
    }

    /// Hands over what each container used of a resource. Series come one at a time, and nothing counts of a read that
    /// ends with an error.
    pub async fn usage(
        &self,
        namespaces: &[String],
        resource: Resource,
        window: Window,
        each: &mut (dyn FnMut(ContainerRef, &mut dyn Iterator<Item = Sample>) + Send),
    ) -> Result<(), SourceError> {
        let Some(question) = self.queries().usage(&texts(namespaces), resource, false) else { return Ok(()) };
        let mut hand_over = |row: answer::Row| {
            each(self.container(&row), &mut row.samples(resource));
            Ok(())
        };
        self.range(&question, window, &mut hand_over).await
    }

    /// How often containers had to wait for their CPU limit, of those that have one.
    pub async fn throttling(
        &self,
        namespaces: &[String],
        window: Window,
    ) -> Result<BTreeMap<ContainerRef, Throttling>, SourceError> {
        let mut found: BTreeMap<ContainerRef, Throttling> = BTreeMap::new();
        for metric in [PERIODS, THROTTLED] {
            let question = self.queries().counter(&texts(namespaces), metric);
            let mut count = |row: answer::Row| {
                let counted = found.entry(self.container(&row)).or_default();
                let rise = rise(row.points());
                match metric {
                    PERIODS => counted.periods = rise,
                    _ => counted.throttled = rise,
                }
                Ok(())
            };
            self.api.range(&question, window, COUNTING_SECONDS, &mut count).await?;
        }
        found.retain(|_, counted| counted.periods > 0);
        Ok(found)
    }

    /// Who made which pod, ReplicaSet and Job within a window.
    pub async fn owners(&self, namespaces: &[String], window: Window) -> Result<Vec<Made>, SourceError> {
        let Some(state) = &self.names.state else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (metric, kind, label) in [
            ("kube_pod_owner", "Pod", state.place.pod.as_str()),
            ("kube_replicaset_owner", "ReplicaSet", "replicaset"),
            ("kube_job_owner", "Job", "job_name"),
        ] {
            let is_named = [("owner_name", "!=", ""), ("owner_name", "!=", "<none>")];
            let selector = self.queries().state_selector(state, metric, &texts(namespaces), &is_named);
            let mut add = |labels: BTreeMap<String, String>| found.extend(made(state, kind, label, &labels));
            self.api.series(&selector, window, &mut add).await?;
        }
        Ok(found)
    }

    /// The namespaces in which something may have been killed for want of memory: the others need not be asked about.
    pub async fn namespaces_with_kills(
        &self,
        namespaces: &[String],
        window: Window,
    ) -> Result<Vec<String>, SourceError> {
        let Some(state) = &self.names.state else { return Ok(Vec::new()) };
        let mut found = BTreeSet::new();
        for metric in [
            "kube_pod_container_status_last_terminated_reason",
            "kube_pod_init_container_status_last_terminated_reason",
            "kube_pod_container_status_terminated_reason",
        ] {
            let is_killed = [("reason", "=", "OOMKilled")];
            let selector = self.queries().state_selector(state, metric, &texts(namespaces), &is_killed);
            let mut add = |mut labels: BTreeMap<String, String>| {
                found.extend(labels.remove(&state.place.namespace));
            };
            self.api.series(&selector, window, &mut add).await?;
        }
        Ok(found.into_iter().collect())
    }

    /// The containers of a namespace that were killed because their memory ran out.
    pub async fn kills(&self, namespace: &str, window: Window) -> Result<Vec<Killed>, SourceError> {
        match &self.names.state {
            Some(state) => self.kills_by(namespace, state, window).await,
            None => Ok(Vec::new()),
        }
    }

    fn container(&self, row: &answer::Row) -> ContainerRef {
        let usage = &self.names.usage;
        let text = |label: &str| row.label(label).to_owned();
        ContainerRef { namespace: text(&usage.namespace), pod: text(&usage.pod), container: text(&usage.container) }
    }
}

fn texts(namespaces: &[String]) -> Vec<&str> {
    namespaces.iter().map(String::as_str).collect()
}

fn made(state: &State, kind: &'static str, label: &str, labels: &BTreeMap<String, String>) -> Option<Made> {
    let text = |label: &str| labels.get(label).filter(|text| !text.is_empty()).cloned();
    Some(Made {
        namespace: text(&state.place.namespace)?,
        object: (kind, text(label)?),
        owner: (text("owner_kind")?, text("owner_name")?),
    })
}

/// By how much a counter rose; where it fell, it had been started again from nothing.
fn rise(points: &[(i64, f64)]) -> u64 {
    let mut before = points.first().map_or(0.0, |(_, value)| *value);
    let mut risen = 0.0;
    for (_, value) in points {
        risen += if *value < before { *value } else { value - before };
        before = *value;
    }
    risen.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_starts_again_goes_on_rising() {
        let check = |values: &[f64], expected| {
            let points: Vec<_> = values.iter().map(|value| (0, *value)).collect();
            assert_eq!(rise(&points), expected, "{values:?}");
        };
        check(&[], 0);
        check(&[100.0], 0);
        check(&[100.0, 150.0, 150.0], 50);
        check(&[100.0, 150.0, 20.0, 30.0], 80);
    }
}
