//! Fields that the API server resets or that must not matter, by kind and operation.

use serde_json::{Value, json};

use super::listed;
use super::requests::{DEVICE_CLAIM, POD, SERVICE, Sent};

/// Forged fields that a client may add to the object of this request.
pub fn of(sent: &Sent) -> Vec<Value> {
    let mut forgeries = listed("/forged/metadata");
    if matches!(sent.subresource, "resize" | "scale") {
        forgeries.extend(listed("/forged/labels"));
    }
    match sent.subresource {
        "status" => forgeries.extend(listed("/forged/ofStatus")),
        _ => forgeries.extend(listed("/statuses").into_iter().map(|status| json!({"status": status}))),
    }
    let of_kind = match (sent.kind, sent.subresource) {
        (POD, "resize") => of_a_resize(sent),
        (SERVICE, _) => left_out_node_ports(sent).into_iter().collect(),
        (DEVICE_CLAIM, _) => listed("/forged/ofDeviceClaim"),
        _ => Vec::new(),
    };
    // As often as all others together, because these matter most.
    if !of_kind.is_empty() {
        let others = forgeries.len();
        forgeries.extend(of_kind.into_iter().cycle().take(others));
    }
    forgeries
}

fn of_a_resize(sent: &Sent) -> Vec<Value> {
    let spec = &sent.object["spec"];
    let mut forgeries = listed("/forged/ofResize");
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
