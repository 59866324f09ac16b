//! Finds what exists of a workload: its pods, also those of earlier templates, and why the API server refuses others.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kinds::{self, DEPLOYMENT, JOB, POD, REPLICA_SET, counts};
use crate::owner::WorkloadRef;
use crate::pod::pod_of;
use headroom_objects::cluster_reader::{ClusterReader, Events, ReadError};
use headroom_objects::kinds::{ApiKind, metadata};

/// The API server's refusal to create more pods of a workload.
pub struct CreateRefusal {
    pub message: String,
    pub since: String,
}

/// The pods of a workload that exist, as one of each template with their number. If none are listed, its status counts them; one
/// without a status has none.
pub fn pods(workload: &Value, cluster: &mut dyn ClusterReader) -> Vec<(u64, Value)> {
    let found = listed(workload, cluster);
    if !found.is_empty() {
        return found.into_values().collect();
    }
    let [_, present] = counts(&ApiKind::of(workload)).unwrap_or_default();
    let present = workload.pointer(present).and_then(Value::as_u64).unwrap_or(0);
    pod_of(workload).filter(|_| present > 0).map(|pod| (present, pod)).into_iter().collect()
}

/// The listed pods of a workload by what controls them: their number, and one of them.
fn listed(workload: &Value, cluster: &mut dyn ClusterReader) -> BTreeMap<WorkloadRef, (u64, Value)> {
    let mut found = BTreeMap::new();
    let pods = all_pods(workload, cluster).unwrap_or_default();
    for (owner, pod) in pods.into_iter().filter(|(_, pod)| !has_ended(pod)) {
        found.entry(owner).or_insert((0, pod)).0 += 1;
    }
    found
}

/// The listed pods of a workload, also those that have ended, each with what controls it.
pub fn all_pods(workload: &Value, cluster: &mut dyn ClusterReader) -> Result<Vec<(WorkloadRef, Value)>, ReadError> {
    let (this, namespace) = (WorkloadRef::of(workload), metadata(workload, "namespace"));
    let (mut found, mut owners) = (Vec::new(), BTreeMap::new());
    for pod in cluster.list(kinds::list(&POD, Some(namespace)))? {
        let Some(owner) = WorkloadRef::owner_of(&pod) else { continue };
        let known = owners.entry(owner.clone());
        let above = known.or_insert_with(|| of_owner(&owner, cluster).or_else(|| owner.deployment_of(&pod)));
        if owner == this || above.as_ref() == Some(&this) {
            found.push((owner, pod));
        }
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
    let count = |pods: &mut dyn Iterator<Item = &(u64, Value)>| pods.map(|(count, _)| count).sum::<u64>();
    let present = count(&mut pods.values());
    let updated = count(&mut pods.iter().filter(|(owner, _)| !is_earlier(owner)).map(|(_, pods)| pods));
    if let (Value::Object(fields), Some(field)) = (&mut workload, present_at.rsplit('/').next().filter(|_| present > 0))
    {
        fields.insert("status".to_owned(), json!({field: present, "updatedReplicas": updated}));
    }
    workload
}

/// The controller of a pod's controller.
fn of_owner(owner: &WorkloadRef, cluster: &mut dyn ClusterReader) -> Option<WorkloadRef> {
    let kind = [REPLICA_SET, JOB].into_iter().find(|kind| kind.kind == owner.kind)?;
    WorkloadRef::owner_of(&cluster.get(kinds::list(&kind, Some(&owner.namespace)), &owner.name).ok()??)
}

/// `2 of 3 replicas exist`, or `0 of 3 replicas are updated`
pub fn state(workload: &Value) -> String {
    let [wanted, present] = counts(&ApiKind::of(workload)).unwrap_or_default();
    let number = |at: &str| workload.pointer(at).and_then(Value::as_u64);
    let (wanted, present) = (number(wanted).unwrap_or(1), number(present).unwrap_or(0));
    match number("/status/updatedReplicas") {
        Some(updated) if updated < present => format!("{updated} of {wanted} replicas are updated"),
        None if present >= wanted => format!("0 of {wanted} replicas are updated"),
        _ => format!("{present} of {wanted} replicas exist"),
    }
}

/// The template of the most pods of a Deployment that have another than it has now.
pub fn earlier_template(deployment: &Value, cluster: &mut dyn ClusterReader) -> Option<Value> {
    let (pods, current) = (listed(deployment, cluster), plain(deployment.pointer("/spec/template")));
    let count = |set: &Value| {
        let listed = pods.get(&WorkloadRef::of(set)).map(|(count, _)| *count);
        set.pointer("/status/replicas").and_then(Value::as_u64).or(listed).unwrap_or(0)
    };
    let sets = replica_sets(deployment, cluster).into_iter();
    let earlier = sets.filter(|set| plain(set.pointer("/spec/template")) != current);
    earlier.max_by_key(count).filter(|set| count(set) > 0).map(|set| plain(set.pointer("/spec/template")))
}

/// The ReplicaSets of a Deployment.
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

/// The refusal that a workload's condition tells, or else the last of its Events.
pub fn refusal(workload: &Value, cluster: &mut dyn ClusterReader) -> Option<CreateRefusal> {
    let text = |object: &Value, field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |object: &Value, field: &str, value: &str| object.get(field).is_some_and(|of| of == value);
    let sets = replica_sets(workload, cluster);
    let conditions = [workload].into_iter().chain(&sets).filter_map(|of| of.pointer("/status/conditions")?.as_array());
    let mut failures = conditions.flatten().filter(|of| is(of, "type", "ReplicaFailure") && is(of, "status", "True"));
    if let Some(failure) = failures.next() {
        return Some(CreateRefusal { message: text(failure, "message"), since: text(failure, "lastTransitionTime") });
    }
    let namespace = Some(metadata(workload, "namespace"));
    let events = Events { namespace, reason: "FailedCreate", most: 1_000 };
    let mut last = None;
    let mut add = |event: Value| {
        let of = event.get("involvedObject").cloned().unwrap_or_default();
        let at = text(&event, "lastTimestamp");
        if is(&of, "name", metadata(workload, "name"))
            && of.get("kind") == workload.get("kind")
            && last.as_ref().is_none_or(|(latest, _)| at >= *latest)
        {
            last =
                Some((at, CreateRefusal { message: text(&event, "message"), since: text(&event, "firstTimestamp") }));
        }
    };
    // Without Events, only the forecast is known.
    let _ = cluster.visit_events(events, &mut add);
    last.map(|(_, refusal)| refusal)
}

/// A pod that has ended is not recreated.
pub fn has_ended(pod: &Value) -> bool {
    matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
}
