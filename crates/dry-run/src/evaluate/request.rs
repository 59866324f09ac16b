//! The admission request that the API server would send for an object.

use headroom_admission::amount::Quantity;
use headroom_admission::request::kinds::PodKind;
use serde_json::{Value, json};

use headroom_objects::kinds::{ApiKind, items, keep, metadata, set, text};

/// No real request has it. Equal to no object's own, which would make it an audit scanner's request.
pub const UID: &str = "00000000-0000-4000-8000-000000000000";

const USER: &str = "kubectl-headroom";

/// The request to create an object; `namespace` is that of namespaced objects without one.
pub fn create(mut object: Value, kind: &ApiKind, namespace: &str) -> Value {
    without_nulls(&mut object);
    request(completed(object, kind), None, kind, namespace)
}

/// `kubectl apply` sends nothing for a field that is `null`.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            keep(fields, &mut |_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// The request for an object that is there and counted already, as Kubewarden's audit scanner sends it.
pub fn audit(mut object: Value, kind: &ApiKind) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        // The policy recognizes the audit scanner by the uid, which is the object's own.
        metadata.insert("uid".to_owned(), json!(UID));
    }
    create(object, kind, "")
}

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
    let mut request = json!({
        "uid": UID,
        "kind": gvk,
        "requestKind": gvk,
        "resource": resource,
        "requestResource": resource,
        "name": metadata(&object, "name"),
        "namespace": namespace,
        "operation": operation,
        "userInfo": {"username": USER},
        "dryRun": true,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
    });
    // `json!` would copy the objects, which is a third of an evaluation.
    set(&mut request, "object", object);
    set(&mut request, "oldObject", old.unwrap_or_default());
    request
}

/// Completes the resources of a new pod as the API server does before admission: a limit without a request is a request of the
/// same amount.
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

/// Rounds the amounts of containers, pods and claims up to thousandths, as the API server does when it reads them.
pub fn round_amounts(object: &mut Value, kind: &ApiKind) {
    let of_pod = PodKind::of(&kind.group, &kind.plural).map(|of| of.path);
    let path = of_pod.or((kind.qualified() == "persistentvolumeclaims").then_some(&[]));
    let owner = path.and_then(|path| path.iter().try_fold(object, |value, part| value.get_mut(part)));
    let Some(Value::Object(spec)) = owner.and_then(|owner| owner.get_mut("spec")) else { return };
    for (field, value) in spec {
        match (field.as_str(), value) {
            ("resources", resources) => round(resources),
            ("containers" | "initContainers", Value::Array(containers)) => {
                containers.iter_mut().filter_map(|container| container.get_mut("resources")).for_each(round);
            }
            _ => {}
        }
    }
}

fn round(resources: &mut Value) {
    for list in ["requests", "limits"] {
        for (_, amount) in resources.get_mut(list).and_then(Value::as_object_mut).into_iter().flatten() {
            let Some(Ok(read)) = amount.as_str().map(str::parse::<Quantity>) else { continue };
            let rounded = read.rounded_up_to_milli();
            if rounded != read {
                *amount = json!(rounded.to_string());
            }
        }
    }
}

/// Takes the node ports out of a service that has no more use for those that it had, as the API server does.
pub fn drop_node_ports(service: &mut Value, there: &Value) {
    let has_use = |service: &Value| matches!(text(service, "/spec/type"), "NodePort" | "LoadBalancer");
    if has_use(service) || !has_use(there) {
        return;
    }
    let had: Vec<i64> = items(there, "/spec/ports").filter_map(|port| port.get("nodePort")?.as_i64()).collect();
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        if port.get("nodePort").and_then(Value::as_i64).is_some_and(|own| had.contains(&own)) {
            port.remove("nodePort");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_without_a_request_becomes_one_and_a_template_stays_as_it_is_written() {
        let resources = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
        let spec = json!({"containers": [{"name": "a", "resources": resources}, {"name": "b"}]});
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "db-"}, "spec": spec});
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = Value::Null;
        let request = create(pod, &ApiKind::new("v1", "Pod"), "shop");
        let completed = &request["object"]["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(*completed, json!({"cpu": "500m", "memory": "1Gi"}));
        assert_eq!((&request["namespace"], &request["operation"]), (&json!("shop"), &json!("CREATE")));
        assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "pods"}));
        let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": spec}}});
        let request = create(workload.clone(), &ApiKind::new("apps/v1", "Deployment"), "shop");
        assert_eq!(request["object"], workload);
    }

    #[test]
    fn amounts_are_rounded_up_to_thousandths() {
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "0.1Mi"}, "limits": {"cpu": "oops"}});
        let spec = |cpu: &str| json!({"resources": resources(cpu), "containers": [{"name": "a", "resources": resources(cpu)}]});
        let pod = |cpu: &str| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec(cpu)});
        let job =
            |cpu: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": spec(cpu)}}});
        for (mut written, stored) in [(pod("1500u"), pod("2m")), (job("1500u"), job("2m")), (pod("0.5"), pod("0.5"))] {
            let kind = ApiKind::of(&written);
            round_amounts(&mut written, &kind);
            assert_eq!(written, stored);
        }
    }

    #[test]
    fn node_ports_go_with_the_type_that_has_them() {
        let service = |kind: &str, port: Value| json!({"spec": {"type": kind, "ports": [port]}});
        let there = service("NodePort", json!({"port": 80, "nodePort": 30_080}));
        for (kind, port, left) in [
            ("ClusterIP", json!({"port": 80, "nodePort": 30_080}), json!({"port": 80})),
            // The API server refuses one that is new.
            ("ClusterIP", json!({"port": 80, "nodePort": 30_081}), json!({"port": 80, "nodePort": 30_081})),
            ("LoadBalancer", json!({"port": 80, "nodePort": 30_080}), json!({"port": 80, "nodePort": 30_080})),
        ] {
            let mut new = service(kind, port);
            drop_node_ports(&mut new, &there);
            assert_eq!(new, service(kind, left));
        }
    }
}
