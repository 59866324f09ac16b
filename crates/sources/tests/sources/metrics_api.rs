//! The metrics API. Debian has no package of metrics-server, so a fake API server answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use headroom_fixtures::http::{FakeServer, Reply};
use headroom_sources::diagnosis::Verdict;
use headroom_sources::metrics_api::{self, MetricsApi};
use headroom_sources::{Source, SourceError};
use headroom_usage::sample::{Resource, Window};
use serde_json::{Value, json};

use crate::data::Read;

/// A fake API server whose objects can be changed while it runs.
struct ApiServer {
    fake: FakeServer,
    /// By path; none if the path is forbidden.
    objects: Arc<Mutex<BTreeMap<String, Option<Value>>>>,
}

impl ApiServer {
    fn start() -> Self {
        let objects = Arc::new(Mutex::new(BTreeMap::<String, Option<Value>>::new()));
        let served = objects.clone();
        let fake = FakeServer::start(move |head| {
            let target = head.split(' ').nth(1).unwrap();
            let path = target.split('?').next().unwrap();
            let (status, body) = match served.lock().unwrap().get(path) {
                Some(Some(object)) => (200, object.to_string()),
                Some(None) => status(403, "pods is forbidden: User \"eve\" cannot list resource \"pods\""),
                None => status(404, "the server could not find it"),
            };
            let date = "Date: Sat, 21 Nov 2026 04:29:21 GMT\r\nConnection: close";
            let head = format!("HTTP/1.1 {status} Status\r\n{date}\r\nContent-Length: {}\r\n\r\n", body.len());
            Reply::Bytes((head + &body).into_bytes())
        });
        Self { fake, objects }
    }

    fn put(&self, path: &str, object: Value) {
        self.objects.lock().unwrap().insert(path.to_owned(), Some(object));
    }

    fn forbid(&self, path: &str) {
        self.objects.lock().unwrap().insert(path.to_owned(), None);
    }

    fn list(&self, path: &str, items: Value) {
        self.put(path, json!({"kind": "List", "metadata": {"resourceVersion": "7"}, "items": items}));
    }

    fn client(&self) -> kube::Client {
        let mut config = kube::Config::new(self.fake.url().parse().unwrap());
        config.root_cert = Some(Vec::new());
        kube::Client::try_from(config).unwrap()
    }
}

fn status(code: u16, message: &str) -> (u16, String) {
    (code, json!({"kind": "Status", "code": code, "message": message}).to_string())
}

/// 2026-11-21T04:29:00Z.
const NOW: i64 = 1_795_235_340;

fn minute(after: i64) -> Window {
    Window { from: NOW + after * 60, to: NOW + after * 60 + 60 }
}

fn pod(kills: Value) -> Value {
    json!({"metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": [{"name": "nginx", "image": "nginx:1.27", "resources": {"limits": {"memory": "64Mi"}}}]},
        "status": {"containerStatuses": [{"name": "nginx", "state": {"running": {}}, "lastState": kills}]}})
}

fn measured(at: &str, cpu: &str) -> Value {
    json!([{"metadata": {"name": "web-1", "namespace": "shop"}, "timestamp": at, "window": "15s",
        "containers": [{"name": "nginx", "usage": {"cpu": cpu, "memory": "32Mi"}}]}])
}

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods";
const PODS: &str = "/api/v1/namespaces/shop/pods";

async fn look(source: &impl Source, window: Window) -> Read {
    let mut read = Read::default();
    source.read("shop", window, &mut |batch| read.take(batch)).await.unwrap();
    read
}

