//! Assigns what pods used to their workloads.

use std::collections::{BTreeMap, HashMap};

use headroom_metrics_stores::prometheus::reader::{ContainerRef, Throttling};
use headroom_usage::observed::{Kill, Observed};
use headroom_usage::sample::{Series, Window, is_possible};
use headroom_usage::{cardinality, day_of};
use headroom_workloads::owner::{self, PodOwners};

use super::course::Course;

/// The pods whose usage is read up to a moment.
#[derive(Debug)]
pub struct PodsRead {
    pub owners: PodOwners,
    pub to: i64,
}

impl PodsRead {
    /// The age of a moment, in days of UTC: five minutes more of data change nothing but today.
    pub fn age(&self, at: i64) -> u32 {
        day_of(self.to - 1).saturating_sub(day_of(at))
    }
}

#[derive(Debug, Default)]
pub struct ContainerPart {
    /// By the age of the day.
    pub days: BTreeMap<u32, Observed>,
    pub course: Course,
    pub throttling: Throttling,
    pub kernel_kills: u64,
    pub lacks_kill_limit: bool,
}

/// The usage that one query returned, by the number of the workload and the name of the container.
#[derive(Debug, Default)]
pub struct PartialHistory {
    pub containers: HashMap<(usize, String), ContainerPart>,
    /// Pods that no workload stands for, by the kind of their owner, which is empty if nobody tells it.
    pub strangers: BTreeMap<String, cardinality::Distinct>,
}

impl PartialHistory {
    /// The usage of a container; none if no workload stands for its pod.
    pub fn of(&mut self, place: &ContainerRef, pods: &PodsRead) -> Option<&mut ContainerPart> {
        let workload = pods.owners.of_pod(&place.namespace, &place.pod)?;
        Some(self.containers.entry((workload, place.container.clone())).or_default())
    }

    /// Adds the usage of one container in a window; also as that of its pod, kept apart from others.
    pub fn add_usage(&mut self, series: &Series, window: Window, pods: &PodsRead) {
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
            if let Some(template) = owner::template_of(&place.pod) {
                part.course.add_template(cardinality::hash(&place.namespace, template), age);
            }
        }
    }

    /// Adds a kill of a container for its memory, at a limit or at what was used.
    pub fn add_kill(&mut self, place: &ContainerRef, (at, memory): (i64, u64), is_limit: bool, pods: &PodsRead) {
        let Some(part) = self.of(place, pods) else { return };
        let of = cardinality::hash(&place.pod, &place.container);
        part.days.entry(pods.age(at)).or_default().add_kill(Kill { at, memory, of });
        part.lacks_kill_limit |= !is_limit;
    }
}

/// The number of a pod in the course of its container.
pub fn pod_of(place: &ContainerRef) -> u32 {
    cardinality::hash(&place.namespace, &place.pod)
}
