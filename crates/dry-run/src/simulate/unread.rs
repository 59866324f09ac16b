//! The fields of Pods and their templates that no evaluation reads: most of their bytes.
//!
//! A list of what is left out rather than of what is kept, so that a field that some rule reads one day is there.

use serde_json::{Map, Value};

use crate::recording::redact::READ;
use headroom_workloads::Owner;
use headroom_workloads::kinds::{self, POD, comes_and_goes};

const OF_SPEC: [&str; 17] = [
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "preemptionPolicy",
    "readinessGates",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];

const OF_CONTAINER: [&str; 19] = [
    "args",
    "command",
    "env",
    "envFrom",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

const OF_STATUS: [&str; 8] =
    ["ephemeralContainerStatuses", "hostIP", "hostIPs", "message", "nominatedNodeName", "podIP", "podIPs", "startTime"];

const OF_CONTAINER_STATUS: [&str; 7] =
    ["allocatedResourcesStatus", "containerID", "image", "imageID", "ready", "started", "volumeMounts"];

/// The fields that tell how containers ended, which an inventory counts.
const ENDS: [&str; 3] = ["lastState", "restartCount", "state"];

/// The one condition that decides which amounts count while a Pod is resized.
const READ_CONDITION: &str = "PodResizePending";

/// Leaves out what is not read of a Pod, or of the template of an object.
pub fn leave_out(object: &mut Value) {
    if let Some(pod) = pod_in(object) {
        leave_out_of_pod(pod);
        each_status(pod, &ENDS);
    }
}

/// The same for objects of which an inventory counts, too, how their containers ended: of what Kubernetes' own controllers made, most
/// of a cluster. Everything else is asked what programs in it are told.
pub fn leave_out_of_made(object: &mut Value) {
    let is_counted = kinds::of(object).is_some_and(|kind| *kind == POD || comes_and_goes(kind.kind));
    if is_counted && Owner::of(object).is_some_and(|owner| owner.is_read()) {
        pod_in(object).into_iter().for_each(leave_out_of_pod);
    }
}

fn pod_in(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let kind = kinds::of(object)?;
    object.pointer_mut(&kinds::pod_at(kind))?.as_object_mut()
}

fn leave_out_of_pod(pod: &mut Map<String, Value>) {
    for field in ["containers", "initContainers"] {
        each_in(pod.get_mut("spec"), field, |container| remove(container, &OF_CONTAINER));
    }
    remove_in(pod, "spec", &OF_SPEC);
    let annotations = pod.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(Value::Object(annotations)) = annotations {
        annotations.retain(|name, _| READ.contains(&name.as_str()));
    }
    each_status(pod, &OF_CONTAINER_STATUS);
    remove_in(pod, "status", &OF_STATUS);
    if let Some(Value::Array(conditions)) = pod.get_mut("status").and_then(|status| status.get_mut("conditions")) {
        conditions.retain(|condition| condition.get("type").is_some_and(|kind| kind == READ_CONDITION));
    }
}

fn each_status(pod: &mut Map<String, Value>, fields: &[&str]) {
    for list in ["containerStatuses", "initContainerStatuses"] {
        each_in(pod.get_mut("status"), list, |status| remove(status, fields));
    }
}

fn remove(from: &mut Map<String, Value>, fields: &[&str]) {
    from.retain(|field, _| !fields.contains(&field.as_str()));
}

fn remove_in(object: &mut Map<String, Value>, of: &str, fields: &[&str]) {
    if let Some(Value::Object(from)) = object.get_mut(of) {
        remove(from, fields);
    }
}

fn each_in(object: Option<&mut Value>, list: &str, each: impl Fn(&mut Map<String, Value>)) {
    let items = object.and_then(|object| object.get_mut(list)).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut).for_each(each);
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::cluster_reader::Folder;
    use headroom_workloads::inventory::Inventory;
    use serde_json::json;

    #[test]
    fn an_inventory_is_the_same_without_what_nobody_reads_of_what_controllers_made() {
        let object = |kind: &str, api_version: &str, name: &str, owner: (&str, &str, &str), rest: Value| {
            let owners = json!([{"apiVersion": owner.0, "kind": owner.1, "name": owner.2, "controller": true}]);
            let mut object = json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners, "annotations": {"a": "b"}}});
            rest.as_object().unwrap().iter().for_each(|(field, value)| object[field] = value.clone());
            object
        };
        let container = json!({"name": "a", "image": "a:1", "env": [{"name": "GOMEMLIMIT", "value": "1GiB"}]});
        let spec = json!({"containers": [container], "nodeName": "node-1", "priority": -1, "overhead": {"cpu": "1"}});
        let status = json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "a", "restartCount": 2,
            "containerID": "containerd://1", "resources": {"requests": {"cpu": "1"}},
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"reason": "OOMKilled"}}}]});
        let pod = json!({"spec": spec, "status": status});
        let maker = json!({"spec": {"replicas": 1, "template": {"spec": spec}}});
        let (rollout, nobody) = (("argoproj.io/v1alpha1", "Rollout", "canary"), ("", "", ""));
        let objects = [
            ("Deployment", "apps/v1", "web", nobody, &maker),
            ("ReplicaSet", "apps/v1", "web-1", ("apps/v1", "Deployment", "web"), &maker),
            ("Pod", "v1", "web-1-a", ("apps/v1", "ReplicaSet", "web-1"), &pod),
            ("ReplicaSet", "apps/v1", "canary-1", rollout, &maker),
            ("Pod", "v1", "canary-1-a", ("apps/v1", "ReplicaSet", "canary-1"), &pod),
            ("Pod", "v1", "set-0", ("example.com/v1", "PodSet", "set"), &pod),
            ("Pod", "v1", "proxy", ("v1", "Node", "node-1"), &pod),
            ("StatefulSet", "apps/v1", "db", ("apps/v1", "Deployment", "web"), &maker),
        ];
        let objects = objects.map(|(kind, api, name, owner, rest)| object(kind, api, name, owner, rest.clone()));
        let reduced: Vec<Value> = objects
            .iter()
            .cloned()
            .map(|mut object| {
                leave_out_of_made(&mut object);
                object
            })
            .collect();
        let changed: Vec<bool> = objects.iter().zip(&reduced).map(|(whole, reduced)| whole != reduced).collect();
        assert_eq!(changed, [false, true, true, false, true, false, false, false]);
        let told = |objects: &[Value]| {
            let mut folder = Folder::default();
            objects.iter().for_each(|object| folder.put(object.clone()).unwrap());
            let found = Inventory::read(&mut folder, &[Some("shop")], |error| error.to_string()).unwrap();
            let as_they_run = found.entries.iter().map(|entry| entry.as_it_runs().to_string());
            let running = found.entries.iter().map(|entry| format!("{} {:?}", entry.key, entry.running));
            as_they_run.zip(running).collect::<Vec<_>>()
        };
        assert_eq!(told(&reduced), told(&objects));
        assert_eq!(told(&objects).len(), 5);
    }
}
