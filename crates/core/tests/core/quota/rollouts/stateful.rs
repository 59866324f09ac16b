//! StatefulSets and DaemonSets, which make their pods themselves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::world::{self, Pod, Random, Schedule, Template, Update, Workload, World};

#[derive(Debug, Clone)]
struct StatefulSet {
    replicas: u64,
    is_parallel: bool,
    is_on_delete: bool,
    partition: u64,
    /// None: the server does not know the field.
    max_unavailable: Option<u64>,
    template: Template,
    /// The revision that all pods had before.
    last: Template,
    /// By ordinal.
    pods: Vec<Option<Pod>>,
    /// The storage that the claims of each pod request; none without claim templates.
    storage: Option<u64>,
    /// The ordinals that have their claims. These stay when a pod goes.
    claims: BTreeSet<usize>,
}

impl StatefulSet {
    /// Creates the claims of a pod; false if they do not fit.
    fn claim(&mut self, ordinal: usize, world: &mut World) -> bool {
        let Some(storage) = self.storage.filter(|_| !self.claims.contains(&ordinal)) else { return true };
        world.claim(storage) && self.claims.insert(ordinal)
    }

    /// Somebody deletes the claims that no pod uses. With them, the forecast would see too many to be created, and says so.
    fn drop_unused_claims(&mut self, world: &mut World) {
        let pods = &self.pods;
        self.claims.retain(|ordinal| {
            let is_used = pods[*ordinal].is_some();
            if !is_used {
                world.release(self.storage.unwrap_or(0));
            }
            is_used
        });
    }

    fn template_of(&self, ordinal: usize) -> Template {
        if !self.is_on_delete && (ordinal as u64) < self.partition { self.last } else { self.template }
    }

    fn is_unavailable(&self, ordinal: usize) -> bool {
        self.pods[ordinal].is_none_or(|pod| !pod.is_ready || pod.is_leaving)
    }

    fn leave(&mut self, ordinal: usize) -> bool {
        self.pods[ordinal].as_mut().map(|pod| pod.is_leaving = true).is_some()
    }
}

impl Workload for StatefulSet {
    fn step(&mut self, _: usize, world: &mut World) -> bool {
        let replicas = self.replicas as usize;
        self.pods.resize(self.pods.len().max(replicas), None);
        let (mut changed, mut is_refused) = (false, false);
        for ordinal in 0..replicas {
            if self.pods[ordinal].is_none() {
                let template = self.template_of(ordinal);
                let Some(pod) = self.claim(ordinal, world).then(|| world.create(template)).flatten() else {
                    is_refused = true;
                    break;
                };
                self.pods[ordinal] = Some(pod);
                changed = true;
            }
            if !self.is_parallel && (changed || self.is_unavailable(ordinal)) {
                return changed;
            }
        }
        if is_refused {
            return changed;
        }
        for ordinal in (replicas..self.pods.len()).rev() {
            match self.pods[ordinal] {
                Some(pod) if !pod.is_leaving => {
                    changed |= self.leave(ordinal);
                    if !self.is_parallel {
                        return changed;
                    }
                }
                Some(_) if !self.is_parallel => return changed,
                _ => {}
            }
        }
        if self.is_on_delete {
            return changed;
        }
        let is_old = |pod: &Option<Pod>| pod.is_some_and(|pod| pod.template != self.template && !pod.is_leaving);
        let from = (self.partition as usize).min(replicas);
        let old: Vec<usize> = (from..replicas).rev().filter(|ordinal| is_old(&self.pods[*ordinal])).collect();
        if let Some(most) = self.max_unavailable {
            let unavailable = (0..replicas).filter(|ordinal| self.is_unavailable(*ordinal)).count();
            for ordinal in old.into_iter().take((most as usize).saturating_sub(unavailable)) {
                changed |= self.leave(ordinal);
            }
            return changed;
        }
        // One after the other, and only when those after it are available.
        match old.first() {
            Some(next) if !(next + 1..replicas).any(|ordinal| self.is_unavailable(ordinal)) => {
                self.leave(*next) || changed
            }
            _ => changed,
        }
    }

    fn controllers(&self) -> usize {
        1
    }

    fn pods(&mut self) -> Vec<&mut Option<Pod>> {
        self.pods.iter_mut().collect()
    }

