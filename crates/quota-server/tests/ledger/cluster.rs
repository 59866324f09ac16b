//! The objects of a cluster with quotas, on the fake API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use headroom_fixtures::api_server::{self, ApiServer, Outcome};
use kube::Client;
use serde_json::{Value, json};

pub const LEDGERS: &str = "/apis/headroom.dev/v1alpha1/namespaces/headroom/quotaledgers";
pub const LEDGER: &str = "/apis/headroom.dev/v1alpha1/namespaces/headroom/quotaledgers/trees.1";

/// A client whose requests take some milliseconds.
pub fn client(server: &Arc<ApiServer>) -> Client {
    server.serve("headroom.dev/v1alpha1", "QuotaLedger", true);
    server.delay(0..=12);
    let server = Arc::clone(server);
    Client::new(tower::service_fn(move |request| Arc::clone(&server).answer(request)), "default")
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "a"}}})
}

/// A TenantQuota for namespaces by name.
pub fn quota(name: &str, namespaces: &[&str], hard: &Value) -> Value {
    json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": name, "generation": 1},
        "spec": {"namespaces": {"names": namespaces}, "quota": {"hard": hard}}})
}

/// A server without failures, with the namespace `shop` and a quota for it.
pub fn bounded(hard: &Value) -> Arc<ApiServer> {
    let server = ApiServer::new();
    server.put(namespace("shop"));
    server.put(quota("team", &["shop"], hard));
    server
}

pub fn pod(namespace: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "spec": {"containers": [{"name": "a", "image": "a"}]}})
}

pub fn pods(server: &ApiServer) -> usize {
    server.list("/api/v1/pods").len()
}

/// Stores a pod, if its name is free; never more than `max`.
pub fn store_pod(server: &ApiServer, pod: Value, max: usize) -> bool {
    if server.get(&pod_path(&pod)).is_some() {
        return false;
    }
    server.put(pod);
    let stored = pods(server);
    assert!(stored <= max, "{stored} are stored, {max} are allowed");
    true
}

fn pod_path(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap();
    format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))
}

pub fn delete_pod(server: &ApiServer, namespace: &str, name: &str) {
    server.remove(&format!("/api/v1/namespaces/{namespace}/pods/{name}"));
}

/// The only ledger; null if there is none.
pub fn ledger(server: &ApiServer) -> Value {
    server.get(LEDGER).unwrap_or_default()
}

/// Makes the next writes of the ledger fail. Returns the number of those that will still fail.
pub fn fail_ledger_writes(server: &ApiServer, count: usize) -> Arc<AtomicUsize> {
    let left = Arc::new(AtomicUsize::new(count));
    let failing = Arc::clone(&left);
    server.on_request(move |request| {
        let is_write =
            request.method == "PUT" && request.path == LEDGER || request.method == "POST" && request.path == LEDGERS;
        let is_failing = |left: usize| left.checked_sub(1).filter(|_| is_write);
        match failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_failing) {
            Ok(_) => api_server::status(500, "etcdserver: request timed out").into(),
            Err(_) => Outcome::Serve,
        }
    });
    left
}
