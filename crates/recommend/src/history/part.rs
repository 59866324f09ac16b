//! Assigns what pods used to their workloads.

use std::collections::{BTreeMap, HashMap, HashSet};

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

    fn workload(&self, of: &ContainerRef) -> Option<usize> {
        self.owners.of_pod(&of.namespace, &of.pod)
    }
}

/// The usage that one query returned, by the number of the workload and the name of the container.
#[derive(Debug, Default)]
pub struct PartialHistory {
    pub usage: HashMap<(usize, String), BTreeMap<u32, Observed>>,
    pub courses: HashMap<(usize, String), Course>,
    pub throttling: HashMap<(usize, String), Throttling>,
    pub kernel_kills: HashMap<(usize, String), u64>,
    pub killed_at_unknown_limit: HashSet<(usize, String)>,
    /// Pods that no workload stands for, by the kind of their owner, which is empty if nobody tells it.
    pub strangers: BTreeMap<String, cardinality::Distinct>,
}

impl PartialHistory {
    /// Adds the usage of one container in a window; also as that of its pod, kept apart from others.
    pub fn add_usage(&mut self, series: &Series, window: Window, pods: &PodsRead) {
        let (place, resource) = (ContainerRef::from(&series.container), series.resource);
        let (workload, pod) = (pods.workload(&place), cardinality::hash(&place.namespace, &place.pod));
        for (_, samples) in series.days() {
            let mut of_pod = Observed::default();
            let samples =
                samples.iter().filter(|sample| window.contains(sample.time) && is_possible(sample.value, resource));
            samples.for_each(|sample| of_pod.add(resource, sample.time, sample.value, sample.seconds));
            if of_pod.last_seen == 0 {
                continue;
            }
            let Some(workload) = workload else {
                let owner = pods.owners.owners.of_pod(&place.namespace, &place.pod);
                self.strangers.entry(owner.map(|owner| owner.kind).unwrap_or_default()).or_default().add(pod);
                continue;
            };
            let age = pods.age(of_pod.last_seen);
            let observed = self.day(workload, &place.container, age);
            observed.pods.add(pod);
            observed.merge(&of_pod);
            let course = self.courses.entry((workload, place.container.clone())).or_default();
            course.add_pod(pod, age, of_pod);
            if let Some(template) = owner::template_of(&place.pod) {
                course.add_template(cardinality::hash(&place.namespace, template), age);
            }
        }
    }

    /// Adds a kill of a container for its memory, at a limit or at what was used.
    pub fn add_kill(&mut self, place: &ContainerRef, (at, memory): (i64, u64), is_limit: bool, pods: &PodsRead) {
        let Some(workload) = pods.workload(place) else { return };
        let of = cardinality::hash(&place.pod, &place.container);
        self.day(workload, &place.container, pods.age(at)).add_kill(Kill { at, memory, of });
        if !is_limit {
            self.killed_at_unknown_limit.insert((workload, place.container.clone()));
        }
    }

    pub fn add_throttling(&mut self, place: &ContainerRef, counted: Throttling, pods: &PodsRead) {
        let Some(workload) = pods.workload(place) else { return };
        let sum = self.throttling.entry((workload, place.container.clone())).or_default();
        sum.periods += counted.periods;
        sum.throttled += counted.throttled;
    }

    pub fn add_kernel_kills(&mut self, place: &ContainerRef, kills: u64, pods: &PodsRead) {
        let Some(workload) = pods.workload(place) else { return };
        *self.kernel_kills.entry((workload, place.container.clone())).or_default() += kills;
    }

    /// The course of a container, and the number of its pod in it.
    pub fn course(&mut self, place: &ContainerRef, pods: &PodsRead) -> Option<(u32, &mut Course)> {
        let pod = cardinality::hash(&place.namespace, &place.pod);
        Some((pod, self.courses.entry((pods.workload(place)?, place.container.clone())).or_default()))
    }

    /// The usage of a container on the day that is `age` days ago.
    fn day(&mut self, workload: usize, container: &str, age: u32) -> &mut Observed {
        self.usage.entry((workload, container.to_owned())).or_default().entry(age).or_default()
    }
}
