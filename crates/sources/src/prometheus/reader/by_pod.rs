//! Reads usage by pod and container, who made the pods, and what became of the containers.
//!
//! Images are not asked for: who keeps usage by workload has the images from the cluster. Many namespaces are asked about at
//! once, because most are small.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use headroom_core::request::kinds::{JOB, POD, REPLICA_SET};
use headroom_usage::DAY;
use headroom_usage::sample::{Resource, Sample, Window, is_possible};

use super::super::answer;
use super::super::names::State;
use super::super::query::{PromQl, Queries};
use super::super::selector::{Match, Matchers, PRESENT, Selector};
use super::{ContainerRef, Killed, StoreReader};
use crate::SourceError;

/// A life of fewer steps is shorter than what CPU is averaged over, so it is averaged over itself.
const BRIEF_STEPS: i64 = 2;

const HOUR: i64 = 3_600;
/// The time of the last sample of a container that is gone is known to so many seconds.
const QUARTER: u32 = 900;

const THROTTLED: &str = "container_cpu_cfs_throttled_periods_total";
const PERIODS: &str = "container_cpu_cfs_periods_total";
/// Metrics of OOM kills.
const KILLED: [&str; 3] = [
    "kube_pod_container_status_last_terminated_reason",
    "kube_pod_init_container_status_last_terminated_reason",
    "kube_pod_container_status_terminated_reason",
];

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
pub struct Objects {
    pub made: Vec<OwnedObject>,
    /// The namespaces that may have OOM kills.
    pub killed: BTreeSet<String>,
}

/// The seconds that each container ran on each day.
#[derive(Debug, Default)]
pub struct Lives {
    /// By container and end of the day.
    pub days: HashMap<ContainerRef, BTreeMap<i64, Life>>,
}

/// The life of a container on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    pub seconds: u64,
    /// The CPU that it used on average, in nanocores, if it was there too briefly for a distribution.
    pub mean_cpu: Option<u64>,
}

impl Lives {
    pub fn on(&self, container: &ContainerRef, end_of_day: i64) -> Option<Life> {
        self.days.get(container)?.get(&end_of_day).copied()
    }

    pub fn extend(&mut self, other: Self) {
        self.days.extend(other.days);
    }
}

/// The CFS periods of a container, and those in which it was throttled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    pub periods: u64,
    pub throttled: u64,
}

impl StoreReader {
    pub fn knows(&self, resource: Resource) -> bool {
        match resource {
            Resource::Cpu => self.names.cpu.is_some(),
            Resource::Memory => self.names.memory.is_some(),
            Resource::EphemeralStorage => self.names.storage.is_some(),
        }
    }

    /// Returns true if the store has kube-state-metrics, and with it owners and OOM kills.
    pub fn knows_state(&self) -> bool {
        self.names.state.is_some()
    }

    /// For how many seconds of each day each container was seen.
    pub async fn lives(&self, namespaces: &[String], window: Window) -> Result<Lives, SourceError> {
        let mut lives = Lives::default();
        let namespaces = texts(namespaces);
        let scrape = i64::from(self.names.scrape_seconds);
        let brief_seconds = BRIEF_STEPS * i64::from(self.step_seconds);
        let most_samples = brief_seconds.div_euclid(scrape);
        for days in whole_and_other_days(window) {
            let seconds = days.seconds().min(DAY);
            let Some(question) = self.queries().lives(&namespaces, seconds) else { return Ok(lives) };
            let mut has_brief = false;
            self.daily(&question, days, &mut |container, end, samples| {
                let seconds = (samples as i64).saturating_mul(scrape).clamp(1, DAY);
                has_brief |= seconds < brief_seconds;
                lives.days.entry(container).or_default().insert(end, Life { seconds: seconds as u64, mean_cpu: None });
            })
            .await?;
            let brief = self.queries().brief_lives(&namespaces, most_samples, seconds).filter(|_| has_brief);
            let Some(question) = brief else { continue };
            self.daily(&question, days, &mut |container, end, cores| {
                let life = lives.days.get_mut(&container).and_then(|days| days.get_mut(&end));
                if let Some(life) = life.filter(|life| (life.seconds as i64) < brief_seconds) {
                    let mean = (cores.max(0.0) * 1e9).round() as u64;
                    life.mean_cpu = Some(mean).filter(|mean| is_possible(*mean, Resource::Cpu));
                }
            })
            .await?;
        }
        Ok(lives)
    }

