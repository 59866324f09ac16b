//! The admission request that the API server would send for an object.

use serde_json::{Value, json};

use crate::kinds::{ApiKind, metadata};

/// No real request has it. Equal to no object's own, which would make it an audit scanner's request.
pub const UID: &str = "00000000-0000-4000-8000-000000000000";

/// Who asks, where nobody is known.
const USER: &str = "kubectl-headroom";

/// The request to make an object; `namespace` counts for kinds that live in one and objects that name none.
pub fn create(object: Value, kind: &ApiKind, namespace: &str) -> Value {
    request(completed(object, kind), None, kind, namespace)
}

/// The request to replace an object.
pub fn update(object: Value, old: Value, kind: &ApiKind, namespace: &str) -> Value {
    request(object, Some(old), kind, namespace)
}

fn request(object: Value, old: Option<Value>, kind: &ApiKind, namespace: &str) -> Value {
    let ApiKind { group, version, kind: kind_name, plural, is_namespaced } = kind;
    let own = metadata(&object, "namespace");
    let namespace = if own.is_empty() { namespace } else { own };
    let namespace = if *is_namespaced { namespace } else { "" };
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let options = if old.is_some() { "UpdateOptions" } else { "CreateOptions" };
    let gvk = json!({"group": group, "version": version, "kind": kind_name});
    let resource = json!({"group": group, "version": version, "resource": plural});
    json!({
        "uid": UID,
        "kind": gvk,
        "requestKind": gvk,
        "resource": resource,
        "requestResource": resource,
        "name": metadata(&object, "name"),
        "namespace": namespace,
        "operation": operation,
        "userInfo": {"username": USER},
        "object": object,
        "oldObject": old,
        "dryRun": true,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
    })
}

/// What the API server does to a new object before anybody is asked, as far as it concerns what a pod may ask for: a
/// limit without a request is a request of the same amount.
fn completed(mut object: Value, kind: &ApiKind) -> Value {
    if kind.qualified() != "pods" {
        return object;
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        for container in object.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(Value::Object(resources)) = container.get_mut("resources") else { continue };
            let Some(Value::Object(limits)) = resources.get("limits").cloned() else { continue };
            if let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({})) {
                for (name, limit) in limits {
                    requests.entry(name).or_insert(limit);
                }
            }
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_without_a_request_becomes_one() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "db-"}, "spec": {"containers": [
            {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}},
            {"name": "b"}]}});
        let request = create(pod, &ApiKind::new("v1", "Pod"), "shop");
        assert_eq!(
            request["object"]["spec"]["containers"][0]["resources"]["requests"],
            json!({"cpu": "500m", "memory": "1Gi"})
        );
        assert_eq!((&request["namespace"], &request["operation"]), (&json!("shop"), &json!("CREATE")));
        assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "pods"}));
    }

    #[test]
    fn a_template_stays_as_it_is_written() {
        let resources = json!({"limits": {"cpu": "1"}});
        let template = json!({"spec": {"containers": [{"name": "a", "resources": resources}]}});
        let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}});
        let request = create(workload.clone(), &ApiKind::new("apps/v1", "Deployment"), "shop");
        assert_eq!(request["object"], workload);
    }
}
