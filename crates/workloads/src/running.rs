//! Finds what exists of a workload: its pods, also those of earlier templates, and why the API server refuses others.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kinds::{self, DEPLOYMENT, POD, PodKind, REPLICA_SET, comes_and_goes, counts};
use crate::owner::{WorkloadRef, workload_above};
use crate::pod::pod_of;
use crate::refusal::{PodRefusal, events_of};
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{ApiKind, items, metadata, number, set};

/// The Events that are read of a namespace.
const MAX_EVENTS: usize = 1_000;

/// Pods by what controls them: those of a Deployment by their ReplicaSet, which differ in their template.
pub type Pods = BTreeMap<WorkloadRef, Vec<Value>>;

/// Puts pods under the workloads that they are counted under; `find` finds the controller of a ReplicaSet, ReplicationController or
/// Job. Without it, the names of a pod and of its ReplicaSet tell the Deployment.
pub fn by_workload(
    pods: impl IntoIterator<Item = Value>,
    find: &mut dyn FnMut(&WorkloadRef) -> Option<WorkloadRef>,
) -> BTreeMap<WorkloadRef, Pods> {
    let mut workloads: BTreeMap<WorkloadRef, Pods> = BTreeMap::new();
    for (maker, pods) in by_maker(pods) {
        let workload = workload_above(maker.clone(), &mut |of| {
            let found = if comes_and_goes(&of.kind) { find(of) } else { None };
            found.or_else(|| of.deployment_of(pods.first()?))
        });
        workloads.entry(workload).or_default().insert(maker, pods);
    }
    workloads
}

fn by_maker(pods: impl IntoIterator<Item = Value>) -> Pods {
    let mut found = Pods::new();
    for pod in pods {
        found.entry(WorkloadRef::maker_of(&pod)).or_default().push(pod);
    }
    found
}

/// The pods of a workload that exist, as one of each template with their number. If none are listed, its status counts them; one
/// without a status has none.
pub fn pods(workload: &Value, cluster: &mut dyn ClusterReader) -> Vec<(u64, Value)> {
    let found = listed(workload, cluster);
    if !found.is_empty() {
        return found.into_values().filter_map(|pods| Some((pods.len() as u64, pods.into_iter().next()?))).collect();
    }
    let [_, present] = counts(&ApiKind::of(workload)).unwrap_or_default();
    let present = number(workload, present).unwrap_or(0);
    pod_of(workload).filter(|_| present > 0).map(|pod| (present, pod)).into_iter().collect()
}

/// The claims that a StatefulSet made for its pods, which stay when those go.
pub fn claims(workload: &Value, cluster: &mut dyn ClusterReader) -> Vec<Value> {
    let (name, namespace) = (metadata(workload, "name"), metadata(workload, "namespace"));
    let templates = items(workload, "/spec/volumeClaimTemplates");
    let prefixes: Vec<String> = templates.map(|of| format!("{}-{name}-", metadata(of, "name"))).collect();
    if prefixes.is_empty() {
        return Vec::new();
    }
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    // OK because claims that may not be read only count as if they were still to be made.
    let mut claims = cluster.list(("v1", "PersistentVolumeClaim", Some(namespace))).unwrap_or_default();
    claims
        .retain(|of| prefixes.iter().any(|all| metadata(of, "name").strip_prefix(all.as_str()).is_some_and(is_number)));
    claims
}

/// The listed pods of a workload that have not ended. A pod has none.
fn listed(workload: &Value, cluster: &mut dyn ClusterReader) -> Pods {
    if kinds::of(workload) == Some(&POD) {
        return Pods::new();
    }
    by_maker(all_pods(workload, cluster).unwrap_or_default().into_iter().filter(|pod| !has_ended(pod)))
}

/// The listed pods of a workload, also those that have ended.
pub fn all_pods(workload: &Value, cluster: &mut dyn ClusterReader) -> Result<Vec<Value>, ReadError> {
    let this = WorkloadRef::of(workload);
    let pods = cluster.list(kinds::list(&POD, Some(&this.namespace)))?;
    let mut find = |of: &WorkloadRef| {
        let kind = PodKind::named(&of.kind)?;
        WorkloadRef::owner_of(&cluster.get(kinds::list(kind, Some(&of.namespace)), &of.name).ok()??)
    };
    let mut found = Vec::new();
    for (workload, pods) in by_workload(pods, &mut find) {
        // A ReplicaSet may be asked about by itself.
        let pods = pods.into_iter().filter(|(maker, _)| workload == this || *maker == this);
        found.extend(pods.flat_map(|(_, pods)| pods));
    }
    Ok(found)
}

