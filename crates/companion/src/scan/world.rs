//! The workloads of a cluster as far as a scan wants to know them, the chain of their owners, and who scales them.
//!
//! Kubernetes' own kinds are read whole, because their templates are judged; of pods, and of ReplicaSets and Jobs that somebody
//! makes, only a few facts are kept, so that a large cluster fits into little memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::history::Places;
use super::owners::{Key, Owners, comes_and_goes};
use crate::kinds::{ApiKind, metadata};
use crate::recommend::owner::{self, Owner};
use crate::surroundings::{Surroundings, is_of_unknown_kind, without_bookkeeping};

/// Something whose containers are advised on.
#[derive(Debug, Clone)]
pub struct Workload {
    pub key: Key,
    pub api_version: String,
    /// The object with the containers: the workload itself, or what it owns where its own kind is not known here.
    pub object: Value,
    /// What the object is, if it is not the workload itself: `replicaset/web-5d8f`.
    pub through: Option<String>,
    /// What is at the top of the chain of owners above the workload: `kafka/events`.
    pub managed_by: Option<String>,
    pub running: Running,
}

/// What its pods are up to now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Running {
    /// Pods that have not ended.
    pub pods: u64,
    /// By container.
    pub restarts: BTreeMap<String, u64>,
    /// Containers whose last end was for want of memory.
    pub killed: BTreeMap<String, u64>,
}

/// What is there.
#[derive(Debug, Default)]
pub struct World {
    pub workloads: Vec<Workload>,
    /// HorizontalPodAutoscalers as they stand.
    pub autoscalers: Vec<Value>,
    pub notes: Vec<String>,
}

/// Kinds with a template, in the order in which they are told.
const TEMPLATES: [(&str, &str); 7] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
];

/// What may become a workload when all is read.
#[derive(Default)]
struct Found {
    owners: Owners,
    workloads: BTreeMap<Key, Workload>,
    /// Objects that unknown kinds made, newest last: each may stand for its owner.
    made: Vec<(Owner, Value)>,
    running: HashMap<(String, String), Running>,
    ended: u64,
    scaled_to_none: u64,
}

/// Reads what runs in a namespace, or in all; `problem` words what could not be read.
pub fn read(
    around: &mut dyn Surroundings,
    namespace: Option<&str>,
    problem: impl Fn(String) -> String,
) -> Result<(World, Places), String> {
    let mut found = Found::default();
    let mut problems: Vec<String> = Vec::new();
    for (api_version, kind) in TEMPLATES {
        let read = around.visit(api_version, kind, namespace, &mut |object| found.add_template(kind, object));
        // An old cluster has none of a kind that it does not know.
        problems.extend(read.err().filter(|error| !is_of_unknown_kind(error)).map(&problem));
    }
    let read = around.visit("v1", "Pod", namespace, &mut |object| found.add_pod(object));
    problems.extend(read.err().map(&problem));
    if problems.len() > TEMPLATES.len() {
        return Err(problems.swap_remove(0));
    }
    let mut world = World { notes: problems, ..World::default() };
    match around.list("autoscaling/v2", "HorizontalPodAutoscaler", namespace) {
        Ok(autoscalers) => world.autoscalers = autoscalers,
        Err(unknown) if is_of_unknown_kind(&unknown) => {}
        Err(other) => world.notes.push(problem(other)),
    }
    let places = found.close(around, &mut world);
    Ok((world, places))
}

impl Found {
    fn add_template(&mut self, kind: &str, mut object: Value) {
        let namespace = metadata(&object, "namespace").to_owned();
        let key = Key::new(&namespace, kind, metadata(&object, "name"));
        let owner = Owner::of(&object);
        if let Some(owner) = &owner {
            self.owners.add_owner(key.clone(), owner);
        }
        let is_made = comes_and_goes(kind);
        match owner {
            // Its maker is read, or will be.
            Some(owner) if is_made && is_known(&owner) => return,
            _ if is_made && has_ended(&object) => return self.ended += 1,
            Some(owner) if is_made => {
                if owner::is_scaled(&object) {
                    without_bookkeeping(&mut object);
                    self.made.push((owner, object));
                }
                return;
            }
            _ => {}
        }
        if !owner::is_scaled(&object) {
            self.scaled_to_none += 1;
        }
        self.add(key, object);
    }

