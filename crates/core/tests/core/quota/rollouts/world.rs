//! A namespace with quotas, and the order in which its controllers work.

use std::collections::VecDeque;

use serde_json::{Value, json};

/// SplitMix64, after the numbers that somebody has chosen.
#[derive(Debug, Clone)]
pub struct Random {
    chosen: VecDeque<u8>,
    state: u64,
}

impl Random {
    pub fn new(seed: u64, chosen: &[u8]) -> Self {
        Self { chosen: chosen.iter().copied().collect(), state: seed }
    }

    pub fn next(&mut self) -> u64 {
        if let Some(number) = self.chosen.pop_front() {
            return number.into();
        }
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// The cpu that a pod of each template requests.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub old: u64,
    pub new: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    Old,
    New,
}

/// A pod; its workload keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pod {
    pub template: Template,
    pub is_ready: bool,
    pub is_leaving: bool,
}

/// A quota on cpu, one on pods and one on storage, and what is used of them.
#[derive(Debug, Clone)]
pub struct World {
    pub sizes: Sizes,
    cpu: (u64, u64),
    pods: (u64, u64),
    storage: (u64, u64),
    in_one_quota: bool,
    pub is_refused: bool,
}

impl World {
    pub fn new(random: &mut Random, sizes: Sizes) -> Self {
        let used = (random.below(4), random.below(3));
        let cpu = (used.0 + random.below(30), used.0);
        let pods = (used.1 + random.below(16), used.1);
        let storage = (random.below(40), 0);
        Self { sizes, cpu, pods, storage, in_one_quota: random.is(50), is_refused: false }
    }

    /// Somebody raises or lowers the bounds.
    pub fn change_bounds(&mut self, random: &mut Random) {
        for (hard, used) in [&mut self.cpu, &mut self.pods, &mut self.storage] {
            match random.below(6) {
                0 => *hard = (*used + 4).saturating_sub(random.below(8)),
                1..=3 => *hard = *used + random.below(7),
                4 => *hard += random.below(12),
                _ => {}
            }
        }
        if random.is(40) {
            self.pods.0 += 100;
        }
    }

    pub fn size(&self, template: Template) -> u64 {
        match template {
            Template::Old => self.sizes.old,
            Template::New => self.sizes.new,
        }
    }

    /// Gives the `pods` of the old template the size of new ones.
    pub fn make_sizes_equal(&mut self, pods: u64) {
        self.cpu.1 = self.cpu.1 - pods * self.sizes.old + pods * self.sizes.new;
        self.sizes.old = self.sizes.new;
    }

    /// Admits a pod if it fits.
    pub fn create(&mut self, template: Template) -> Option<Pod> {
        let cpu = self.size(template);
        if exceeds(self.cpu, cpu) || exceeds(self.pods, 1) {
            // The update does not answer for pods that were missing before.
            self.is_refused |= template == Template::New;
            return None;
        }
        self.cpu.1 += cpu;
        self.pods.1 += 1;
        Some(Pod { template, is_ready: false, is_leaving: false })
    }

    /// Admits the claims of a pod if they fit.
    pub fn claim(&mut self, storage: u64) -> bool {
        let fits = !exceeds(self.storage, storage);
        self.is_refused |= !fits;
        self.storage.1 += if fits { storage } else { 0 };
        fits
    }

    pub fn release(&mut self, storage: u64) {
        self.storage.1 -= storage;
    }

    pub fn remove(&mut self, pod: Pod) {
        self.cpu.1 -= self.size(pod.template);
        self.pods.1 -= 1;
    }

    pub fn quotas(&self) -> Vec<Value> {
        let bound =
            |name: &str, (hard, used): (u64, u64)| (json!({name: hard.to_string()}), json!({name: used.to_string()}));
        let quota = |name: &str, (hard, used): (Value, Value)| json!({"metadata": {"name": name}, "status": {"hard": hard, "used": used}});
        let (cpu, pods) = (bound("requests.cpu", self.cpu), bound("pods", self.pods));
        let storage = quota("storage", bound("requests.storage", self.storage));
        if !self.in_one_quota {
            return vec![quota("cpu", cpu), quota("pods", pods), storage];
        }
        let join = |mut one: Value, other: Value| {
            one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
            one
        };
        vec![quota("team", (join(cpu.0, pods.0), join(cpu.1, pods.1))), storage]
    }