/// A workload with the number of its listed pods as its status, if it has none.
pub fn with_status(mut workload: Value, cluster: &mut dyn ClusterReader) -> Value {
    let Some([_, present_at]) = counts(&ApiKind::of(&workload)) else { return workload };
    if workload.get("status").is_some_and(|status| !status.is_null()) {
        return workload;
    }
    let pods = listed(&workload, cluster);
    let sets = replica_sets(&workload, cluster);
    let current = plain(workload.pointer("/spec/template"));
    let is_earlier = |owner: &WorkloadRef| {
        let set = sets.iter().find(|set| WorkloadRef::of(set) == *owner);
        set.is_some_and(|set| plain(set.pointer("/spec/template")) != current)
    };
    let present: usize = pods.values().map(Vec::len).sum();
    let updated: usize = pods.iter().filter(|(owner, _)| !is_earlier(owner)).map(|(_, pods)| pods.len()).sum();
    if let Some(field) = present_at.rsplit('/').next().filter(|_| present > 0) {
        set(&mut workload, "status", json!({field: present, "updatedReplicas": updated}));
    }
    workload
}

/// `2 of 3 replicas exist`, or `0 of 3 replicas are updated`
pub fn state(workload: &Value) -> String {
    let [wanted, present] = counts(&ApiKind::of(workload)).unwrap_or_default();
    let (wanted, present) = (number(workload, wanted).unwrap_or(1), number(workload, present).unwrap_or(0));
    match number(workload, "/status/updatedReplicas") {
        Some(updated) if updated < present => format!("{updated} of {wanted} replicas are updated"),
        None if present >= wanted => format!("0 of {wanted} replicas are updated"),
        _ => format!("{present} of {wanted} replicas exist"),
    }
}

/// The templates of a Deployment's ReplicaSets, each with the number of its pods.
pub fn templates(deployment: &Value, cluster: &mut dyn ClusterReader) -> Vec<(u64, Value)> {
    let pods = listed(deployment, cluster);
    let count = |set: &Value| {
        let listed = pods.get(&WorkloadRef::of(set)).map(|pods| pods.len() as u64);
        number(set, "/status/replicas").or(listed).unwrap_or(0)
    };
    let sets = replica_sets(deployment, cluster);
    sets.iter().map(|set| (count(set), plain(set.pointer("/spec/template")))).collect()
}

fn replica_sets(workload: &Value, cluster: &mut dyn ClusterReader) -> Vec<Value> {
    let this = WorkloadRef::of(workload);
    let mut sets = Vec::new();
    if this.kind == DEPLOYMENT.kind {
        sets = cluster.list(kinds::list(&REPLICA_SET, Some(&this.namespace))).unwrap_or_default();
        sets.retain(|set| WorkloadRef::owner_of(set).as_ref() == Some(&this));
    }
    sets
}

/// A template without the label that a Deployment adds.
fn plain(template: Option<&Value>) -> Value {
    let mut template = template.cloned().unwrap_or_default();
    if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
        labels.remove("pod-template-hash");
    }
    template
}

/// The refusal that a workload's condition tells, or else its Events.
pub fn refusal(workload: &Value, cluster: &mut dyn ClusterReader) -> Option<PodRefusal> {
    let sets = replica_sets(workload, cluster);
    let of_condition = [workload].into_iter().chain(&sets).find_map(PodRefusal::of_condition);
    if of_condition.is_some() {
        return of_condition;
    }
    let this = WorkloadRef::of(workload);
    let mut found: Option<PodRefusal> = None;
    // Without Events, only the forecast is known.
    let _ = cluster.visit_events(events_of(Some(&this.namespace), MAX_EVENTS), &mut |event| {
        let Some((_, refusal)) = PodRefusal::of_event(&event).filter(|(of, _)| *of == this) else { return };
        match &mut found {
            Some(before) => before.add(refusal),
            none => *none = Some(refusal),
        }
    });
    found
}

/// A pod that has ended is not recreated.
pub fn has_ended(pod: &Value) -> bool {
    matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
}
