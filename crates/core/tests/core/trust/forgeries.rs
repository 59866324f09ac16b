//! Fields that the API server resets or that must not matter, by kind and operation.

use serde_json::{Value, json};

use super::requests::{Kind, Sent, statuses};

/// Forged fields that a client may add to the object of this request.
pub fn of(sent: &Sent) -> Vec<Value> {
    let mut forgeries = of_metadata(sent);
    match sent.subresource {
        "status" => forgeries.extend([
            json!({"spec": {"resources": {"requests": {"storage": "1Ti"}}}}),
            json!({"spec": {"volumeAttributesClassName": "fast"}}),
            json!({"spec": null}),
        ]),
        _ => forgeries.extend(statuses().into_iter().map(|status| json!({"status": status}))),
    }
    let of_kind = match (sent.kind, sent.subresource) {
        (Kind::Pod, "resize") => of_a_resize(sent),
        (Kind::Service, _) => left_out_node_ports(sent).into_iter().collect(),
        (Kind::DeviceClaim, _) => vec![json!({"metadata": {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "another", "controller": true},
            ],
        }})],
        _ => Vec::new(),
    };
    // As often as all others together, because these matter most.
    if !of_kind.is_empty() {
        let others = forgeries.len();
        forgeries.extend(of_kind.into_iter().cycle().take(others));
    }
    forgeries
}

fn of_metadata(sent: &Sent) -> Vec<Value> {
    let deleted =
        |at: &str, grace: u32| json!({"metadata": {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace}});
    let owner = |api_version: &str, kind: &str| {
        let owner = json!({
            "apiVersion": api_version, "kind": kind, "name": "made-up", "uid": "made-up", "controller": true,
        });
        json!({"metadata": {"ownerReferences": [owner]}})
    };
    let mut forgeries = vec![
        deleted("2020-01-01T00:00:00Z", 0),
        deleted("2099-01-01T00:00:00Z", 30),
        owner("apps/v1", "Deployment"),
        owner("apps/v1", "ReplicaSet"),
        owner("batch/v1", "CronJob"),
        json!({"metadata": {"generation": 7, "selfLink": "/api", "uid": "made-up"}}),
        json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}),
        json!({"metadata": {"resourceVersion": "7"}}),
    ];
    if matches!(sent.subresource, "resize" | "scale") {
        forgeries.push(json!({"metadata": {"labels": {"tier": "free"}}}));
        forgeries.push(json!({"metadata": {"labels": {"tier": "paid"}}}));
        forgeries.push(json!({"metadata": {"labels": null}}));
    }
    forgeries
}

/// A resize changes only resources.
fn of_a_resize(sent: &Sent) -> Vec<Value> {
    let spec = &sent.object["spec"];
    let mut forgeries = vec![
        json!({"spec": {"overhead": {"cpu": "8"}}}),
        json!({"spec": {"overhead": null}}),
        json!({"spec": {"priorityClassName": "high"}}),
        json!({"spec": {"priorityClassName": null}}),
        json!({"spec": {"activeDeadlineSeconds": 30}}),
        json!({"spec": {"activeDeadlineSeconds": null}}),
        json!({"spec": {"serviceAccountName": "free"}}),
        json!({"metadata": {"annotations": {
            "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container a",
            "headroom.dev/resources": r#"{"a":{"requests.cpu":"1: made up"}}"#,
        }}}),
    ];
    if spec.get("resources").is_none() {
        forgeries.push(json!({"spec": {"resources": {"requests": {"cpu": "1m"}}}}));
    }
    let mut containers = spec["containers"].clone();
    containers.as_array_mut().unwrap().push(json!({"name": "z", "resources": {"requests": {"cpu": "64"}}}));
    forgeries.push(json!({"spec": {"containers": containers}}));
    if spec.get("initContainers").is_some() {
        let mut containers = spec["initContainers"].clone();
        let is_sidecar = containers[0].get("restartPolicy").is_some();
        containers[0]["restartPolicy"] = if is_sidecar { Value::Null } else { json!("Always") };
        forgeries.push(json!({"spec": {"initContainers": containers}}));
    }
    forgeries
}

/// An update without node ports keeps the node ports of ports with the same name.
fn left_out_node_ports(sent: &Sent) -> Option<Value> {
    let old = &sent.old.as_ref()?["spec"];
    let mut ports = sent.object["spec"]["ports"].clone();
    for port in ports.as_array_mut()? {
        let is_kept = old["ports"].as_array()?.iter().any(|old| old == port);
        if is_kept {
            port.as_object_mut()?.remove("nodePort");
        }
    }
    Some(json!({"spec": {"ports": ports}}))
}
