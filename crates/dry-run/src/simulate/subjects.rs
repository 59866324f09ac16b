//! Finds everything that runs: workloads with the number of their pods, pods of no known workload, and claims.

use std::collections::BTreeMap;
use std::mem::take;

use headroom_admission::annotations::OURS;
use headroom_admission::annotations::limit_ranger::LIMIT_RANGER;
use headroom_admission::request::Role;
use serde_json::Value;

use crate::evaluate::{Admission, ContainerValues, ResourceValue, SetBy, request};
use headroom_objects::cluster_reader::{ClusterReader, List};
use headroom_objects::kinds::{ApiKind, keep, metadata};
use headroom_workloads::kinds::{self, POD, POD_KINDS, comes_and_goes};
use headroom_workloads::owner::{Owner, Owners, WorkloadRef};
use headroom_workloads::pod_of;
use headroom_workloads::running::{self, has_ended};

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
    pub key: WorkloadRef,
    pub count: u64,
    /// The object that would be sent to make one: a pod as its author wrote it, or a claim.
    pub object: Value,
    /// The pods of a workload that run, as one of each of its controllers with their number: some may be of earlier templates.
    pub running: Vec<(u64, Value)>,
}

/// Everything that is listed, in all or in each namespace.
pub fn listed() -> Vec<(&'static str, &'static str)> {
    let others = [("v1", "PersistentVolumeClaim"), ("v1", "LimitRange"), ("v1", "ResourceQuota")];
    POD_KINDS.iter().map(|kind| (kind.api_version, kind.kind)).chain(others).collect()
}

impl Subjects {
    /// Looks into some namespaces, or into all, for the workloads, pods and claims that are wanted.
    pub fn find(
        cluster: &mut dyn ClusterReader,
        namespaces: Option<&[String]>,
        is_wanted: &dyn Fn(&Value) -> bool,
        admission: &Admission,
    ) -> Self {
        let mut subjects = Self::default();
        let each = namespaces.map_or(vec![None], |some| some.iter().map(|of| Some(of.as_str())).collect());
        for namespace in each {
            let mut owners = Owners::default();
            let mut workloads: Vec<Value> = Vec::new();
            for kind in kinds::makers() {
                for workload in subjects.list(cluster, kinds::list(kind, namespace)) {
                    match Owner::of(&workload).filter(|_| comes_and_goes(kind.kind)) {
                        Some(owner) => owners.add(&WorkloadRef::of(&workload), &owner.kind, &owner.name),
                        None => workloads.push(workload),
                    }
                }
            }
            let pods = subjects.list(cluster, kinds::list(&POD, namespace)).into_iter().filter(|pod| !has_ended(pod));
            let mut pods = running::by_workload(pods, &mut |of| owners.maker(of));
            for workload in workloads {
                let of_workload = pods.get_mut(&WorkloadRef::of(&workload)).map(take).unwrap_or_default().into_values();
                let one_of_each = of_workload.filter_map(|pods| Some((pods.len() as u64, pods.into_iter().next()?)));
                if is_wanted(&workload) {
                    subjects.found.extend(Subject::of_workload(&workload, one_of_each.collect()));
                }
            }
            for pod in pods.into_values().flat_map(BTreeMap::into_values).flatten().filter(|pod| is_wanted(pod)) {
                subjects.found.push(Subject::of_pod(pod, cluster, admission));
            }
            let claims = subjects.list(cluster, ("v1", "PersistentVolumeClaim", namespace)).into_iter();
            subjects.found.extend(claims.filter(is_wanted).map(|claim| Subject::of(claim.clone(), &claim, 1)));
        }
        subjects.found.sort_by(|a, b| (&a.key.namespace, &a.name).cmp(&(&b.key.namespace, &b.name)));
        subjects
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
        Self { name, key: WorkloadRef::of(of), count, object, running: Vec::new() }
    }

    fn of_workload(workload: &Value, running: Vec<(u64, Value)>) -> Option<Self> {
        let count = running.iter().map(|(count, _)| count).sum();
        Some(Self { running, ..Self::of(pod_of(workload)?, workload, count) })
    }

    /// A pod without what LimitRanger and we put in, as far as they can be recognized.
    fn of_pod(pod: Value, cluster: &mut dyn ClusterReader, admission: &Admission) -> Self {
        let kind = ApiKind::new("v1", "Pod");
        let evaluation = admission.evaluate(request::audit(pod.clone(), &kind), cluster);
        let mut written = pod.clone();
        if !evaluation.containers.is_empty() {
            evaluation.containers.iter().for_each(|container| take_back(&mut written, container));
            if let Some(Value::Object(annotations)) = written.pointer_mut("/metadata/annotations") {
                keep(annotations, &mut |name, _| name != LIMIT_RANGER && !name.starts_with(OURS));
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
    let list = if container.role == Role::Main { "/spec/containers" } else { "/spec/initContainers" };
    let containers = pod.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    let same = containers.filter(|have| have.get("name").and_then(Value::as_str) == Some(&container.name));
    for resources in same.filter_map(|container| container.get_mut("resources")) {
        let is_ours = |value: &&ResourceValue| matches!(value.set_by, SetBy::LimitRanger | SetBy::Earlier);
        for value in container.values.iter().filter(is_ours) {
            if let Some(Value::Object(list)) = resources.get_mut(value.requirement.field()) {
                list.remove(&value.resource);
            }
        }
    }
}
