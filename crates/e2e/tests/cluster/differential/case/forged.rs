//! Fields that a client may send although the API server sets them itself: they must not change the result.
//!
//! Fields that the API server refuses are omitted: a `resourceVersion` on a create; on an update, a `uid` or times that
//! differ from the old object's.

use serde_json::{Value, json};

use super::Request;
use super::amounts::Random;

type Forge = fn(&mut Random, &mut Value);

/// The request's object with one to three fields forged.
pub fn forge(random: &mut Random, request: &Request) -> Value {
    let mut object = request.object.clone();
    let mut choices: Vec<Forge> = vec![|random, object| {
        let of_any: [Forge; 4] = [
            forge_owner,
            |_, object| {
                object["metadata"]["labels"] = json!({"pod-template-hash": "5d59d67564", "job-name": "made-up"});
            },
            |_, object| object["metadata"]["generation"] = json!(7),
            |_, object| object["metadata"]["selfLink"] = json!("/api/v1/namespaces/default/pods/web"),
        ];
        random.pick(&of_any)(random, object);
    }];
    if request.before.is_none() {
        choices.extend([forge_deletion as Forge, forge_identity]);
    }
    // Twice, because fields of the kind matter most.
    let of_kind = if request.subresource == Some("status") { vec![forge_spec as Forge] } else { of_kind(&object) };
    choices.extend(of_kind.into_iter().flat_map(|forge| [forge, forge]));
    for _ in 0..random.count(1..=3) {
        random.pick(&choices)(random, &mut object);
    }
    object
}

/// Forgeries for the object's kind.
fn of_kind(object: &Value) -> Vec<Forge> {
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => vec![forge_phase, forge_qos_class, forge_infeasible_resize],
        "PersistentVolumeClaim" => vec![forge_volume],
        "Service" => vec![|_, service| service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}})],
        "Job" => vec![|random, job| {
            let done = json!({"succeeded": 100, "completionTime": "2020-01-01T00:00:00Z"});
            job["status"] = random.pick(&[done, json!({"active": 100})]).clone();
        }],
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => vec![|_, workload| {
            workload["status"] = json!({
                "replicas": 100, "readyReplicas": 100, "availableReplicas": 100, "observedGeneration": 100,
            });
        }],
        "DaemonSet" => vec![|random, set| {
            let nodes = random.pick(&[0, 100]);
            set["status"] = json!({
                "currentNumberScheduled": nodes, "desiredNumberScheduled": nodes, "numberMisscheduled": 0, "numberReady": 0,
            });
        }],
        "Scale" => vec![|_, scale| scale["status"] = json!({"replicas": 100, "selector": "app=other"})],
        _ => Vec::new(),
    }
}

fn forge_phase(random: &mut Random, pod: &mut Value) {
    pod["status"]["phase"] = json!(random.pick(&["Succeeded", "Failed", "Running", "Unknown"]));
}

fn forge_qos_class(random: &mut Random, pod: &mut Value) {
    pod["status"]["qosClass"] = json!(random.pick(&["BestEffort", "Burstable", "Guaranteed"]));
}

/// If a resize is infeasible, the allocated resources count instead of the spec. 1.20 keeps the condition, and those
/// fields of the container statuses that it knows.
fn forge_infeasible_resize(_: &mut Random, pod: &mut Value) {
    pod["status"]["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    pod["status"]["resize"] = json!("Infeasible");
    for (containers, statuses) in [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")] {
        let small = json!({"cpu": "1m", "memory": "1"});
        let statuses_of_all = pod["spec"][containers].as_array().into_iter().flatten().map(|container| {
            json!({
                "name": container["name"], "image": "nginx", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": small, "resources": {"requests": small, "limits": small},
            })
        });
        let statuses_of_all: Vec<Value> = statuses_of_all.collect();
        pod["status"][statuses] = json!(statuses_of_all);
    }
}

fn forge_volume(random: &mut Random, claim: &mut Value) {
    let sizes = ["1", "1Ti"];
    claim["status"] = json!({
        "phase": random.pick(&["Pending", "Bound", "Lost"]),
        "capacity": {"storage": random.pick(&sizes)},
        "allocatedResources": {"storage": random.pick(&sizes)},
        "currentVolumeAttributesClassName": "fast",
        "modifyVolumeStatus": {"targetVolumeAttributesClassName": "fast", "status": "Pending"},
    });
}

/// A status update cannot change the spec.
fn forge_spec(_: &mut Random, object: &mut Value) {
    if object["kind"] == "Pod" {
        object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "9"}, "limits": {"cpu": "99"}});
        object["spec"]["activeDeadlineSeconds"] = json!(7);
    } else {
        object["spec"]["resources"]["requests"]["storage"] = json!("1Ti");
    }
}

/// A deletion time in the past or in the future.
fn forge_deletion(random: &mut Random, object: &mut Value) {
    object["metadata"]["deletionTimestamp"] = json!(random.pick(&["2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"]));
    object["metadata"]["deletionGracePeriodSeconds"] = json!(random.pick(&[0, 30]));
}

fn forge_identity(_: &mut Random, object: &mut Value) {
    object["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    object["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
}

/// The API server keeps owners, but does not check that they exist.
fn forge_owner(random: &mut Random, object: &mut Value) {
    let (api_version, kind) = random.pick(&[
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("v1", "Pod"),
    ]);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": api_version, "kind": kind, "name": "made-up", "uid": "00000000-0000-4000-8000-000000000001",
        "controller": true,
    }]);
}