    fn add(&mut self, key: Key, mut object: Value) {
        without_bookkeeping(&mut object);
        let api_version = ApiKind::of(&object).api_version();
        let workload = Workload {
            key: key.clone(),
            api_version,
            object,
            through: None,
            managed_by: None,
            running: Running::default(),
        };
        self.workloads.insert(key, workload);
    }

    fn add_pod(&mut self, mut object: Value) {
        let (namespace, name) = (metadata(&object, "namespace").to_owned(), metadata(&object, "name").to_owned());
        let key = Key::new(&namespace, "Pod", &name);
        let owner = Owner::of(&object).filter(|owner| owner.kind != "Node");
        if let Some(owner) = &owner {
            self.owners.add_owner(key.clone(), owner);
        }
        if has_ended(&object) {
            self.ended += u64::from(owner.is_none());
            return;
        }
        self.running.insert((namespace, name), running(&object));
        match owner {
            Some(owner) if is_known(&owner) => {}
            Some(owner) => {
                without_bookkeeping(&mut object);
                self.made.push((owner, object));
            }
            None => self.add(key, object),
        }
    }

    fn close(mut self, around: &mut dyn Surroundings, world: &mut World) -> Places {
        // Of what an unknown kind made, the newest stands for its owner.
        self.made.sort_by(|(_, a), (_, b)| metadata(a, "creationTimestamp").cmp(metadata(b, "creationTimestamp")));
        for (owner, object) in std::mem::take(&mut self.made) {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            let through = format!("{}/{}", kind.to_lowercase(), metadata(&object, "name"));
            let key = Key::new(metadata(&object, "namespace"), &owner.kind, &owner.name);
            self.add(key.clone(), object);
            if let Some(workload) = self.workloads.get_mut(&key) {
                workload.api_version = owner.api_version;
                workload.through = Some(through);
            }
        }
        let rank = |workload: &Workload| {
            TEMPLATES.iter().position(|(_, kind)| *kind == workload.key.kind).unwrap_or(TEMPLATES.len())
        };
        world.workloads = std::mem::take(&mut self.workloads).into_values().collect();
        world.workloads.sort_by(|a, b| {
            (&a.key.namespace, rank(a), &a.key.kind, &a.key.name).cmp(&(
                &b.key.namespace,
                rank(b),
                &b.key.kind,
                &b.key.name,
            ))
        });
        let mut tops = Tops::default();
        for workload in &mut world.workloads {
            workload.managed_by = tops.above(workload, around);
        }
        world.notes.extend(tops.problem);
        let numbered = world.workloads.iter().enumerate();
        let numbers = numbered.map(|(number, workload)| (workload.key.clone(), number)).collect();
        let places = Places { owners: self.owners, numbers };
        for ((namespace, pod), running) in self.running {
            let workload = places.of_pod(&namespace, &pod).and_then(|number| world.workloads.get_mut(number));
            if let Some(workload) = workload {
                workload.running.add(running);
            }
        }
        for (count, what) in [
            (self.ended, "finished pods and Jobs are left out: they will not ask for anything again"),
            (self.scaled_to_none, "workloads are scaled to 0: their advice saves nothing until they run"),
        ] {
            if count > 0 {
                world.notes.push(format!("{count} {what}"));
            }
        }
        places
    }
}

impl Running {
    fn add(&mut self, other: Self) {
        self.pods += other.pods;
        other.restarts.into_iter().for_each(|(name, count)| *self.restarts.entry(name).or_default() += count);
        other.killed.into_iter().for_each(|(name, count)| *self.killed.entry(name).or_default() += count);
    }
}

