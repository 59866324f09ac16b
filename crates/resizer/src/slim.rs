//! The fields of pods and workloads that are decided about. Their authors choose how large all others are, up to 1.5 MiB.

use headroom_admission::estimate::replace::LIMITS;
use headroom_objects::kinds::controller_of;
use serde_json::Value;

use crate::observed::{ALERT, MIRROR, RESIZE};

pub fn pod(mut pod: Value) -> Value {
    of_metadata(&mut pod);
    keep(pod.pointer_mut("/spec"), "containers nodeName os resources");
    keep(pod.pointer_mut("/status"), "conditions containerStatuses observedGeneration phase");
    for container in pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut).into_iter().flatten() {
        keep(Some(container), "name resizePolicy resources");
        keep(container.pointer_mut("/resources"), "limits requests");
        keep(container.pointer_mut("/resources/limits"), "cpu memory");
        keep(container.pointer_mut("/resources/requests"), "cpu memory");
    }
    pod
}

/// A workload without its template.
pub fn workload(mut workload: Value) -> Value {
    of_metadata(&mut workload);
    keep(workload.pointer_mut("/spec"), "completions parallelism replicas selector");
    workload
}

fn of_metadata(object: &mut Value) {
    let fields = "annotations deletionTimestamp generation labels name namespace ownerReferences resourceVersion uid";
    keep(object.pointer_mut("/metadata"), fields);
    keep(object.pointer_mut("/metadata/labels"), &format!("{RESIZE} controller-revision-hash pod-template-hash"));
    keep(object.pointer_mut("/metadata/annotations"), &[RESIZE, LIMITS, MIRROR, ALERT].join(" "));
    let controller: Value = controller_of(object).cloned().into_iter().collect();
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences") {
        *owners = controller;
    }
}

fn keep(object: Option<&mut Value>, fields: &str) {
    if let Some(Value::Object(map)) = object {
        map.retain(|field, _| fields.split(' ').any(|kept| kept == field));
    }
}
