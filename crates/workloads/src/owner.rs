//! Workloads and their pods: the chain of controllers from a pod up to the workload that it is counted under.
//!
//! ReplicaSets, ReplicationControllers and Jobs come and go with each revision and run, so usage is kept under what makes
//! them: a Deployment, a CronJob, or a kind of somebody else's, such as an Argo Rollout. Everything else that makes pods is
//! a workload itself, even where an operator owns it, since its pods share one template.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::kinds::{
    self, CRON_JOB, DAEMON_SET, DEPLOYMENT, POD, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, comes_and_goes,
};
use headroom_admission::cluster::usage::workload::{HASH, RANDOM, is_generated, is_minute, is_ordinal};
use headroom_admission::json::Node;
use headroom_objects::kinds::{ApiKind, LONGEST_REFERENCE, controller_of, metadata, text};

/// The name of a workload, or of another object that owns pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct WorkloadRef {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

impl WorkloadRef {
    pub fn new(namespace: &str, kind: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }

    /// The name of an object.
    pub fn of(object: &Value) -> Self {
        Self::new(metadata(object, "namespace"), text(object, "/kind"), metadata(object, "name"))
    }

    /// `shop/Deployment/web`, which [`Self::at`] reads.
    pub fn path(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.kind, self.name)
    }

    pub fn at(path: &str) -> Option<Self> {
        let mut parts = path.splitn(3, '/');
        Some(Self::new(parts.next()?, parts.next()?, parts.next()?))
    }

    /// The name of the controller of an object.
    pub fn owner_of(object: &Value) -> Option<Self> {
        Some(Owner::of(object)?.within(metadata(object, "namespace")))
    }

    /// The name of the controller of a pod. One without a controller that [counts](Owner::counts) stands for itself.
    pub fn maker_of(pod: &Value) -> Self {
        Self::owner_of(pod).filter(|owner| counts(&owner.kind)).unwrap_or_else(|| Self::of(pod))
    }

    /// The Deployment of a pod whose ReplicaSet has this name: with the hash of the template behind the Deployment's.
    pub fn deployment_of(&self, pod: &Value) -> Option<Self> {
        let hash = pod.pointer("/metadata/labels/pod-template-hash").and_then(Value::as_str)?;
        let name = self.name.strip_suffix(hash)?.strip_suffix('-').filter(|_| self.kind == REPLICA_SET.kind)?;
        Some(Self::new(&self.namespace, DEPLOYMENT.kind, name))
    }
}

/// `deployment/web`
impl fmt::Display for WorkloadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.to_lowercase(), self.name)
    }
}

/// The controller of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

impl Owner {
    pub fn of(object: &Value) -> Option<Self> {
        let owner = controller_of(object)?;
        let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
        Some(Self { api_version: text("apiVersion"), kind: text("kind"), name: text("name") })
    }

    /// The same in a text.
    pub fn in_place(object: Node<'_>) -> Option<Self> {
        let owners = object.at(&["metadata", "ownerReferences"]).ok()??.items().ok()?;
        let is_controller =
            |owner: &Node<'_>| owner.get("controller").is_ok_and(|of| of.is_some_and(|of| of.bool() == Ok(true)));
        let owner = owners.into_iter().find(is_controller).filter(|owner| owner.text().len() <= LONGEST_REFERENCE)?;
        let text = |field: &str| owner.string(field).ok().flatten().unwrap_or_default().into_owned();
        Some(Self { api_version: text("apiVersion"), kind: text("kind"), name: text("name") })
    }

    /// True if what it owns is counted under it. A static pod is its node's, and a pod that owns others is a program that starts them, as
    /// Spark's driver and the leader of a LeaderWorkerSet.
    pub fn counts(&self) -> bool {
        counts(&self.kind)
    }

    /// True if it does, and objects of its kind are read themselves.
    pub fn is_read(&self) -> bool {
        self.counts() && kinds::of_api(&ApiKind::new(&self.api_version, &self.kind)).is_some()
    }

    /// Owners are in the namespace of what they own.
    pub fn within(&self, namespace: &str) -> WorkloadRef {
        WorkloadRef::new(namespace, &self.kind, &self.name)
    }

    /// Makes it the controller of the object with this metadata.
    pub fn write(&self, metadata: &mut Map<String, Value>) {
        let Self { api_version, kind, name } = self;
        let reference = json!({"apiVersion": api_version, "kind": kind, "name": name, "controller": true});
        metadata.insert("ownerReferences".to_owned(), json!([reference]));
    }
}

fn counts(kind: &str) -> bool {
    !["Node", POD.kind].contains(&kind)
}

/// Argo's kind, whose pods are named like those of a Deployment.
const ROLLOUT: &str = "Rollout";