fn running(pod: &Value) -> Running {
    let mut running = Running { pods: 1, ..Running::default() };
    for list in ["/status/containerStatuses", "/status/initContainerStatuses"] {
        for status in pod.pointer(list).and_then(Value::as_array).into_iter().flatten() {
            let name = status.get("name").and_then(Value::as_str).unwrap_or_default();
            let restarts = status.get("restartCount").and_then(Value::as_u64).unwrap_or(0);
            if restarts > 0 {
                running.restarts.insert(name.to_owned(), restarts);
            }
            let reason = |state: &str| status.pointer(state).and_then(Value::as_str);
            let ends = [reason("/lastState/terminated/reason"), reason("/state/terminated/reason")];
            if ends.contains(&Some("OOMKilled")) {
                running.killed.insert(name.to_owned(), 1);
            }
        }
    }
    running
}

/// Whether objects of the owner's kind are read themselves.
fn is_known(owner: &Owner) -> bool {
    let group = ApiKind::new(&owner.api_version, &owner.kind).group;
    TEMPLATES.iter().any(|(api_version, kind)| *kind == owner.kind && ApiKind::new(api_version, kind).group == group)
}

/// A pod or a job that will never ask for anything again.
fn has_ended(object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed")) || object.pointer("/status/completionTime").is_some()
}

/// Longer chains do not exist but by mistake.
const LONGEST_CHAIN: usize = 8;

/// The tops of the chains of owners, each object above a workload asked for once.
#[derive(Default)]
struct Tops {
    above: HashMap<Key, Option<(Owner, Key)>>,
    refused: BTreeSet<String>,
    /// The first thing that could not be read.
    problem: Option<String>,
}

impl Tops {
    /// What manages a workload, seen from the very top.
    fn above(&mut self, workload: &Workload, around: &mut dyn Surroundings) -> Option<String> {
        let first = match workload.through {
            // The workload itself is the owner of what was read.
            Some(_) => self.next(&workload.api_version, &workload.key, around),
            None => Owner::of(&workload.object).filter(|owner| owner.kind != "Node").map(|owner| {
                let key = Key::new(&workload.key.namespace, &owner.kind, &owner.name);
                (owner, key)
            }),
        };
        let (mut owner, mut key) = first?;
        for _ in 0..LONGEST_CHAIN {
            match self.next(&owner.api_version, &key, around) {
                Some(next) => (owner, key) = next,
                None => break,
            }
        }
        Some(key.told())
    }

    fn next(&mut self, api_version: &str, key: &Key, around: &mut dyn Surroundings) -> Option<(Owner, Key)> {
        if let Some(known) = self.above.get(key) {
            return known.clone();
        }
        let next = self.read(api_version, key, around).and_then(|object| {
            let owner = Owner::of(&object)?;
            let key = Key::new(&key.namespace, &owner.kind, &owner.name);
            Some((owner, key))
        });
        self.above.insert(key.clone(), next.clone());
        next
    }