    fn lacking(&self, _: &World) -> u64 {
        // On delete, pods keep their template.
        let is_right = |ordinal: &usize| {
            let pod = self.pods.get(*ordinal).copied().flatten();
            pod.is_some_and(|pod| {
                self.is_on_delete || *ordinal < self.partition as usize || pod.template == self.template
            })
        };
        self.replicas - (0..self.replicas as usize).filter(is_right).count() as u64
    }

    fn clone(&self) -> Box<dyn Workload> {
        Box::new(Clone::clone(self))
    }
}

#[derive(Debug, Clone)]
struct DaemonSet {
    template: Template,
    is_on_delete: bool,
    surge: usize,
    unavailable: usize,
    /// The old and the new pod of each node.
    nodes: Vec<[Option<Pod>; 2]>,
}

fn staying(pod: Option<Pod>) -> Option<Pod> {
    pod.filter(|pod| !pod.is_leaving)
}

impl DaemonSet {
    /// The place of the current template's pod on a node.
    fn place(&self) -> usize {
        usize::from(self.template == Template::New)
    }
}

impl Workload for DaemonSet {
    fn step(&mut self, _: usize, world: &mut World) -> bool {
        let mut changed = false;
        let (template, place) = (self.template, self.place());
        for node in &mut self.nodes {
            if node.iter().all(Option::is_none) {
                let Some(pod) = world.create(template) else { return changed };
                node[place] = Some(pod);
                changed = true;
            }
        }
        if self.is_on_delete || place == 0 {
            return changed;
        }
        let mut leaving: Vec<usize> = Vec::new();
        let mut created: Vec<usize> = Vec::new();
        if self.surge == 0 {
            let (mut unavailable, mut at_once) = (0, Vec::new());
            for (at, [old, new]) in self.nodes.iter().enumerate() {
                match (staying(*old), staying(*new)) {
                    (None, None) | (Some(_), Some(_)) => unavailable += 1,
                    (None, Some(new)) => unavailable += usize::from(!new.is_ready),
                    (Some(old), None) if old.is_ready => leaving.push(at),
                    (Some(_), None) => {
                        unavailable += 1;
                        at_once.push(at);
                    }
                }
            }
            leaving.truncate(self.unavailable.saturating_sub(unavailable));
            leaving.append(&mut at_once);
        } else {
            let mut surging = 0;
            let mut candidates = Vec::new();
            for (at, [old, new]) in self.nodes.iter().enumerate() {
                match (staying(*old), staying(*new)) {
                    (None, _) => {}
                    (Some(_), None) => candidates.push(at),
                    (Some(_), Some(new)) if new.is_ready => leaving.push(at),
                    (Some(_), Some(_)) => surging += 1,
                }
            }
            candidates.truncate(self.surge.saturating_sub(surging));
            // Kubernetes creates them while the others leave, and tries again when these are gone.
            created = if leaving.is_empty() { candidates } else { Vec::new() };
        }
        for at in created {
            let Some(pod) = world.create(Template::New) else { break };
            self.nodes[at][1] = Some(pod);
            changed = true;
        }
        for at in leaving {
            if let Some(old) = &mut self.nodes[at][0] {
                old.is_leaving = true;
                changed = true;
            }
        }
        changed
    }

    fn controllers(&self) -> usize {
        1
    }

    fn pods(&mut self) -> Vec<&mut Option<Pod>> {
        self.nodes.iter_mut().flatten().collect()
    }

    fn lacking(&self, _: &World) -> u64 {
        let is_right = |node: &&[Option<Pod>; 2]| {
            if self.is_on_delete { node.iter().any(Option::is_some) } else { node[self.place()].is_some() }
        };
        (self.nodes.len() - self.nodes.iter().filter(is_right).count()) as u64
    }

    fn clone(&self) -> Box<dyn Workload> {
        Box::new(Clone::clone(self))
    }
}

pub fn case(random: &mut Random, world: &mut World) -> Update {
    if random.is(60) { stateful_set(random, world) } else { daemon_set(random, world) }
}