/// The workload whose template an Argo Rollout uses, by its `workloadRef`.
pub fn workload_ref(rollout: &Value) -> Option<WorkloadRef> {
    let of = rollout.pointer("/spec/workloadRef")?;
    let kind = of.get("kind").and_then(Value::as_str).unwrap_or(DEPLOYMENT.kind);
    Some(WorkloadRef::new(metadata(rollout, "namespace"), kind, text(of, "/name")))
}

/// Guards against ownership cycles.
pub const MAX_CHAIN: usize = 8;

/// The owners of live objects and of those that the store remembers.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// By the path of an object, the kind and name of what made it: `shop/Pod/web-5d8f-x` by `ReplicaSet/web-5d8f`. Of all that is read
    /// of a large cluster, this has the most entries.
    made_by: HashMap<Box<str>, Box<str>>,
}

impl Owners {
    /// Notes who made an object. Who was noted first is right: the cluster knows better than the store.
    pub fn add(&mut self, object: &WorkloadRef, kind: &str, name: &str) {
        self.made_by.entry(object.path().into()).or_insert_with(|| format!("{kind}/{name}").into());
    }

    /// The workload that a pod is counted under; none if its maker is unknown.
    pub fn of_pod(&self, namespace: &str, pod: &str) -> Option<WorkloadRef> {
        let owner = self.maker(&WorkloadRef::new(namespace, POD.kind, pod))?;
        Some(self.of(owner))
    }

    /// The workload that an object's pods are counted under.
    pub fn of(&self, object: WorkloadRef) -> WorkloadRef {
        workload_above(object, &mut |of| self.maker(of))
    }

    /// The object that made another.
    pub fn maker(&self, object: &WorkloadRef) -> Option<WorkloadRef> {
        let (kind, name) = self.made_by.get(object.path().as_str())?.split_once('/')?;
        counts(kind).then(|| WorkloadRef::new(&object.namespace, kind, name))
    }
}

/// The workload that an object's pods are counted under; `find` finds the controller of another object.
pub fn workload_above(object: WorkloadRef, find: &mut dyn FnMut(&WorkloadRef) -> Option<WorkloadRef>) -> WorkloadRef {
    let mut at = object;
    for _ in 0..MAX_CHAIN {
        match find(&at).filter(|_| comes_and_goes(&at.kind)) {
            Some(maker) => at = maker,
            None => break,
        }
    }
    at
}

/// The workload of each pod, by its number.
#[derive(Debug, Default)]
pub struct PodOwners {
    pub owners: Owners,
    pub numbers: HashMap<WorkloadRef, usize>,
}

impl PodOwners {
    /// None if the workload is gone.
    pub fn of_pod(&self, namespace: &str, pod: &str) -> Option<usize> {
        if let Some(key) = self.owners.of_pod(namespace, pod) {
            return self.numbers.get(&key).copied();
        }
        let itself = WorkloadRef::new(namespace, POD.kind, pod);
        let made = stems(pod).into_iter().map(|(kind, name)| WorkloadRef::new(namespace, kind, name));
        [itself].into_iter().chain(made).find_map(|key| self.numbers.get(&key).copied())
    }
}

/// Names that the makers of a pod may have, by the ends that controllers give to pods' names: where nobody tells who
/// made a pod that is gone.
fn stems(pod: &str) -> Vec<(&'static str, &str)> {
    let Some((most, last)) = pod.rsplit_once('-') else { return Vec::new() };
    let mut stems = Vec::new();
    if is_ordinal(last) {
        stems.push((STATEFUL_SET.kind, most));
    }
    if last.len() == RANDOM && is_generated(last) {
        if let Some((name, hash)) = most.rsplit_once('-')
            && HASH.contains(&hash.len())
            && is_generated(hash)
        {
            stems.push((DEPLOYMENT.kind, name));
            stems.push((ROLLOUT, name));
        }
        if let Some((name, run)) = most.rsplit_once('-')
            && is_minute(run)
        {
            stems.push((CRON_JOB.kind, name));
        }
        stems.push((DAEMON_SET.kind, most));
        stems.push((REPLICATION_CONTROLLER.kind, most));
    }
    stems
}

/// True if a pod may belong to a workload by its name.
pub fn may_be_of(workload: &WorkloadRef, pod: &str) -> bool {
    let is_it = |(kind, name): &(&str, &str)| workload.kind.eq_ignore_ascii_case(kind) && workload.name == *name;
    let kinds = [DEPLOYMENT, STATEFUL_SET, DAEMON_SET, CRON_JOB, REPLICATION_CONTROLLER].map(|kind| kind.kind);
    let is_known = kinds.iter().chain(&[ROLLOUT]).any(|kind| workload.kind.eq_ignore_ascii_case(kind));
    pod == workload.name
        || stems(pod).iter().any(is_it)
        || !is_known && pod.strip_prefix(&workload.name).is_some_and(|rest| rest.starts_with('-'))
}

