//! The usage of containers, read into memory and kept by workload and container, however often the pods have changed since.
//!
//! `discover` finds a metrics store, `query_plan` cuts what is to be read, and `read` reads it, or the metrics API once. `course`
//! tells pods and days apart, and `description` says what that shows; `distribution`, `timeline` and `evidence` are what is shown of
//! it, and `overlay` shows it to the policy as a UsageProfile.

pub mod course;
pub mod description;
pub mod discover;
pub mod distribution;
pub mod evidence;
pub mod overlay;
mod query_plan;
mod read;
pub mod timeline;

use std::collections::{BTreeMap, HashMap};

use headroom_admission::cluster::usage::{Resource, Window as Span};

use headroom_metrics_stores::prometheus::reader::{ContainerRef, Throttling};
use headroom_usage::observed::{Kill, Observed};
use headroom_usage::sample::{Series, Window, is_possible};
use headroom_usage::sketch::Sketch;
use headroom_usage::window_merge::OpenHistory;
use headroom_usage::{DAY, cardinality, day_of};
use headroom_workloads::owner::{self, PodOwners};

use course::Course;

pub use read::{HistoryReading, read, read_instant};

/// The usage of one container of a workload.
#[derive(Debug, Default)]
pub struct ContainerUsage {
    pub usage: OpenHistory,
    pub course: Course,
    pub throttling: Throttling,
    pub kills: u64,
    /// Processes that the kernel killed: a container's main process or its children.
    pub kernel_kills: u64,
    /// True if the store does not know the memory limit at a kill.
    pub lacks_kill_limit: bool,
}

impl ContainerUsage {
    /// The days of the whole reading, whatever their number.
    pub fn sketch(&self, resource: Resource) -> &Sketch {
        self.usage.sketch(Span::Month, resource)
    }

    /// Percent of CFS periods that were throttled; none without a CPU limit.
    pub fn throttled_percent(&self) -> Option<u64> {
        let Throttling { periods, throttled } = self.throttling;
        (periods > 0).then(|| (throttled.saturating_mul(100) + periods / 2) / periods)
    }
}

/// The usage that was read, by the number of the workload and the name of the container.
#[derive(Debug, Default)]
pub struct Histories {
    containers: HashMap<(usize, String), ContainerUsage>,
    /// The end of what was read, in Unix seconds; 0 if it is not known.
    pub to: i64,
}

impl Histories {
    pub fn get(&self, workload: usize, container: &str) -> Option<&ContainerUsage> {
        // A map of pairs cannot be asked with a borrowed half.
        self.containers.get(&(workload, container.to_owned()))
    }

    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// The whole days from the newest sample of a container to the end of what was read, at which a store has usage of something;
    /// none if there is less than one.
    pub fn silent_days(&self, usage: &ContainerUsage) -> Option<u64> {
        let silence = self.to - usage.course.last_seen(self.to).filter(|_| self.to > 0)?;
        u64::try_from(silence / DAY).ok().filter(|days| *days > 0)
    }

    /// True if some container was killed for memory at a limit that the store does not know.
    pub fn lack_kill_limits(&self) -> bool {
        self.containers.values().any(|container| container.lacks_kill_limit)
    }

    /// Adds what was observed on one day.
    pub fn observe(&mut self, workload: usize, container: &str, age: u32, observed: &Observed) {
        let of = self.containers.entry((workload, container.to_owned())).or_default();
        of.kills += observed.kills().len() as u64;
        of.usage.add_observed(age, observed);
        of.course.add_day(age, observed);
    }

    #[cfg(test)]
    pub fn of_first(&mut self) -> &mut ContainerUsage {
        self.containers.entry((0, "a".to_owned())).or_default()
    }

    #[cfg(test)]
    pub fn observe_pod(&mut self, workload: usize, container: &str, age: u32, pod: u32, observed: &Observed) {
        self.observe(workload, container, age, observed);
        let of = self.containers.entry((workload, container.to_owned())).or_default();
        of.course.add_pod(pod, age, observed.clone());
    }