    pub fn template(&self, template: Template) -> Value {
        let name = if template == Template::Old { "old" } else { "new" };
        let requests = json!({"cpu": self.size(template).to_string()});
        json!({"metadata": {"labels": {"template": name}},
            "spec": {"containers": [{"name": "web", "resources": {"requests": requests}}]}})
    }
}

fn exceeds((hard, used): (u64, u64), more: u64) -> bool {
    more > 0 && used + more > hard
}

/// A workload, its controllers and its pods.
pub trait Workload {
    /// One step of a controller; there are `controllers` of them, of which the last decides on the others. Returns
    /// whether it changed anything.
    fn step(&mut self, controller: usize, world: &mut World) -> bool;
    fn controllers(&self) -> usize;
    fn pods(&mut self) -> Vec<&mut Option<Pod>>;
    /// The pods that are missing or have the wrong template.
    fn lacking(&self, world: &World) -> u64;
    fn clone(&self) -> Box<dyn Workload>;
}

impl Clone for Box<dyn Workload> {
    fn clone(&self) -> Self {
        (**self).clone()
    }
}

/// An update, with the workload as it is before its controllers have seen the new spec.
pub struct Update {
    pub workload: Box<dyn Workload>,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: &'static str,
    pub object: Value,
    pub old: Value,
    pub wanted: u64,
    pub is_only_added: bool,
    /// True if there are more replicas, another template, or an end of a pause.
    pub asks_for_pods: bool,
}

/// The order in which things happen.
pub enum Schedule {
    /// Pods are created, become ready and go before the upper controller takes its next step.
    Usual,
    /// Pods are created before any becomes ready; those that leave go at once.
    Eager,
    Random(u64),
}

/// Lets the controllers work until nothing changes.
pub fn run(world: &mut World, workload: &mut dyn Workload, schedule: &Schedule) {
    /// What may happen next.
    #[derive(Clone, Copy)]
    enum Event {
        Step(usize),
        Ready,
        Gone,
    }
    let mut random = Random::new(if let Schedule::Random(seed) = schedule { *seed } else { 0 }, &[]);
    for _ in 0..10_000 {
        let upper = workload.controllers() - 1;
        let lower = (0..upper).map(Event::Step);
        let mut events: Vec<Event> = match schedule {
            Schedule::Usual => {
                [Event::Gone].into_iter().chain(lower).chain([Event::Ready, Event::Step(upper)]).collect()
            }
            Schedule::Eager => {
                [Event::Gone].into_iter().chain(lower).chain([Event::Step(upper), Event::Ready]).collect()
            }
            Schedule::Random(_) => lower.chain([Event::Step(upper), Event::Ready, Event::Gone]).collect(),
        };
        if matches!(schedule, Schedule::Random(_)) {
            random.shuffle(&mut events);
        }
        let changed = events.into_iter().any(|event| match event {
            Event::Step(controller) => workload.step(controller, world),
            Event::Ready => {
                let mut waiting: Vec<_> = workload.pods().into_iter().flatten().filter(|pod| !pod.is_ready).collect();
                random.shuffle(&mut waiting);
                waiting.first_mut().map(|pod| pod.is_ready = true).is_some()
            }
            Event::Gone => {
                let pods = workload.pods();
                let leaving = pods.into_iter().find(|pod| pod.is_some_and(|pod| pod.is_leaving));
                leaving.and_then(Option::take).map(|pod| world.remove(pod)).is_some()
            }
        });
        if !changed {
            return;
        }
    }
    panic!("the controllers do not come to rest");
}

/// The `Scale` of a workload.
pub fn scale_of(object: &Value) -> Value {
    json!({"kind": "Scale", "metadata": {"name": "web", "resourceVersion": "1"},
        "spec": {"replicas": object["spec"]["replicas"]}, "status": {"replicas": object["status"]["replicas"].as_u64().unwrap_or(0)}})
}
