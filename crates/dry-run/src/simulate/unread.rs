//! The fields of Pods and their templates that no simulation reads: most of their bytes.
//!
//! A list of what is left out rather than of what is kept, so that a field that some rule reads one day is there.

use serde_json::{Map, Value};

use crate::recording::redact::READ;
use headroom_workloads::kinds;

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

const OF_CONTAINER_STATUS: [&str; 10] = [
    "allocatedResourcesStatus",
    "containerID",
    "image",
    "imageID",
    "lastState",
    "ready",
    "restartCount",
    "started",
    "state",
    "volumeMounts",
];

/// The one condition that decides which amounts count while a Pod is resized.
const READ_CONDITION: &str = "PodResizePending";

/// Leaves out what is not read of a Pod, or of the template of an object.
pub fn leave_out(object: &mut Value) {
    let Some(kind) = kinds::of(object) else { return };
    let Some(Value::Object(pod)) = object.pointer_mut(&kinds::pod_at(kind)) else { return };
    for field in ["containers", "initContainers"] {
        each_in(pod.get_mut("spec"), field, |container| remove(container, &OF_CONTAINER));
    }
    remove_in(pod, "spec", &OF_SPEC);
    for field in ["containerStatuses", "initContainerStatuses"] {
        each_in(pod.get_mut("status"), field, |status| remove(status, &OF_CONTAINER_STATUS));
    }
    remove_in(pod, "status", &OF_STATUS);
    if let Some(Value::Array(conditions)) = pod.get_mut("status").and_then(|status| status.get_mut("conditions")) {
        conditions.retain(|condition| condition.get("type").is_some_and(|kind| kind == READ_CONDITION));
    }
    let annotations = pod.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(Value::Object(annotations)) = annotations {
        annotations.retain(|name, _| READ.contains(&name.as_str()));
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
