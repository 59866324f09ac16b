//! Reads who made the pods, when they were busy, and what became of the containers.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::request::kinds::{JOB, POD, REPLICA_SET};
use headroom_usage::DAY;
use headroom_usage::sample::{Resource, Sample, Window};

use super::{ContainerRef, StoreReader};
use crate::SourceError;
use crate::prometheus::jobs::Jobs;
use crate::prometheus::names::State;
use crate::prometheus::query::{self, ENDS, Queries, TENANT_QUOTA};
use crate::prometheus::selector::{Match, Matchers, PRESENT, Selector};

const HOUR: i64 = 3_600;
/// The time of the last sample of a container that is gone is known to so many seconds.
const QUARTER: u32 = 900;

const THROTTLED: &str = "container_cpu_cfs_throttled_periods_total";
const PERIODS: &str = "container_cpu_cfs_periods_total";

/// An object and its owner in kube-state-metrics: `("ReplicaSet", "web-5d8f")` of `("Deployment", "web")`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedObject {
    pub namespace: String,
    /// Kind and name.
    pub object: (&'static str, String),
    pub owner: (String, String),
}

/// Owners and OOM kills in kube-state-metrics.
#[derive(Debug, Default)]
pub struct OwnersAndKills {
    pub made: Vec<OwnedObject>,
    /// The namespaces that may have OOM kills.
    pub killed: BTreeSet<String>,
}

/// The CFS periods of a container, and those in which it was throttled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    pub periods: u64,
    pub throttled: u64,
}

impl StoreReader {
    /// Reads in which hours each container used more than twice the CPU that it uses on average: when they began, and how much.
    pub async fn busy_hours(
        &self,
        namespaces: &[&str],
        window: Window,
    ) -> Result<Vec<(ContainerRef, i64, u64)>, SourceError> {
        let question = self.queries().busy_hours(namespaces, window.seconds(), window.to);
        let Some(question) = question else { return Ok(Vec::new()) };
        let hour = |at: i64| at.div_euclid(HOUR) * HOUR;
        let ends = Window { from: hour(window.from + HOUR), to: hour(window.to) + HOUR };
        let mut found = Vec::new();
        self.api
            .range(&question, ends, HOUR as u32, &mut |row| {
                let container = self.container(&row);
                let hours = row.points().iter().filter(|(end, _)| window.contains(end - HOUR));
                found.extend(hours.map(|(end, cores)| (container.clone(), end - HOUR, (cores * 1e9) as u64)));
            })
            .await?;
        Ok(found)
    }

    /// Reads in which hours of each day each container was seen: the last one that had ended, by its number since 1970, and a bit for
    /// each hour of UTC at which one ended.
    pub async fn hours_seen(
        &self,
        namespaces: &[&str],
        window: Window,
    ) -> Result<Vec<(ContainerRef, i64, u32)>, SourceError> {
        let mut found = Vec::new();
        let Some(question) = self.queries().hours_seen(namespaces) else { return Ok(found) };
        let step = i64::from(self.step_seconds);
        self.daily(&question, window, &mut |container, end, hours| {
            found.push((container, (end - step).div_euclid(HOUR), hours as u32));
        })
        .await?;
        Ok(found)
    }

    /// Reads the peak of each hour of a container in the pods whose names begin like this, with the beginning of the hour.
    pub async fn hourly(
        &self,
        (namespace, pods, container): (&str, &str, &str),
        resource: Resource,
        window: Window,
    ) -> Result<Vec<(String, Vec<Sample>)>, SourceError> {
        let usage = &self.names.usage;
        let matchers =
            Matchers::default().and(&usage.pod, Match::Begins(&[pods])).and(&usage.container, Match::Is(container));
        let queries = Queries { pods: &matchers, ..self.queries_of(resource) };
        let Some(question) = queries.hourly(&[namespace], resource) else { return Ok(Vec::new()) };
        let hour = |at: i64| at.div_euclid(HOUR) * HOUR;
        let ends = Window { from: hour(window.from) + HOUR, to: hour(window.to) + 2 * HOUR };
        let mut found = Vec::new();
        self.api
            .range(&question, ends, HOUR as u32, &mut |row| {
                let begun =
                    row.samples(resource, HOUR as u32).map(|sample| Sample { time: sample.time - HOUR, ..sample });
                found.push((self.container(&row).pod, begun.collect()));
            })
            .await?;
        Ok(found)
    }

