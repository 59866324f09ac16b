//! Finds everything that runs: workloads with the number of their pods, pods of no known workload, and claims.

use std::collections::HashMap;

use headroom_core::annotations::OURS;
use headroom_core::annotations::limit_ranger::LIMIT_RANGER;
use serde_json::{Value, json};

use crate::evaluate::{Admission, ContainerValues, SetBy, request};
use headroom_objects::cluster_reader::{ClusterReader, List};
use headroom_objects::kinds::{ApiKind, metadata};

/// Everything to look at, and what could not be.
#[derive(Debug, Default)]
pub struct Subjects {
    pub found: Vec<Subject>,
    /// The kinds that could not be listed, and why.
    pub missed: Vec<String>,
}

/// Something that would be made again.
#[derive(Debug)]
pub struct Subject {
    /// `deployment.apps/web`
    pub name: String,
    pub namespace: String,
    /// The number that runs.
    pub count: u64,
    /// The object that would be sent to make one: a pod as its author wrote it, or a claim.
    pub object: Value,
}

/// Kinds that make pods, those that others make first.
const WORKLOADS: [(&str, &str); 7] = [
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "CronJob"),
];

/// Everything that is listed, in all or in each namespace.
pub const KINDS: [(&str, &str); 11] = {
    let [a, b, c, d, e, f, g] = WORKLOADS;
    [a, b, c, d, e, f, g, ("v1", "Pod"), ("v1", "PersistentVolumeClaim"), ("v1", "LimitRange"), ("v1", "ResourceQuota")]
};

/// Kind, namespace and name of something that owns.
type Owner = (String, String, String);

impl Subjects {
    /// Looks into some namespaces, or into all, for the workloads, pods and claims that are wanted.
    pub fn find(
        cluster: &mut dyn ClusterReader,
        namespaces: Option<&[String]>,
        is_wanted: &dyn Fn(&Value) -> bool,
        admission: &Admission,
    ) -> Self {
        let mut subjects = Self::default();
        match namespaces {
            None => subjects.look_into(None, cluster, is_wanted, admission),
            Some(namespaces) => {
                let each = namespaces.iter();
                each.for_each(|namespace| subjects.look_into(Some(namespace), cluster, is_wanted, admission));
            }
        }
        subjects.found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        subjects
    }

    fn look_into(
        &mut self,
        namespace: Option<&str>,
        cluster: &mut dyn ClusterReader,
        is_wanted: &dyn Fn(&Value) -> bool,
        admission: &Admission,
    ) {
        let mut owners: HashMap<Owner, Owner> = HashMap::new();
        let mut workloads: Vec<Value> = Vec::new();
        for (api_version, kind) in WORKLOADS {
            for workload in self.list(cluster, (api_version, kind, namespace)) {
                match owner_of(&workload) {
                    Some(owner) => {
                        owners.insert(key(&workload), owner);
                    }
                    None => workloads.push(workload),
                }
            }
        }
        let mut pods: HashMap<Owner, u64> = workloads.iter().map(|workload| (key(workload), 0)).collect();
        for pod in self.list(cluster, ("v1", "Pod", namespace)) {
            if has_ended(&pod) {
                continue;
            }
            let owner = owner_of(&pod)
                .map(|owner| owners.get(&owner).cloned().or_else(|| deployment_of(&pod, &owner)).unwrap_or(owner));
            match owner.and_then(|owner| pods.get_mut(&owner)) {
                Some(count) => *count += 1,
                None if is_wanted(&pod) => self.found.push(Subject::of_pod(pod, cluster, admission)),
                None => {}
            }
        }
        for workload in workloads.into_iter().filter(is_wanted) {
            let count = pods.get(&key(&workload)).copied().unwrap_or(0);
            self.found.extend(Subject::of_workload(&workload, count));
        }
        let claims = self.list(cluster, ("v1", "PersistentVolumeClaim", namespace));
        self.found.extend(claims.into_iter().filter(is_wanted).map(|claim| Subject::of(claim.clone(), &claim, 1)));
    }

    fn list(&mut self, cluster: &mut dyn ClusterReader, list: List<'_>) -> Vec<Value> {
        cluster.list(list).unwrap_or_else(|error| {
            if !error.is_unknown_kind() {
                self.missed.push(error.to_string());
            }
            Vec::new()
        })
    }
}

impl Subject {
    fn of(object: Value, of: &Value, count: u64) -> Self {
        let name = ApiKind::of(of).object_name(metadata(of, "name"));
        Self { name, namespace: metadata(of, "namespace").to_owned(), count, object }
    }

    fn of_workload(workload: &Value, count: u64) -> Option<Self> {
        Some(Self::of(request::pod_of(workload)?, workload, count))
    }

    /// A pod without what LimitRanger and we put in, as far as they can be recognized.
    fn of_pod(pod: Value, cluster: &mut dyn ClusterReader, admission: &Admission) -> Self {
        let kind = ApiKind::new("v1", "Pod");
        let evaluation = admission.evaluate(request::audit(pod.clone(), &kind), cluster);
        let mut written = pod.clone();
        if let Some(containers) = &evaluation.pod {
            containers.iter().for_each(|container| take_back(&mut written, container));
            if let Some(Value::Object(annotations)) = written.pointer_mut("/metadata/annotations") {
                annotations.retain(|name, _| name != LIMIT_RANGER && !name.starts_with(OURS));
            }
        }
        if let Value::Object(fields) = &mut written {
            fields.remove("status");
        }
        Self::of(written, &pod, 1)
    }
}

/// Removes values that no author set.
fn take_back(pod: &mut Value, container: &ContainerValues) {
    let list = match container.role {
        headroom_core::request::Role::Main => "/spec/containers",
        _ => "/spec/initContainers",
    };
    let containers = pod.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    let same = containers.filter(|have| have.get("name").and_then(Value::as_str) == Some(&container.name));
    for resources in same.filter_map(|container| container.get_mut("resources")) {
        let others =
            container.values.iter().filter(|value| matches!(value.set_by, SetBy::LimitRanger | SetBy::Earlier));
        for value in others {
            if let Some(Value::Object(list)) = resources.get_mut(value.requirement.field()) {
                list.remove(&value.resource);
            }
        }
    }
}

/// A pod that has ended is not recreated.
fn has_ended(pod: &Value) -> bool {
    matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
}

fn key(object: &Value) -> Owner {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    (kind.to_owned(), metadata(object, "namespace").to_owned(), metadata(object, "name").to_owned())
}

/// The controller that made an object.
fn owner_of(object: &Value) -> Option<Owner> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let controller = references.iter().find(|reference| reference.get("controller") == Some(&json!(true)))?;
    let text = |field: &str| controller.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((text("kind"), metadata(object, "namespace").to_owned(), text("name")))
}

/// The Deployment behind a ReplicaSet that could not be looked at: its name is the Deployment's with the hash of the
/// template.
fn deployment_of(pod: &Value, (kind, namespace, name): &Owner) -> Option<Owner> {
    let hash = pod.pointer("/metadata/labels/pod-template-hash").and_then(Value::as_str)?;
    let deployment = name.strip_suffix(hash)?.strip_suffix('-').filter(|_| kind == "ReplicaSet")?;
    Some(("Deployment".to_owned(), namespace.clone(), deployment.to_owned()))
}