    /// Reads in which hours each container used more than twice the CPU that it uses on average: when they began, and how much.
    pub async fn busy_hours(
        &self,
        namespaces: &[String],
        window: Window,
    ) -> Result<Vec<(ContainerRef, i64, u64)>, SourceError> {
        let question = self.queries().busy_hours(&texts(namespaces), window.seconds(), window.to);
        let Some(question) = question else { return Ok(Vec::new()) };
        let hour = |at: i64| at.div_euclid(HOUR) * HOUR;
        let ends = Window { from: hour(window.from + HOUR), to: hour(window.to) + HOUR };
        let mut found = Vec::new();
        self.api
            .range(&question, ends, HOUR as u32, &mut |row| {
                let container = self.container(&row);
                let hours = row.points().iter().filter(|(end, _)| window.contains(end - HOUR));
                found.extend(hours.map(|(end, cores)| (container.clone(), end - HOUR, (cores * 1e9) as u64)));
                Ok(())
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
            Matchers::default().and(&usage.pod, Match::Begins(pods)).and(&usage.container, Match::Is(container));
        let queries = self.queries_of(resource);
        let queries = Queries { matchers: &queries.matchers.clone().and_all(&matchers), ..queries };
        let Some(question) = queries.hourly(&[namespace], resource) else { return Ok(Vec::new()) };
        let hour = |at: i64| at.div_euclid(HOUR) * HOUR;
        let ends = Window { from: hour(window.from) + HOUR, to: hour(window.to) + 2 * HOUR };
        let mut found = Vec::new();
        self.api
            .range(&question, ends, HOUR as u32, &mut |row| {
                let begun = row.samples(resource).map(|sample| Sample { time: sample.time - HOUR, ..sample });
                found.push((self.container(&row).pod, begun.collect()));
                Ok(())
            })
            .await?;
        Ok(found)
    }

    /// Reads when containers that ended in the last day before a moment were last seen.
    pub async fn ended(&self, namespaces: &[String], to: i64) -> Result<BTreeMap<ContainerRef, i64>, SourceError> {
        let mut found = BTreeMap::new();
        let Some(question) = self.queries().ended(&texts(namespaces), QUARTER.into(), to) else { return Ok(found) };
        let ends = Window { from: to - DAY + i64::from(QUARTER), to: to + 1 };
        self.api
            .range(&question, ends, QUARTER, &mut |row| {
                let last = row.points().iter().map(|(end, _)| *end).max();
                found.extend(last.map(|last| (self.container(&row), last)));
                Ok(())
            })
            .await?;
        Ok(found)
    }

    /// Reads the memory that each container exceeded for a minute or two at most.
    pub async fn lasting_memory(
        &self,
        namespaces: &[String],
        window: Window,
    ) -> Result<Vec<(ContainerRef, u64)>, SourceError> {
        let question = self.queries().lasting_memory(&texts(namespaces), window.seconds());
        let Some(question) = question else { return Ok(Vec::new()) };
        let rows = self.api.moment(&question, Some(window.to)).await?;
        Ok(rows.iter().filter_map(|row| Some((self.container(row), row.value()?.max(0.0) as u64))).collect())
    }

    /// Asks about each day before the end of a window, newest last, and hands over each number with the end of its day.
    pub(super) async fn daily(
        &self,
        question: &PromQl,
        window: Window,
        each: &mut (dyn FnMut(ContainerRef, i64, f64) + Send),
    ) -> Result<(), SourceError> {
        // As in each window, the last step looks back on what is before the end.
        let back = i64::from(self.step_seconds);
        let days = (window.seconds() + DAY - 1).div_euclid(DAY).max(1);
        let ends = Window { from: window.to - (days - 1) * DAY - back, to: window.to + DAY - back };
        let day = u32::try_from(DAY).unwrap_or(u32::MAX);
        self.api
            .range(question, ends, day, &mut |row| {
                let container = self.container(&row);
                row.points().iter().for_each(|(time, number)| each(container.clone(), time + back, *number));
                Ok(())
            })
            .await
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
        let question = self.queries_of(resource).usage(&texts(namespaces), resource, false);
        let Some(question) = question else { return Ok(()) };
        let mut hand_over = |row: answer::AnswerSeries| {
            each(self.container(&row), &mut row.samples(resource));
            Ok(())
        };
        self.api.range(&question, window, self.step_of(resource), &mut hand_over).await
    }

    /// Reads the throttling of containers with a CPU limit.
    pub async fn throttling(
        &self,
        namespaces: &[String],
        window: Window,
    ) -> Result<BTreeMap<ContainerRef, Throttling>, SourceError> {
        let mut found: BTreeMap<ContainerRef, Throttling> = BTreeMap::new();
        for metric in [PERIODS, THROTTLED] {
            let question = self.queries().rise(&texts(namespaces), metric);
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

    /// Reads the owners and kills of these namespaces in a window from kube-state-metrics.
    pub async fn objects(&self, namespaces: &[String], window: Window) -> Result<Objects, SourceError> {
        let Some(state) = &self.names.state else { return Ok(Objects::default()) };
        let owners = [
            ("kube_pod_owner", POD.kind, state.place.pod.as_str()),
            ("kube_replicaset_owner", REPLICA_SET.kind, "replicaset"),
            ("kube_job_owner", JOB.kind, "job_name"),
        ];
        let (queries, namespaces) = (self.queries(), texts(namespaces));
        let is_named = [("owner_name", PRESENT), ("owner_name", Match::IsNot("<none>"))];
        let of_owners = owners.map(|(metric, ..)| queries.state_selector(state, metric, &namespaces, &is_named));
        let is_killed = [("reason", Match::Is("OOMKilled"))];
        let of_kills = KILLED.map(|metric| queries.state_selector(state, metric, &namespaces, &is_killed));
        let selectors: Vec<Selector> = of_owners.into_iter().chain(of_kills).collect();
        let mut found = Objects::default();
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

    /// The containers of these namespaces that were killed because their memory ran out.
    pub async fn kills(&self, namespaces: &[String], window: Window) -> Result<Vec<Killed>, SourceError> {
        match &self.names.state {
            Some(state) => self.kills_by(&texts(namespaces), state, window).await,
            None => Ok(Vec::new()),
        }
    }

    pub(super) fn container(&self, row: &answer::AnswerSeries) -> ContainerRef {
        ContainerRef::of(row, &self.names.usage)
    }
}

/// The days of a window: those that are not whole by themselves, the whole ones together.
fn whole_and_other_days(window: Window) -> Vec<Window> {
    let (whole, mut others): (Vec<Window>, Vec<Window>) =
        window.days().into_iter().partition(|day| day.seconds() == DAY);
    if let (Some(newest), Some(oldest)) = (whole.first(), whole.last()) {
        others.push(Window { from: oldest.from, to: newest.to });
    }
    others
}

pub(super) fn texts(namespaces: &[impl AsRef<str>]) -> Vec<&str> {
    namespaces.iter().map(AsRef::as_ref).collect()
}

fn made(state: &State, kind: &'static str, label: &str, labels: &BTreeMap<String, String>) -> Option<OwnedObject> {
    let text = |label: &str| labels.get(label).filter(|text| !text.is_empty()).cloned();
    Some(OwnedObject {
        namespace: text(&state.place.namespace)?,
        object: (kind, text(label)?),
        owner: (text("owner_kind")?, text("owner_name")?),
    })
}