    /// Reads when containers that ended in the last day before a moment were last seen.
    pub async fn ended(&self, namespaces: &[&str], to: i64) -> Result<BTreeMap<ContainerRef, i64>, SourceError> {
        let mut found = BTreeMap::new();
        let Some(question) = self.queries().ended(namespaces, QUARTER.into(), to) else { return Ok(found) };
        let ends = Window { from: to - DAY + i64::from(QUARTER), to: to + 1 };
        self.api
            .range(&question, ends, QUARTER, &mut |row| {
                let last = row.points().iter().map(|(end, _)| *end).max();
                found.extend(last.map(|last| (self.container(&row), last)));
            })
            .await?;
        Ok(found)
    }

    /// Reads the throttling of containers with a CPU limit.
    pub async fn throttling(
        &self,
        namespaces: &[&str],
        window: Window,
    ) -> Result<BTreeMap<ContainerRef, Throttling>, SourceError> {
        let mut found: BTreeMap<ContainerRef, Throttling> = BTreeMap::new();
        for metric in [PERIODS, THROTTLED] {
            let question = self.queries().rise(namespaces, metric);
            self.daily(&question, window, &mut |container, _, rise| {
                let counted = found.entry(container).or_default();
                let rise = rise.round().max(0.0) as u64;
                match metric {
                    PERIODS => counted.periods += rise,
                    _ => counted.throttled += rise,
                }
            })
            .await?;
        }
        found.retain(|_, counted| counted.periods > 0);
        Ok(found)
    }

    /// Reads how many processes of each container the kernel killed for memory, also without ending the container.
    pub async fn kernel_kills(
        &self,
        namespaces: &[&str],
        window: Window,
    ) -> Result<BTreeMap<ContainerRef, u64>, SourceError> {
        let mut found = BTreeMap::new();
        let mut add = |container, _, rise: f64| *found.entry(container).or_default() += rise.round().max(0.0) as u64;
        self.daily(&self.queries().kernel_kills(namespaces), window, &mut add).await?;
        Ok(found)
    }

    /// The jobs that expose the usage of TenantQuotas. The first is the ledger's.
    pub async fn ledger_jobs(&self) -> Result<Jobs, SourceError> {
        let rows = self.api.moment(&query::tenant_quotas_by_job(&self.matchers), None).await?;
        Ok(Jobs::among(TENANT_QUOTA, &rows, &self.matchers))
    }

    pub async fn objects(&self, namespaces: &[&str], window: Window) -> Result<OwnersAndKills, SourceError> {
        let Some(state) = &self.names.state else { return Ok(OwnersAndKills::default()) };
        let owners = [
            ("kube_pod_owner", POD.kind, state.place.pod.as_str()),
            ("kube_replicaset_owner", REPLICA_SET.kind, "replicaset"),
            ("kube_job_owner", JOB.kind, "job_name"),
        ];
        let queries = self.queries();
        let is_named = [("owner_name", PRESENT), ("owner_name", Match::IsNot("<none>"))];
        let of_owners = owners.map(|(metric, ..)| queries.state_selector(state, metric, namespaces, &is_named));
        let is_killed = [("reason", Match::Is("OOMKilled"))];
        let of_kills = ENDS.map(|metric| queries.state_selector(state, metric, namespaces, &is_killed));
        let selectors: Vec<Selector> = of_owners.into_iter().chain(of_kills).collect();
        let mut found = OwnersAndKills::default();
        let mut add = |mut labels: BTreeMap<String, String>| {
            let metric = labels.remove("__name__").unwrap_or_default();
            match owners.iter().find(|(of, ..)| *of == metric) {
                Some((_, kind, label)) => found.made.extend(made(state, kind, label, &labels)),
                None => found.killed.extend(labels.remove(&state.place.namespace)),
            }
        };
        self.api.series(&selectors, window, &mut add).await?;
        Ok(found)
    }
}

fn made(state: &State, kind: &'static str, label: &str, labels: &BTreeMap<String, String>) -> Option<OwnedObject> {
    let text = |label: &str| labels.get(label).filter(|text| !text.is_empty()).cloned();
    Some(OwnedObject {
        namespace: text(&state.place.namespace)?,
        object: (kind, text(label)?),
        owner: (text("owner_kind")?, text("owner_name")?),
    })
}