fn stateful_set(random: &mut Random, world: &mut World) -> Update {
    let before = random.below(7);
    let (max_unavailable, is_parallel) = (random.is(40).then(|| 1 + random.below(4)), random.is(50));
    let mut set = StatefulSet {
        replicas: before,
        is_parallel,
        is_on_delete: random.is(10),
        partition: 0,
        max_unavailable,
        template: Template::Old,
        last: Template::Old,
        pods: Vec::new(),
        storage: random.is(40).then(|| random.below(8)),
        claims: BTreeSet::new(),
    };
    world::run(world, &mut set, &Schedule::Usual);
    set.drop_unused_claims(world);
    world.change_bounds(random);
    let old = set_object(&set, world);
    set.template = if random.is(80) { Template::New } else { Template::Old };
    set.replicas = if random.is(60) { before } else { random.below(7) };
    set.partition = if random.is(30) { random.below(6) } else { 0 };
    let (object, wanted) = (set_object(&set, world), set.replicas);
    let is_only_added = set.template == Template::Old || set.is_on_delete;
    let asks_for_pods = wanted > before || set.template == Template::New;
    Update {
        workload: Box::new(set),
        group: "apps",
        resource: "statefulsets",
        subresource: "",
        object,
        old,
        wanted,
        is_only_added,
        asks_for_pods,
    }
}

fn set_object(set: &StatefulSet, world: &World) -> Value {
    let mut strategy = json!({"type": if set.is_on_delete { "OnDelete" } else { "RollingUpdate" }});
    if !set.is_on_delete {
        strategy["rollingUpdate"] = json!({"partition": set.partition});
        if let Some(most) = set.max_unavailable {
            strategy["rollingUpdate"]["maxUnavailable"] = json!(most);
        }
    }
    let claim = |storage: &u64| json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": storage.to_string()}}}});
    json!({
        "kind": "StatefulSet", "metadata": {"name": "web", "resourceVersion": "1"},
        "spec": {"replicas": set.replicas, "updateStrategy": strategy, "template": world.template(set.template),
            "volumeClaimTemplates": set.storage.iter().map(claim).collect::<Vec<_>>(),
            "podManagementPolicy": if set.is_parallel { "Parallel" } else { "OrderedReady" }},
        "status": {"replicas": set.pods.iter().flatten().count()},
    })
}

fn daemon_set(random: &mut Random, world: &mut World) -> Update {
    let nodes = 1 + random.below(6);
    let surges = random.is(40);
    let [mut surge, mut unavailable] = [0, 1 + random.below(3)];
    if surges {
        [surge, unavailable] = [1 + random.below(3), 0];
    }
    let is_percent = random.is(30);
    let percent = 10 + random.below(90);
    let written = |pods: u64| if is_percent && pods > 0 { json!(format!("{percent}%")) } else { json!(pods) };
    let bounds = json!({"maxSurge": written(surge), "maxUnavailable": written(unavailable)});
    let counted =
        |pods: u64| if is_percent && pods > 0 { (nodes * percent).div_ceil(100) as usize } else { pods as usize };
    let mut set = DaemonSet {
        template: Template::Old,
        is_on_delete: random.is(5),
        surge: counted(surge),
        unavailable: counted(unavailable),
        nodes: vec![[None, None]; nodes as usize],
    };
    world::run(world, &mut set, &Schedule::Usual);
    world.change_bounds(random);
    let object = |set: &DaemonSet, world: &World| {
        let mut strategy = json!({"type": if set.is_on_delete { "OnDelete" } else { "RollingUpdate" }});
        if !set.is_on_delete {
            strategy["rollingUpdate"] = bounds.clone();
        }
        let current = set.nodes.iter().filter(|node| node.iter().any(Option::is_some)).count();
        json!({"kind": "DaemonSet", "metadata": {"name": "web", "resourceVersion": "1"},
            "spec": {"updateStrategy": strategy, "template": world.template(set.template)},
            "status": {"desiredNumberScheduled": nodes, "currentNumberScheduled": current}})
    };
    let old = object(&set, world);
    set.template = Template::New;
    let (object, is_on_delete) = (object(&set, world), set.is_on_delete);
    Update {
        workload: Box::new(set),
        group: "apps",
        resource: "daemonsets",
        subresource: "",
        object,
        old,
        wanted: nodes,
        is_only_added: is_on_delete,
        asks_for_pods: true,
    }
}
