//! The newest pod of a workload beside its template: containers that are injected when pods are created, and the requests that
//! running pods have.

use serde_json::Value;

use super::WorkloadEntry;
use crate::kinds::{self, POD};
use headroom_objects::kinds::items;

/// The containers that webhooks and operators add: the name, who adds it, and what sets its requests.
const INJECTORS: [(&str, &str, &str); 9] = [
    ("istio-proxy", "Istio", "annotations sidecar.istio.io/proxyCPU and sidecar.istio.io/proxyMemory"),
    ("linkerd-proxy", "Linkerd", "annotations config.linkerd.io/proxy-{cpu,memory}-request"),
    ("consul-dataplane", "Consul", "annotations consul.hashicorp.com/sidecar-proxy-{cpu,memory}-request"),
    ("daprd", "Dapr", "annotations dapr.io/sidecar-{cpu,memory}-request"),
    ("vault-agent", "Vault", "annotations vault.hashicorp.com/agent-requests-{cpu,mem}"),
    ("gke-gcsfuse-sidecar", "Cloud Storage FUSE", "annotations gke-gcsfuse/{cpu,memory}-request"),
    ("queue-proxy", "Knative", "annotations queue.sidecar.serving.knative.dev/{cpu,memory}-resource-request"),
    ("config-reloader", "Prometheus Operator", "flags --config-reloader-{cpu,memory}-request of the operator"),
    ("otc-container", "OpenTelemetry", "spec.resources of its OpenTelemetryCollector"),
];

const LISTS: [&str; 2] = ["containers", "initContainers"];
/// The fields of an injected container that decide what it requests and when it runs.
const DECIDING: [&str; 4] = ["name", "image", "resources", "restartPolicy"];

/// The place that sets the requests of an injected container, by its name.
pub fn set_by(container: &str) -> String {
    match INJECTORS.iter().find(|(name, ..)| *name == container) {
        Some((_, by, fields)) => format!("set {fields} (injected by {by})"),
        None => "change what injects it when pods are created, since the template does not have it".to_owned(),
    }
}

impl WorkloadEntry {
    /// The object with what its newest pod has besides.
    pub fn as_it_runs(&self) -> Value {
        let object = self.object.value();
        let pod = self.running_pod(&object);
        as_it_runs(object, pod.as_ref())
    }

    /// The spec of the newest pod, if it has all containers of the template `object`, as one of an earlier template may not.
    pub fn running_pod(&self, object: &Value) -> Option<Value> {
        let pod = self.newest.as_ref()?.value();
        let at = pod_in(object)?;
        let names = |of: &Value, at: &str, list: &str| -> Vec<Value> {
            items(of, &format!("{at}/spec/{list}")).filter_map(|of| of.get("name").cloned()).collect()
        };
        let has_all = |list: &&str| {
            let running = names(&pod, "", list);
            names(object, &at, list).iter().all(|name| running.contains(name))
        };
        LISTS.iter().all(has_all).then_some(pod)
    }
}

/// An object with what one of its pods has besides: injected containers and overhead, which take room and are charged.
pub fn as_it_runs(mut object: Value, pod: Option<&Value>) -> Value {
    let Some((pod, at)) = pod.zip(pod_in(&object)) else { return object };
    let Some(spec) = object.pointer_mut(&format!("{at}/spec")).and_then(Value::as_object_mut) else { return object };
    let injected = |container: &Value| -> Value {
        DECIDING.iter().filter_map(|field| Some(((*field).to_owned(), container.get(*field)?.clone()))).collect()
    };
    for list in LISTS {
        let own = spec.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let find = |name: Option<&Value>| own.iter().find(|of| of.get("name") == name);
        // In the pod's order, which decides beside which sidecars an init container runs.
        let all = items(pod, &format!("/spec/{list}"));
        let all: Vec<Value> = all.map(|of| find(of.get("name")).cloned().unwrap_or_else(|| injected(of))).collect();
        if all.len() > own.len() {
            spec.insert(list.to_owned(), Value::Array(all));
        }
    }
    if let Some(overhead) = pod.pointer("/spec/overhead") {
        spec.entry("overhead").or_insert_with(|| overhead.clone());
    }
    object
}

/// The place of the pod template in an object; none for pods, which stand for themselves.
fn pod_in(object: &Value) -> Option<String> {
    kinds::of(object).filter(|kind| **kind != POD).map(kinds::pod_at)
}
