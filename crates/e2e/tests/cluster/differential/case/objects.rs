//! The objects that requests create and update.

use serde_json::{Map, Value, json};

use super::amounts::{RESOURCES, Random, STORAGE};
use super::{GOLD, PRIORITIES, RUNTIME_CLASS};

pub fn pod(random: &mut Random) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": pod_spec(random)});
    if random.chance(10) {
        pod["metadata"]["annotations"] = json!({"team": "shop"});
    }
    pod
}

fn pod_spec(random: &mut Random) -> Value {
    let mut spec = json!({"containers": containers(random, &["web", "log", "cache"])});
    if random.chance(30) {
        spec["initContainers"] = containers(random, &["prepare", "migrate"]);
    }
    if random.chance(15) {
        spec["activeDeadlineSeconds"] = json!(60);
    }
    if random.chance(10) {
        spec["priorityClassName"] = json!(random.pick(&PRIORITIES));
    }
    if random.chance(7) {
        spec["runtimeClassName"] = json!(RUNTIME_CLASS);
    }
    spec
}

/// Containers with some of these names.
fn containers(random: &mut Random, names: &[&str]) -> Value {
    let some = &names[..random.count(1..=names.len())];
    some.iter().map(|name| json!({"name": name, "image": "nginx", "resources": resources(random)})).collect()
}

fn resources(random: &mut Random) -> Value {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for (name, table) in RESOURCES {
        let rarely = if name == "ephemeral-storage" { 4 } else { 1 };
        let [request, limit] = random.rising(table);
        if random.chance(55 / rarely) {
            requests.insert(name.to_owned(), json!(request));
        }
        if random.chance(50 / rarely) {
            limits.insert(name.to_owned(), json!(limit));
        }
    }
    if random.chance(5) {
        let amount = json!(random.pick(&["1", "2"]));
        requests.insert("example.com/gpu".to_owned(), amount.clone());
        limits.insert("example.com/gpu".to_owned(), amount);
    }
    // Huge pages require cpu or memory.
    if random.chance(5) && requests.contains_key("memory") {
        let amount = json!(random.pick(&["2Mi", "4Mi"]));
        requests.insert("hugepages-2Mi".to_owned(), amount.clone());
        limits.insert("hugepages-2Mi".to_owned(), amount);
    }
    let mut resources = Map::new();
    for (kind, list) in [("requests", requests), ("limits", limits)] {
        if !list.is_empty() {
            resources.insert(kind.to_owned(), Value::Object(list));
        }
    }
    Value::Object(resources)
}

pub fn claim(random: &mut Random) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": random.pick(STORAGE)}}},
    });
    match random.count(0..=9) {
        0..4 => claim["spec"]["storageClassName"] = json!(GOLD),
        4 => claim["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": GOLD}),
        _ => {}
    }
    claim
}

pub fn service(random: &mut Random) -> Value {
    let ports: Vec<Value> = (0..random.count(1..=3))
        .map(|number| json!({"name": format!("port-{number}"), "port": 8000 + number}))
        .collect();
    let of_type = random.pick(&["ClusterIP", "NodePort", "LoadBalancer"]);
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": of_type, "ports": ports},
    })
}

/// A controller: quotas count it and its pods when each is created.
pub fn workload(random: &mut Random) -> Value {
    let mut spec = pod_spec(random);
    let labels = json!({"app": "web"});
    let metadata = json!({"name": "web"});
    let (api_version, kind) = *random.pick(&[
        ("batch/v1", "Job"),
        ("batch/v1", "Job"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("v1", "ReplicationController"),
    ]);
    if kind == "Job" {
        spec["restartPolicy"] = json!("Never");
        return json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata,
            "spec": {"parallelism": 2, "template": {"metadata": {"labels": labels}, "spec": spec}},
        });
    }
    spec.as_object_mut().unwrap().remove("activeDeadlineSeconds");
    let selector = if kind == "ReplicationController" { labels.clone() } else { json!({"matchLabels": labels}) };
    let mut spec = json!({"selector": selector, "template": {"metadata": {"labels": labels}, "spec": spec}});
    if kind != "DaemonSet" {
        spec["replicas"] = json!(3);
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// The same controller with more pods. A DaemonSet has as many as there are nodes.
pub fn scaled_up(workload: &Value) -> Value {
    let mut workload = workload.clone();
    for field in ["parallelism", "replicas"] {
        if workload["spec"].get(field).is_some() {
            workload["spec"][field] = json!(5);
        }
    }
    workload
}
