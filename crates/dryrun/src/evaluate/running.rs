//! Finds what exists of a workload: its pods, also those of earlier templates, and why the API server refuses others.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::request;
use headroom_objects::cluster_reader::{ClusterReader, Events, ReadError};
use headroom_objects::kinds::{ApiKind, metadata};

/// Kind, namespace and name of something that owns.
pub type Owner = (String, String, String);

/// The API server's refusal to create more pods of a workload.
pub struct Refusal {
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
    request::pod_of(workload).filter(|_| present > 0).map(|pod| (present, pod)).into_iter().collect()
}

/// The listed pods of a workload by what controls them: their number, and one of them.
fn listed(workload: &Value, cluster: &mut dyn ClusterReader) -> BTreeMap<Owner, (u64, Value)> {
    let mut found = BTreeMap::new();
    let pods = all_pods(workload, cluster).unwrap_or_default();
    for (owner, pod) in pods.into_iter().filter(|(_, pod)| !has_ended(pod)) {
        found.entry(owner).or_insert((0, pod)).0 += 1;
    }
    found
}

/// The listed pods of a workload, also those that have ended, each with what controls it.
pub fn all_pods(workload: &Value, cluster: &mut dyn ClusterReader) -> Result<Vec<(Owner, Value)>, ReadError> {
    let (this, namespace) = (key(workload), metadata(workload, "namespace"));
    let (mut found, mut owners) = (Vec::new(), BTreeMap::new());
    for pod in cluster.list(("v1", "Pod", Some(namespace)))? {
        let Some(owner) = owner_of(&pod) else { continue };
        let known = owners.entry(owner.clone());
        let above = known.or_insert_with(|| of_owner(&owner, cluster).or_else(|| deployment_of(&pod, &owner)));
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
    let is_earlier = |owner: &Owner| {
        let set = sets.iter().find(|set| key(set) == *owner);
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
fn of_owner((kind, namespace, name): &Owner, cluster: &mut dyn ClusterReader) -> Option<Owner> {
    let api_version = match kind.as_str() {
        "ReplicaSet" => "apps/v1",
        "Job" => "batch/v1",
        _ => return None,
    };
    owner_of(&cluster.get((api_version, kind, Some(namespace)), name).ok()??)
}

/// The places of the number of pods that a workload is to have, and of those that it has.
pub fn counts(kind: &ApiKind) -> Option<[&'static str; 2]> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps" | "extensions", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController") => {
            Some(["/spec/replicas", "/status/replicas"])
        }
        ("apps" | "extensions", "DaemonSet") => {
            Some(["/status/desiredNumberScheduled", "/status/currentNumberScheduled"])
        }
        ("batch", "Job") => Some(["/spec/parallelism", "/status/active"]),
        _ => None,
    }
}

/// An update that keeps the template, as the one that its controllers still have to carry out: from the pods that exist to those
/// that are wanted. None if they have done so, and for an update that the core evaluates itself.
pub fn unfinished(request: &Value, cluster: &mut dyn ClusterReader) -> Option<Value> {
    let (object, old) = (request.get("object")?, request.get("oldObject")?);
    let kind = ApiKind::of(object);
    let [wanted_at, present_at] = counts(&kind)?;
    let is_kept = old.get("status").is_some_and(|status| !status.is_null())
        && object.pointer("/spec/template") == old.pointer("/spec/template")
        && object.pointer("/spec/paused") != Some(&json!(true));
    let number = |object: &Value, at: &str| object.pointer(at).and_then(Value::as_u64);
    let (wanted, before) = (number(object, wanted_at).unwrap_or(1), number(old, wanted_at).unwrap_or(1));
    let present = number(old, present_at).unwrap_or(0);
    let updated = number(old, "/status/updatedReplicas").unwrap_or(0);
    let mut request = request.clone();
    let mut set = |at: &str, value: Value| {
        if let Some((Value::Object(fields), name)) =
            at.rsplit_once('/').and_then(|(path, name)| Some((request.pointer_mut(path)?, name)))
        {
            fields.insert(name.to_owned(), value);
        }
    };
    if !is_kept {
        return None;
    }
    if kind.kind == "Deployment" && updated < present && updated < wanted {
        // Only those of the earlier template are left to replace.
        set("/oldObject/spec/template", earlier_template(old, cluster)?);
        set("/object/spec/replicas", json!(wanted - updated));
        set("/oldObject/spec/replicas", json!(before.saturating_sub(updated)));
        for field in ["replicas", "updatedReplicas"] {
            set(&format!("/oldObject/status/{field}"), json!(present - updated));
        }
        return Some(request);
    }
    if present >= wanted || wanted > before {
        return None;
    }
    if kind.kind == "DaemonSet" {
        let replica_set = |replicas: u64| {
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": object.get("metadata"),
                "spec": {"replicas": replicas, "template": object.pointer("/spec/template")}})
        };
        let kind = ApiKind::new("apps/v1", "ReplicaSet");
        return Some(request::update(replica_set(wanted), replica_set(present), &kind, metadata(object, "namespace")));
    }
    set(&format!("/oldObject{wanted_at}"), json!(present));
    Some(request)
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
fn earlier_template(deployment: &Value, cluster: &mut dyn ClusterReader) -> Option<Value> {
    let (pods, current) = (listed(deployment, cluster), plain(deployment.pointer("/spec/template")));
    let count = |set: &Value| {
        let listed = pods.get(&key(set)).map(|(count, _)| *count);
        set.pointer("/status/replicas").and_then(Value::as_u64).or(listed).unwrap_or(0)
    };
    let sets = replica_sets(deployment, cluster).into_iter();
    let earlier = sets.filter(|set| plain(set.pointer("/spec/template")) != current);
    earlier.max_by_key(count).filter(|set| count(set) > 0).map(|set| plain(set.pointer("/spec/template")))
}