/// The ReplicaSet of a pod of a Deployment by the pod's name: another one for each version of the pod's template.
pub fn template_of(pod: &str) -> Option<&str> {
    let (template, _) = pod.rsplit_once('-')?;
    stems(pod).iter().any(|(kind, _)| *kind == DEPLOYMENT.kind).then_some(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_counted_under_what_outlives_them() {
        let mut owners = Owners::default();
        for ((kind, name), (owner, of)) in [
            (("Pod", "web-5d8f-x"), ("ReplicaSet", "web-5d8f")),
            (("ReplicaSet", "web-5d8f"), ("Deployment", "web")),
            (("Deployment", "web"), ("Shop", "shop")),
            (("Pod", "canary-1-x"), ("ReplicaSet", "canary-1")),
            (("ReplicaSet", "canary-1"), ("Rollout", "canary")),
            (("Pod", "night-28-x"), ("Job", "night-28")),
            (("Job", "night-28"), ("CronJob", "night")),
            (("Pod", "kafka-0"), ("StrimziPodSet", "kafka")),
            (("Pod", "etcd-node1"), ("Node", "node1")),
            (("Pod", "spark-exec-1"), ("Pod", "spark-driver")),
            (("Pod", "loop-x"), ("Job", "loop")),
            (("Job", "loop"), ("Job", "loop")),
        ] {
            owners.add(&WorkloadRef::new("shop", kind, name), owner, of);
        }
        let check = |pod: &str, expected: Option<&str>| {
            assert_eq!(owners.of_pod("shop", pod).map(|key| key.to_string()).as_deref(), expected, "{pod}");
        };
        check("web-5d8f-x", Some("deployment/web"));
        check("canary-1-x", Some("rollout/canary"));
        check("night-28-x", Some("cronjob/night"));
        check("kafka-0", Some("strimzipodset/kafka"));
        check("etcd-node1", None);
        check("spark-exec-1", None);
        check("stranger", None);
        check("loop-x", Some("job/loop"));
    }

    #[test]
    fn an_owner_with_a_name_longer_than_any_object_has_is_none() {
        for (length, is_one) in [(253, true), (LONGEST_REFERENCE, false)] {
            let owner =
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x".repeat(length), "controller": true});
            let pod = json!({"metadata": {"name": "web", "ownerReferences": [owner]}});
            let in_place = headroom_objects::document(&pod).map(|text| Owner::in_place(text.root()).is_some());
            assert_eq!((Owner::of(&pod).is_some(), in_place.unwrap()), (is_one, is_one));
        }
    }

    #[test]
    fn pods_are_found_by_their_owners_or_by_their_names() {
        let workloads = [
            "shop/Deployment/web",
            "shop/StatefulSet/db",
            "shop/Pod/debug-0",
            "shop/Rollout/canary",
            "shop/CronJob/night",
            "shop/DaemonSet/agent",
            "shop/ReplicationController/old",
            "shop/Deployment/night",
            "shop/DaemonSet/not",
            "shop/DaemonSet/agent-6d4cf56db6",
        ];
        let numbers = workloads.iter().enumerate().map(|(number, path)| (WorkloadRef::at(path).unwrap(), number));
        let mut pods = PodOwners { numbers: numbers.collect(), ..PodOwners::default() };
        pods.owners.add(&WorkloadRef::new("shop", "Pod", "odd"), "StatefulSet", "db");
        pods.owners.add(&WorkloadRef::new("shop", "Pod", "db-7"), "StatefulSet", "gone");
        for (namespace, pod, expected) in [
            ("shop", "odd", Some(1)),
            ("shop", "db-0", Some(1)),
            ("shop", "db-7", None),
            ("shop", "debug-0", Some(2)),
            ("shop", "web-6d4cf56db6-x7x2k", Some(0)),
            ("pay", "web-6d4cf56db6-x7x2k", None),
            ("shop", "canary-6d4cf56db6-x7x2k", Some(3)),
            ("shop", "night-29312345-bcdfg", Some(4)),
            ("shop", "agent-bcdfg", Some(5)),
            ("shop", "old-bcdfg", Some(6)),
            ("shop", "agent-6d4cf56db6-x7x2k", Some(9)),
            ("shop", "not-generated", None),
            ("shop", "unknown", None),
        ] {
            assert_eq!(pods.of_pod(namespace, pod), expected, "{namespace}/{pod}");
        }
    }
}
