//! A cluster with quotas on the fake API server, and replicas of the ledger.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use headroom_fixtures::api_server::{ApiServer, Outcome, status};
use headroom_quota_server::{Options, Replica, review, tls};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub const HARD: usize = 6;
/// Longer than any request takes after its review, on a busy machine.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(6);
pub const LEDGERS: &str = "/apis/headroom.dev/v1alpha1/namespaces/headroom/quotaledgers";
pub const LEDGER: &str = "/apis/headroom.dev/v1alpha1/namespaces/headroom/quotaledgers/trees.1";

pub static CERTIFICATE: LazyLock<tls::ServingCertificate> =
    LazyLock::new(|| tls::make(&["127.0.0.1".to_owned()], headroom_api_server::clock::now(), 1).unwrap());

/// A replica that is killed when dropped: all its work stops at once.
pub struct Running(pub Arc<Replica>);

impl std::ops::Deref for Running {
    type Target = Arc<Replica>;

    fn deref(&self) -> &Arc<Replica> {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.drained.cancel();
    }
}

impl Running {
    pub fn start(server: &Arc<ApiServer>) -> Self {
        Self::start_with(server, options())
    }

    pub fn start_with(server: &Arc<ApiServer>, options: Options) -> Self {
        let replica = Self::new(server, options);
        drop(replica.start());
        replica
    }

    /// A replica that does nothing yet.
    pub fn new(server: &Arc<ApiServer>, options: Options) -> Self {
        let replica = Replica::new(options, client(server), CancellationToken::new());
        replica.certificate.set(CERTIFICATE.certificate.as_bytes(), CERTIFICATE.key.as_bytes()).unwrap();
        Self(replica)
    }

    pub async fn ask(&self, review: &Value) -> Value {
        let answer = review::answer(&self.0, review.to_string().as_bytes()).await.unwrap();
        answer["response"].clone()
    }

    pub async fn create(&self, object: &Value) -> Value {
        self.ask(&review(object, &Value::Null)).await
    }
}

pub fn options() -> Options {
    let exempt_groups = vec!["operators".to_owned()];
    Options { request_lifetime: REQUEST_LIFETIME, clock, exempt_groups, ..Options::new("headroom") }
}

/// The time by Tokio's clock, which a test may have paused: a Lease is renewed only by a later time.
pub fn clock() -> i64 {
    static START: LazyLock<(Instant, i64)> = LazyLock::new(|| (Instant::now(), headroom_api_server::clock::now()));
    START.1 + START.0.elapsed().as_secs() as i64
}

/// A client whose requests take some milliseconds.
pub fn client(server: &Arc<ApiServer>) -> Client {
    server.serve("headroom.dev/v1alpha1", "QuotaLedger", true);
    server.delay(0..=12);
    let server = Arc::clone(server);
    Client::new(tower::service_fn(move |request| Arc::clone(&server).answer(request)), "default")
}

/// An AdmissionReview of the creation of an object, or of its update if there is an old one.
pub fn review(object: &Value, old: &Value) -> Value {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
    let kind = object["kind"].as_str().unwrap();
    let metadata = &object["metadata"];
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "review", "operation": if old.is_null() { "CREATE" } else { "UPDATE" }, "namespace": metadata["namespace"],
        "name": metadata["name"], "kind": {"kind": kind}, "userInfo": {"username": "ann"},
        "resource": {"group": group, "version": version, "resource": format!("{}s", kind.to_lowercase())},
        "object": object, "oldObject": old}})
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

/// The same with this many pods allowed, and a replica that has counted none.
pub async fn with_replica(pods: usize) -> (Arc<ApiServer>, Running) {
    let server = bounded(&json!({"pods": pods.to_string()}));
    let replica = Running::start(&server);
    until_counted(&server, "pods=0").await;
    (server, replica)
}

/// A pod whose uid is its name.
pub fn pod(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {"containers": [{"name": "a", "image": "a"}]}})
}

pub fn pod_with(namespace: &str, name: &str, resource: &str, amount: &str) -> Value {
    let mut pod = pod(namespace, name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {resource: amount}});
    pod
}

pub fn pods(server: &ApiServer) -> usize {
    server.list("/api/v1/pods").len()
}

/// Stores a pod, if its name is free; never more than `max`.
pub fn store_pod(server: &ApiServer, pod: Value, max: usize) -> bool {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap();
    if server.get(&format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))).is_some() {
        return false;
    }
    server.put(pod);
    let stored = pods(server);
    assert!(stored <= max, "{stored} are stored, {max} are allowed");
    true
}

pub fn delete_pod(server: &ApiServer, namespace: &str, name: &str) {
    server.remove(&format!("/api/v1/namespaces/{namespace}/pods/{name}"));
}

/// The only ledger; null if there is none.
pub fn ledger(server: &ApiServer) -> Value {
    server.get(LEDGER).unwrap_or_default()
}

pub fn quota_status(server: &ApiServer, name: &str) -> Value {
    server.get(&format!("/apis/headroom.dev/v1alpha1/tenantquotas/{name}")).unwrap()["status"].clone()
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
            Ok(_) => status(500, "etcdserver: request timed out").into(),
            Err(_) => Outcome::Serve,
        }
    });
    left
}

/// Waits until the ledger has counted this usage and has no claims.
pub async fn until_counted(server: &ApiServer, used: &str) {
    until(|| ledger(server), |ledger| ledger["used"][0] == used && ledger.get("claims").is_none()).await;
}

pub async fn until(read: impl Fn() -> Value, is_expected: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + REQUEST_LIFETIME + Duration::from_secs(60);
    loop {
        let found = read();
        if is_expected(&found) {
            return;
        }
        assert!(Instant::now() < deadline, "not as expected: {found}");
        sleep(Duration::from_millis(20)).await;
    }
}
