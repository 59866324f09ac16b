//! `headroom-controller enforce-quotas` as a program, with a tenant whose pods are as large as they may be.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use headroom_fixtures::api_server::{self, ApiServer};
use headroom_fixtures::process::{Running, peak_kib};
use headroom_fixtures::servers;
use headroom_fixtures::tls::connect;
use headroom_quota_server::tls;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

/// The memory limit of a replica in the chart.
const MEMORY_LIMIT_KIB: u64 = 256 << 10;
/// The largest request that etcd accepts.
const LARGEST_OBJECT: usize = 1_536 << 10;
const LARGE_REVIEWS: usize = 160;
/// The time that an API server waits for a webhook.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// An API server in front of a replica.
struct Caller {
    /// That of the replica's certificate.
    authority: String,
    replica: SocketAddr,
}

impl Caller {
    /// Returns true if the pod is admitted before the API server gives up.
    async fn admits(&self, review: &str) -> bool {
        timeout(WEBHOOK_TIMEOUT, self.ask(review)).await.is_ok_and(|answer| answer.unwrap_or(false))
    }

    async fn ask(&self, review: &str) -> std::io::Result<bool> {
        let mut stream = connect(self.replica, &self.authority, None).await?;
        let head = format!(
            "POST /review HTTP/1.1\r\nhost: ledger\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            review.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(review.as_bytes()).await?;
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer[..read]).contains("\"allowed\":true"))
    }
}

/// With an old object, as large as a review may be.
fn review(name: &str, env: &[Value]) -> String {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"containers": [{"name": "a", "image": "a", "env": env}]}});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": format!("review-{name}"), "operation": "CREATE", "namespace": "shop", "name": name,
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "kind": {"kind": "Pod"},
        "userInfo": {"username": "eve"}, "object": pod, "oldObject": pod}})
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pods_as_large_as_they_may_be_stay_within_the_memory_of_a_replica() {
    let server = ApiServer::new();
    server.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    server.put(json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": "team"},
        "spec": {"namespaces": {"names": ["shop"]}, "quota": {"hard": {"pods": "1000"}}}}));
    server.serve("headroom.dev/v1alpha1", "QuotaLedger", true);
    let (folder, made) = (
        tempfile::tempdir().unwrap(),
        tls::make(&["127.0.0.1".to_owned()], headroom_api_server::clock::now(), 1).unwrap(),
    );
    let kubeconfig = api_server::kubeconfig(&[("here", &server.listen(), "headroom")]);
    for (name, text) in [("tls.crt", &made.certificate), ("tls.key", &made.key), ("kubeconfig", &kubeconfig)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let [replica, status] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], servers::free_port())));
    let mut program = Command::new(env!("CARGO_BIN_EXE_headroom-controller"));
    program.args(["enforce-quotas", "--no-configure", "--tls=.", "--listen", &replica.to_string()]);
    program.args(["--listen-status", &status.to_string()]).env("KUBECONFIG", "kubeconfig");
    let running = Running(program.current_dir(&folder).stderr(Stdio::null()).spawn().unwrap());
    let caller = Arc::new(Caller { authority: made.authority, replica });
    let begun = Instant::now();
    while !caller.admits(&review("first", &[])).await {
        assert!(begun.elapsed() < Duration::from_secs(60), "no answer");
        sleep(Duration::from_millis(100)).await;
    }

    // Small values take the most memory for their bytes.
    let small = json!({"name": "a", "value": ""});
    let env = vec![small.clone(); LARGEST_OBJECT / (small.to_string().len() + 1)];
    // Written before any is sent, which takes this process longer than the replica's answers.
    let text = review("NAME", &env);
    let reviews: Vec<String> =
        (0..LARGE_REVIEWS).map(|number| text.replace("NAME", &format!("large-{number}"))).collect();
    let admits = |review: String| {
        let caller = Arc::clone(&caller);
        tokio::spawn(async move { caller.admits(&review).await })
    };
    let large: Vec<_> = reviews.into_iter().map(admits).collect();
    sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    let is_other_admitted = caller.admits(&review("small", &[])).await;
    let waited = begun.elapsed();
    let mut admitted = 0;
    for review in large {
        admitted += usize::from(review.await.unwrap());
    }
    let peak = peak_kib(running.0.id()).unwrap();
    println!(
        "peak memory: {} MiB, {admitted} of {LARGE_REVIEWS} large pods admitted in time, a small one in {waited:?}",
        peak >> 10
    );
    assert!(is_other_admitted && admitted > 0);
    assert!(peak < MEMORY_LIMIT_KIB, "{} MiB", peak >> 10);
}