#[tokio::test]
async fn each_measurement_and_each_kill_is_reported_once() {
    let server = ApiServer::start();
    server.put("/version", json!({"major": "1"}));
    server.list("/api/v1/namespaces", json!([{"metadata": {"name": "shop"}}]));
    server.list(PODS, json!([pod(json!({}))]));
    server.list(METRICS, measured("2026-11-21T04:28:50Z", "250m"));
    let source = MetricsApi::new(server.client(), 60);
    assert_eq!(source.now().await, Ok(NOW + 21));
    assert_eq!(source.namespaces(minute(0)).await.unwrap(), ["shop"]);

    let first = look(&source, minute(0)).await;
    let reported: Vec<_> = first
        .series
        .iter()
        .map(|(key, samples)| (key.image.as_str(), key.resource, samples[0].time, samples[0].value))
        .collect();
    assert_eq!(
        reported,
        [("nginx:1.27", Resource::Cpu, NOW, 250_000_000), ("nginx:1.27", Resource::Memory, NOW, 32 << 20)]
    );
    assert_eq!(first.kills, []);

    // The API returns the same again; meanwhile there was a kill, with the limit in the pod.
    let killed = json!({"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-21T04:30:05Z"}});
    server.list(PODS, json!([pod(killed)]));
    let second = look(&source, minute(1)).await;
    assert_eq!((second.samples(), second.kills.len()), (0, 1));
    assert_eq!((second.kills[0].at, second.kills[0].memory), (NOW + 65, 64 << 20));

    // A restarted collector with the memory of the previous one reports nothing again; one without it does.
    let heir = MetricsApi::new(server.client(), 60);
    heir.remember(&source.memory().unwrap());
    let second_read = look(&heir, minute(1)).await;
    assert_eq!((second_read.samples(), second_read.kills.len()), (0, 0));
    heir.remember(b"unreadable");
    let second_read = look(&heir, minute(1)).await;
    assert_eq!((second_read.samples(), second_read.kills.len()), (2, 1));

    server.list(METRICS, measured("2026-11-21T04:31:10Z", "1"));
    let third = look(&source, minute(2)).await;
    assert_eq!((third.samples(), third.kills.len()), (2, 0));
    assert!(third.series.values().all(|samples| samples[0].time == NOW + 130));

    // Long after, there is no new measurement.
    assert_eq!(look(&source, minute(30)).await.samples(), 0);
}

#[tokio::test]
async fn a_whole_cluster_is_read_in_two_calls_if_permitted() {
    const NAMESPACES: usize = 300;
    let server = ApiServer::start();
    let (mut pods, mut metrics) = (Vec::new(), Vec::new());
    for number in 0..NAMESPACES {
        let (mut pod, mut measured) = (pod(json!({})), measured("2026-11-21T04:28:50Z", "250m")[0].clone());
        for object in [&mut pod, &mut measured] {
            object["metadata"]["namespace"] = json!(format!("team-{number}"));
        }
        pods.push(pod);
        metrics.push(measured);
    }
    server.list("/api/v1/pods", json!(pods));
    server.list("/apis/metrics.k8s.io/v1beta1/pods", json!(metrics));
    let source = MetricsApi::new(server.client(), 60);
    let look = async |source: &MetricsApi, window: Window| {
        let mut read = Read::default();
        let whole = source.read_all(window, &mut |batch| read.take(batch)).await.unwrap();
        (whole, read.samples())
    };
    assert_eq!(look(&source, minute(0)).await, (true, 2 * NAMESPACES));
    assert_eq!(server.fake.asked.lock().unwrap().len(), 2);
    // Reported once, also to a collector that takes over.
    assert_eq!(look(&source, minute(1)).await, (true, 0));
    let heir = MetricsApi::new(server.client(), 60);
    heir.remember(&source.memory().unwrap());
    assert_eq!(look(&heir, minute(1)).await, (true, 0));
    server.list("/api/v1/pods", json!([]));
    look(&source, minute(1)).await;
    assert!(source.memory().unwrap().len() < 100, "deleted pods must be forgotten");

    for forbidden in ["/api/v1/pods", "/apis/metrics.k8s.io/v1beta1/pods"] {
        server.forbid(forbidden);
        assert_eq!(look(&source, minute(2)).await, (false, 0));
    }
    server.put("/version", json!({}));
    server.list("/api/v1/namespaces", json!([{"metadata": {"name": "shop"}}]));
    server.list(PODS, json!([pod(json!({}))]));
    server.list(METRICS, measured("2026-11-21T04:28:50Z", "250m"));
    let findings = metrics_api::diagnose(server.client(), NOW).await.unwrap();
    let reported: Vec<_> = findings[1..3].iter().map(|finding| (finding.verdict, finding.subject)).collect();
    assert_eq!(reported, [(Verdict::Doubtful, "permissions"), (Verdict::Good, "metrics API")]);
    server.forbid(PODS);
    let refused = source.read("shop", minute(3), &mut |_| {}).await;
    assert!(
        matches!(&refused, Err(SourceError::Permanent(text)) if text.contains("not allowed to list pods")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_missing_metrics_api_is_reported() {
    let server = ApiServer::start();
    let source = MetricsApi::new(server.client(), 60);
    let refused = source.read("shop", minute(0), &mut |_| {}).await;
    let expected = "there is no metrics API: install metrics-server, or read from a metrics store";
    assert_eq!(refused, Err(SourceError::Permanent(expected.to_owned())));
    server.put("/version", json!({}));
    server.list("/api/v1/namespaces", json!([{"metadata": {"name": "shop"}}]));
    let findings = metrics_api::diagnose(server.client(), NOW).await.unwrap();
    assert_eq!(findings.last().unwrap().verdict, Verdict::Bad);
}
