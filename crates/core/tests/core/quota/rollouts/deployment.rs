//! Deployments with their ReplicaSets, and ReplicaSets alone.

use serde_json::{Value, json};

use super::world::{self, Pod, Random, Schedule, Template, Update, Workload, World};

#[derive(Debug, Clone)]
struct ReplicaSet {
    template: Template,
    replicas: u64,
    /// The annotation `deployment.kubernetes.io/desired-replicas`.
    desired: u64,
    pods: Vec<Option<Pod>>,
}

#[derive(Debug, Clone, Copy)]
struct Spec {
    template: Template,
    replicas: u64,
    is_paused: bool,
    recreates: bool,
    surge: u64,
    unavailable: u64,
}

#[derive(Debug, Clone)]
struct Deployment {
    spec: Spec,
    sets: Vec<ReplicaSet>,
}

impl ReplicaSet {
    fn live(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().flatten().filter(|pod| !pod.is_leaving)
    }

    fn count(&self) -> u64 {
        self.live().count() as u64
    }

    fn available(&self) -> u64 {
        self.live().filter(|pod| pod.is_ready).count() as u64
    }

    fn step(&mut self, world: &mut World) -> bool {
        let mut changed = false;
        while self.count() < self.replicas {
            let Some(pod) = world.create(self.template) else { return changed };
            self.pods.push(Some(pod));
            changed = true;
        }
        while self.count() > self.replicas {
            // Pods that are not ready go first.
            let mut live: Vec<&mut Pod> = self.pods.iter_mut().flatten().filter(|pod| !pod.is_leaving).collect();
            live.sort_by_key(|pod| pod.is_ready);
            live[0].is_leaving = true;
            changed = true;
        }
        changed
    }
}

impl Deployment {
    fn scale_to(&mut self, set: usize, replicas: u64) -> bool {
        let set = &mut self.sets[set];
        let changed = set.replicas != replicas || set.desired != self.spec.replicas;
        (set.replicas, set.desired) = (replicas, self.spec.replicas);
        changed
    }

    fn new_set(&self) -> Option<usize> {
        self.sets.iter().position(|set| set.template == self.spec.template)
    }

    fn step(&mut self) -> bool {
        let Spec { replicas, .. } = self.spec;
        let active: Vec<usize> = (0..self.sets.len()).filter(|set| self.sets[*set].replicas > 0).collect();
        let is_scaled = active.iter().any(|set| self.sets[*set].desired != replicas);
        if self.spec.is_paused || is_scaled {
            let one = match active[..] {
                [] => self.new_set().or(self.sets.len().checked_sub(1)),
                [one] => Some(one),
                _ => panic!("two active ReplicaSets are scaled in proportion, which no update here asks for"),
            };
            return one.is_some_and(|one| self.sets[one].replicas != replicas && self.scale_to(one, replicas));
        }
        if self.spec.recreates { self.recreate() } else { self.roll() }
    }

    /// Creates the new ReplicaSet if it is missing.
    fn made_new_set(&mut self) -> (usize, bool) {
        match self.new_set() {
            Some(set) => (set, false),
            None => {
                let Spec { template, replicas, .. } = self.spec;
                self.sets.push(ReplicaSet { template, replicas: 0, desired: replicas, pods: Vec::new() });
                (self.sets.len() - 1, true)
            }
        }
    }

    fn recreate(&mut self) -> bool {
        let new = self.new_set();
        let old: Vec<usize> = (0..self.sets.len()).filter(|set| Some(*set) != new).collect();
        if old.iter().any(|set| self.sets[*set].replicas > 0) {
            for set in old {
                self.scale_to(set, 0);
            }
            return true;
        }
        if old.iter().any(|set| self.sets[*set].pods.iter().any(Option::is_some)) {
            return false;
        }
        let (new, is_made) = self.made_new_set();
        self.scale_to(new, self.spec.replicas) || is_made
    }