    fn read(&mut self, api_version: &str, key: &Key, around: &mut dyn Surroundings) -> Option<Value> {
        let kind = format!("{api_version} {}", key.kind);
        if self.refused.contains(&kind) {
            return None;
        }
        match around.get(api_version, &key.kind, Some(&key.namespace), &key.name) {
            Ok(object) => object,
            Err(problem) => {
                self.refused.insert(kind);
                if !is_of_unknown_kind(&problem) && self.problem.is_none() {
                    self.problem = Some(format!("owners of {} are not known: {problem}", key.told()));
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::{Folder, Overlay};
    use serde_json::json;

    fn owned(kind: &str, api: &str, name: &str, owner: Option<(&str, &str, &str)>, more: Value) -> Value {
        let owners: Vec<Value> = owner
            .into_iter()
            .map(|(api, kind, name)| json!({"apiVersion": api, "kind": kind, "name": name, "controller": true}))
            .collect();
        let mut object = json!({"apiVersion": api, "kind": kind,
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners}});
        for (field, value) in more.as_object().unwrap() {
            object[field] = value.clone();
        }
        object
    }

    fn world(objects: Vec<Value>) -> World {
        let mut folder = Folder::default();
        objects.into_iter().for_each(|object| folder.put(object).unwrap());
        let mut around = Overlay::new(folder, None);
        read(&mut around, Some("shop"), |problem| problem).unwrap().0
    }

    #[test]
    fn every_kind_is_found_once_and_the_chain_of_owners_is_followed_to_its_top() {
        let scaled = |replicas: u64| json!({"spec": {"replicas": replicas}});
        let status = |restarts: u64, reason: &str| {
            json!({"status": {"phase": "Running", "containerStatuses": [{"name": "a", "restartCount": restarts,
                "lastState": {"terminated": {"reason": reason}}}]}})
        };
        let world = world(vec![
            owned("Deployment", "apps/v1", "web", None, scaled(2)),
            owned("ReplicaSet", "apps/v1", "web-1", Some(("apps/v1", "Deployment", "web")), scaled(2)),
            owned("Pod", "v1", "web-1-a", Some(("apps/v1", "ReplicaSet", "web-1")), status(2, "OOMKilled")),
            owned("Pod", "v1", "web-1-b", Some(("apps/v1", "ReplicaSet", "web-1")), status(1, "Error")),
            owned("ReplicaSet", "apps/v1", "canary-1", Some(("argoproj.io/v1alpha1", "Rollout", "canary")), scaled(0)),
            owned("ReplicaSet", "apps/v1", "canary-2", Some(("argoproj.io/v1alpha1", "Rollout", "canary")), scaled(1)),
            owned("Pod", "v1", "canary-2-a", Some(("apps/v1", "ReplicaSet", "canary-2")), json!({})),
            owned("StatefulSet", "apps/v1", "events", Some(("kafka.example.com/v1", "NodePool", "events")), scaled(1)),
            owned(
                "NodePool",
                "kafka.example.com/v1",
                "events",
                Some(("kafka.example.com/v1", "Kafka", "all")),
                json!({}),
            ),
            owned("Pod", "v1", "set-0", Some(("example.com/v1", "PodSet", "set")), json!({})),
            owned("CronJob", "batch/v1", "night", None, json!({})),
            owned("Job", "batch/v1", "night-1", Some(("batch/v1", "CronJob", "night")), json!({})),
            owned("Job", "batch/v1", "once", None, json!({"status": {"completionTime": "2026-11-21T00:00:00Z"}})),
            owned("Pod", "v1", "debug", None, json!({})),
            owned("Pod", "v1", "proxy-node1", Some(("v1", "Node", "node1")), json!({})),
            owned("Deployment", "apps/v1", "off", None, scaled(0)),
        ]);
        let told: Vec<String> = world
            .workloads
            .iter()
            .map(|workload| {
                let Workload { key, through, managed_by, running, .. } = workload;
                format!("{} {through:?} {managed_by:?} {}", key.told(), running.pods)
            })
            .collect();
        assert_eq!(
            told,
            [
                "deployment/off None None 0",
                "deployment/web None None 2",
                r#"statefulset/events None Some("kafka/all") 0"#,
                "cronjob/night None None 0",
                "pod/debug None None 1",
                "pod/proxy-node1 None None 1",
                r#"podset/set Some("pod/set-0") None 1"#,
                r#"rollout/canary Some("replicaset/canary-2") None 1"#,
            ]
        );
        let web = &world.workloads[1].running;
        assert_eq!((web.restarts.get("a"), web.killed.get("a")), (Some(&3), Some(&1)));
        assert_eq!(
            world.notes,
            [
                "1 finished pods and Jobs are left out: they will not ask for anything again",
                "1 workloads are scaled to 0: their advice saves nothing until they run",
            ]
        );
    }
}