    fn add(&mut self, part: PartialHistory) {
        for ((workload, container), part) in part.containers {
            part.days.iter().for_each(|(age, observed)| self.observe(workload, &container, *age, observed));
            let of = self.containers.entry((workload, container)).or_default();
            of.course.merge(part.course);
            of.throttling.periods += part.throttling.periods;
            of.throttling.throttled += part.throttling.throttled;
            of.kernel_kills += part.kernel_kills;
            of.lacks_kill_limit |= part.lacks_kill_limit;
        }
    }
}

/// The pods whose usage is read up to a moment.
#[derive(Debug)]
struct PodsRead {
    owners: PodOwners,
    to: i64,
}

impl PodsRead {
    /// The age of a moment, in days of UTC: five minutes more of data change nothing but today.
    fn age(&self, at: i64) -> u32 {
        day_of(self.to - 1).saturating_sub(day_of(at))
    }
}

#[derive(Debug, Default)]
struct ContainerPart {
    /// By the age of the day.
    days: BTreeMap<u32, Observed>,
    course: Course,
    throttling: Throttling,
    kernel_kills: u64,
    lacks_kill_limit: bool,
}

/// The usage that one query returned, assigned to the workloads of its pods: by the number of the workload and the name of the container.
#[derive(Debug, Default)]
struct PartialHistory {
    containers: HashMap<(usize, String), ContainerPart>,
    /// Pods that no workload stands for, by the kind of their owner, which is empty if nobody tells it.
    strangers: BTreeMap<String, cardinality::Distinct>,
}

impl PartialHistory {
    /// The usage of a container; none if no workload stands for its pod.
    fn of(&mut self, place: &ContainerRef, pods: &PodsRead) -> Option<&mut ContainerPart> {
        let workload = pods.owners.of_pod(&place.namespace, &place.pod)?;
        Some(self.containers.entry((workload, place.container.clone())).or_default())
    }

    /// Adds the usage of one container in a window; also as that of its pod, kept apart from others.
    fn add_usage(&mut self, series: &Series, window: Window, pods: &PodsRead) {
        let (place, resource) = (ContainerRef::from(&series.container), series.resource);
        let pod = pod_of(&place);
        for (_, samples) in series.days() {
            let mut of_pod = Observed::default();
            let samples =
                samples.iter().filter(|sample| window.contains(sample.time) && is_possible(sample.value, resource));
            samples.for_each(|sample| of_pod.add(resource, sample.time, sample.value, sample.seconds));
            if of_pod.last_seen == 0 {
                continue;
            }
            let Some(part) = self.of(&place, pods) else {
                let owner = pods.owners.owners.of_pod(&place.namespace, &place.pod);
                self.strangers.entry(owner.map(|owner| owner.kind).unwrap_or_default()).or_default().add(pod);
                continue;
            };
            let age = pods.age(of_pod.last_seen);
            let observed = part.days.entry(age).or_default();
            observed.pods.add(pod);
            observed.merge(&of_pod);
            part.course.add_pod(pod, age, of_pod);
            let template = owner::template_of(&place.pod).map(|template| cardinality::hash(&place.namespace, template));
            part.course.pods.entry(pod).or_default().template = template;
        }
    }

    /// Adds a kill of a container for its memory, at a limit or at what was used.
    fn add_kill(&mut self, place: &ContainerRef, (at, memory): (i64, u64), is_limit: bool, pods: &PodsRead) {
        let Some(part) = self.of(place, pods) else { return };
        let of = cardinality::hash(&place.pod, &place.container);
        part.days.entry(pods.age(at)).or_default().add_kill(Kill { at, memory, of });
        part.lacks_kill_limit |= !is_limit;
    }
}

/// The number of a pod in the course of its container.
fn pod_of(place: &ContainerRef) -> u32 {
    cardinality::hash(&place.namespace, &place.pod)
}