    fn roll(&mut self) -> bool {
        let Spec { replicas, surge, unavailable, .. } = self.spec;
        let (new, is_made) = self.made_new_set();
        let specified: u64 = self.sets.iter().map(|set| set.replicas).sum();
        let wanted = self.sets[new].replicas;
        let more = (replicas + surge).saturating_sub(specified).min(replicas.saturating_sub(wanted));
        let is_scaled = if wanted > replicas {
            self.scale_to(new, replicas)
        } else {
            more > 0 && self.scale_to(new, wanted + more)
        };
        if is_scaled || is_made {
            return true;
        }
        let needed = replicas - unavailable.min(replicas);
        let lacking_new = self.sets[new].replicas.saturating_sub(self.sets[new].available());
        let may_go = specified.saturating_sub(needed + lacking_new);
        let mut changed = false;
        let mut cleaned = 0;
        for old in (0..self.sets.len()).filter(|set| *set != new) {
            if may_go == 0 {
                break;
            }
            let set = &self.sets[old];
            let unhealthy = set.replicas.saturating_sub(set.available()).min(may_go - cleaned);
            cleaned += unhealthy;
            let left = set.replicas - unhealthy;
            let available: u64 = self.sets.iter().map(ReplicaSet::available).sum();
            let down = available.saturating_sub(needed).min(left);
            if unhealthy + down > 0 {
                changed |= self.scale_to(old, left - down);
            }
        }
        changed
    }
}

impl Workload for Deployment {
    fn step(&mut self, controller: usize, world: &mut World) -> bool {
        match self.sets.get_mut(controller) {
            Some(set) => set.step(world),
            None => Deployment::step(self),
        }
    }

    fn controllers(&self) -> usize {
        self.sets.len() + 1
    }

    fn pods(&mut self) -> Vec<&mut Option<Pod>> {
        self.sets.iter_mut().flat_map(|set| set.pods.iter_mut()).collect()
    }

    fn lacking(&self, _: &World) -> u64 {
        // A paused Deployment keeps the template of its pods.
        let is_right = |set: &&ReplicaSet| self.spec.is_paused || set.template == self.spec.template;
        let right: u64 = self.sets.iter().filter(is_right).map(ReplicaSet::count).sum();
        if self.spec.is_paused && self.sets.is_empty() { 0 } else { self.spec.replicas.saturating_sub(right) }
    }

    fn clone(&self) -> Box<dyn Workload> {
        Box::new(Clone::clone(self))
    }
}

/// A ReplicaSet without a Deployment.
impl Workload for ReplicaSet {
    fn step(&mut self, _: usize, world: &mut World) -> bool {
        ReplicaSet::step(self, world)
    }

    fn controllers(&self) -> usize {
        1
    }

    fn pods(&mut self) -> Vec<&mut Option<Pod>> {
        self.pods.iter_mut().collect()
    }

    fn lacking(&self, _: &World) -> u64 {
        self.replicas.saturating_sub(self.count())
    }

    fn clone(&self) -> Box<dyn Workload> {
        Box::new(Clone::clone(self))
    }
}

/// `maxSurge` and `maxUnavailable` as an author writes them, and as numbers.
fn bounds(random: &mut Random, replicas: u64) -> (Value, u64, u64) {
    let mut one = |rounded: fn(u64, u64) -> u64| match random.below(3) {
        0 => {
            let percent = random.below(11) * 10;
            (json!(format!("{percent}%")), rounded(replicas * percent, 100))
        }
        _ => {
            let pods = random.below(4);
            (json!(pods), pods)
        }
    };
    let (surge, unavailable) = (one(u64::div_ceil), one(|pods, hundred| pods / hundred));
    let is_default = random.is(30);
    if is_default {
        return (
            Value::Null,
            (replicas * 25).div_ceil(100),
            fenced(replicas * 25 / 100, (replicas * 25).div_ceil(100)),
        );
    }
    let both = json!({"maxSurge": surge.0, "maxUnavailable": unavailable.0});
    (both, surge.1, fenced(unavailable.1, surge.1))
}

fn fenced(unavailable: u64, surge: u64) -> u64 {
    if unavailable == 0 && surge == 0 { 1 } else { unavailable }
}