/// The ReplicaSets of a Deployment.
fn replica_sets(workload: &Value, cluster: &mut dyn ClusterReader) -> Vec<Value> {
    let this = key(workload);
    let mut sets = Vec::new();
    if this.0 == "Deployment" {
        sets = cluster.list(("apps/v1", "ReplicaSet", Some(&this.1))).unwrap_or_default();
        sets.retain(|set| owner_of(set).as_ref() == Some(&this));
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
pub fn refusal(workload: &Value, cluster: &mut dyn ClusterReader) -> Option<Refusal> {
    let text = |object: &Value, field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |object: &Value, field: &str, value: &str| object.get(field).is_some_and(|of| of == value);
    let sets = replica_sets(workload, cluster);
    let conditions = [workload].into_iter().chain(&sets).filter_map(|of| of.pointer("/status/conditions")?.as_array());
    let mut failures = conditions.flatten().filter(|of| is(of, "type", "ReplicaFailure") && is(of, "status", "True"));
    if let Some(failure) = failures.next() {
        return Some(Refusal { message: text(failure, "message"), since: text(failure, "lastTransitionTime") });
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
            last = Some((at, Refusal { message: text(&event, "message"), since: text(&event, "firstTimestamp") }));
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

pub fn key(object: &Value) -> Owner {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    (kind.to_owned(), metadata(object, "namespace").to_owned(), metadata(object, "name").to_owned())
}

/// The controller that made an object.
pub fn owner_of(object: &Value) -> Option<Owner> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let controller = references.iter().find(|reference| reference.get("controller") == Some(&json!(true)))?;
    let text = |field: &str| controller.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((text("kind"), metadata(object, "namespace").to_owned(), text("name")))
}

/// The Deployment behind a ReplicaSet that could not be looked at: its name is the Deployment's with the hash of the
/// template.
pub fn deployment_of(pod: &Value, (kind, namespace, name): &Owner) -> Option<Owner> {
    let hash = pod.pointer("/metadata/labels/pod-template-hash").and_then(Value::as_str)?;
    let deployment = name.strip_suffix(hash)?.strip_suffix('-').filter(|_| kind == "ReplicaSet")?;
    Some(("Deployment".to_owned(), namespace.clone(), deployment.to_owned()))
}
