//! Objects of the tests, each made by one call.

use serde_json::{Value, json};

/// A pod with one container, `web`.
pub fn pod(namespace: &str, name: &str, resources: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "web", "image": "registry.example.com/shop/web:1", "resources": resources}]},
    })
}

/// The LimitRange `limits` with one item for containers.
pub fn limit_range(namespace: &str, mut item: Value) -> Value {
    item["type"] = json!("Container");
    json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": namespace},
        "spec": {"limits": [item]},
    })
}

/// The ResourceQuota `team`.
pub fn quota(namespace: &str, hard: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": namespace},
        "spec": {"hard": hard},
    })
}

/// The Deployment `web` with this many pods of one container.
pub fn deployment(namespace: &str, replicas: u64, resources: Value) -> Value {
    let pod = pod(namespace, "web", resources);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]},
        },
    })
}