fn object(spec: &Spec, bounds: &Value, deployment: Option<&Deployment>, world: &World) -> Value {
    let mut strategy = json!({"type": if spec.recreates { "Recreate" } else { "RollingUpdate" }});
    if !spec.recreates && !bounds.is_null() {
        strategy["rollingUpdate"] = bounds.clone();
    }
    let mut object = json!({
        "kind": "Deployment", "metadata": {"name": "web", "resourceVersion": "1"},
        "spec": {"replicas": spec.replicas, "paused": spec.is_paused, "strategy": strategy, "template": world.template(spec.template)},
    });
    if let Some(deployment) = deployment {
        let replicas: u64 = deployment.sets.iter().map(ReplicaSet::count).sum();
        let of_template = deployment.sets.iter().filter(|set| set.template == spec.template);
        let updated: u64 = of_template.map(ReplicaSet::count).sum();
        object["status"] = json!({"observedGeneration": 1});
        if !deployment.sets.is_empty() {
            object["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
        }
        // Zero is left out.
        for (field, count) in [("replicas", replicas), ("updatedReplicas", updated)] {
            if count > 0 {
                object["status"][field] = json!(count);
            }
        }
    }
    object
}

pub fn case(random: &mut Random, world: &mut World) -> Update {
    if random.is(10) {
        return replica_set(random, world);
    }
    let replicas = random.below(7);
    let (new_bounds, surge, unavailable) = bounds(random, replicas);
    let recreates = random.is(15);
    let spec = Spec { template: Template::New, replicas, is_paused: random.is(8), recreates, surge, unavailable };
    let is_created = random.is(10);
    let before = if random.is(70) { replicas } else { random.below(7) };
    let was_paused = random.is(15);
    let old_spec = Spec { template: Template::Old, replicas: before, is_paused: false, ..spec };
    let mut deployment = Deployment { spec: old_spec, sets: Vec::new() };
    if is_created {
        deployment.spec = spec;
        let object = object(&spec, &new_bounds, None, world);
        return update(deployment, "", (object, Value::Null), spec, [true, true]);
    }
    // Never unpaused, or paused later, when the template may have been set already.
    deployment.spec.is_paused = was_paused && random.is(40);
    world::run(world, &mut deployment, &Schedule::Usual);
    world.change_bounds(random);
    deployment.spec.is_paused = was_paused;
    let pods = deployment.sets.iter().map(ReplicaSet::count).sum();
    // A request does not tell of which template a ReplicaSet without pods is.
    let is_known = pods > 0 || deployment.sets.iter().all(|set| set.replicas == 0);
    let is_set_already = was_paused && is_known && random.is(40);
    if is_set_already {
        // It does not contain the template of the pods either, which are taken for equal.
        world.make_sizes_equal(pods);
        deployment.spec.template = Template::New;
    }
    let template = if is_set_already || random.is(75) { Template::New } else { Template::Old };
    let spec = Spec { template, ..spec };
    let old = object(&deployment.spec, &new_bounds, Some(&deployment), world);
    let is_scale = template == deployment.spec.template && !was_paused && random.is(50);
    let spec = Spec { is_paused: spec.is_paused && !is_scale, ..spec };
    let new = if is_scale {
        let mut scale = world::scale_of(&old);
        scale["spec"]["replicas"] = json!(spec.replicas);
        scale
    } else {
        object(&spec, &new_bounds, None, world)
    };
    let is_only_added = deployment.spec.template == template && !was_paused || recreates || spec.is_paused;
    let asks_for_pods = template != deployment.spec.template && !spec.is_paused
        || spec.replicas > before
        || was_paused && !spec.is_paused;
    deployment.spec = if is_scale { Spec { replicas: spec.replicas, ..deployment.spec } } else { spec };
    let resource = if is_scale { "scale" } else { "" };
    update(deployment, resource, (new, old), spec, [is_only_added, asks_for_pods])
}

fn update(
    deployment: Deployment,
    subresource: &'static str,
    (object, old): (Value, Value),
    spec: Spec,
    [is_only_added, asks_for_pods]: [bool; 2],
) -> Update {
    Update {
        workload: Box::new(deployment),
        group: "apps",
        resource: "deployments",
        subresource,
        object,
        old,
        wanted: spec.replicas,
        is_only_added,
        asks_for_pods,
    }
}

fn replica_set(random: &mut Random, world: &mut World) -> Update {
    let before = random.below(6);
    let mut set = ReplicaSet { template: Template::New, replicas: before, desired: 0, pods: Vec::new() };
    world::run(world, &mut set, &Schedule::Usual);
    world.change_bounds(random);
    let object = |set: &ReplicaSet, world: &World| {
        json!({"kind": "ReplicaSet", "metadata": {"name": "web", "resourceVersion": "1"},
            "spec": {"replicas": set.replicas, "template": world.template(set.template)}, "status": {"replicas": set.count()}})
    };
    let old = object(&set, world);
    set.replicas = before + random.below(4);
    let (object, wanted) = (object(&set, world), set.replicas);
    Update {
        workload: Box::new(set),
        group: "apps",
        resource: "replicasets",
        subresource: "",
        object,
        old,
        wanted,
        is_only_added: true,
        asks_for_pods: wanted > before,
    }
}
