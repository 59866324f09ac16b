//! The metrics API. Debian has no package of metrics-server, so the fake API server answers.

use std::sync::Arc;

use headroom_fixtures::api_server::{ApiServer, Outcome, status};
use headroom_metrics_stores::diagnosis::SourceVerdict;
use headroom_metrics_stores::metrics_api::{self, MetricsApi};
use headroom_metrics_stores::{Source, SourceError};
use headroom_usage::sample::{Resource, Window};
use serde_json::{Value, json};

use crate::data::Read;
use crate::forward::client;

/// 2026-11-21T04:29:00Z.
const NOW: i64 = 1_795_235_340;

/// An API server whose clock stands, with the namespace shop.
fn start() -> (Arc<ApiServer>, kube::Client) {
    let server = ApiServer::new();
    server.set_date("Sat, 21 Nov 2026 04:29:21 GMT");
    server.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    let client = client(&server.listen());
    (server, client)
}

fn forbid(server: &ApiServer, paths: &'static [&str]) {
    server.on_request(|request| match paths.contains(&request.path.as_str()) {
        true => Outcome::from(status(403, "pods is forbidden: User \"eve\" cannot list resource \"pods\"")),
        false => Outcome::Serve,
    });
}

fn minute(after: i64) -> Window {
    Window { from: NOW + after * 60, to: NOW + after * 60 + 60 }
}

fn pod(namespace: &str, kills: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": namespace, "uid": "u1"},
        "spec": {"containers": [{"name": "nginx", "image": "nginx:1.27", "resources": {"limits": {"memory": "64Mi"}}}]},
        "status": {"containerStatuses": [{"name": "nginx", "state": {"running": {}}, "lastState": kills}]}})
}

/// A PodMetrics, with the kind that gives it its path.
fn measured(namespace: &str, at: &str, cpu: &str) -> Value {
    json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": namespace},
        "timestamp": at, "window": "15s", "containers": [{"name": "nginx", "usage": {"cpu": cpu, "memory": "32Mi"}}]})
}

async fn look(source: &impl Source, window: Window) -> Read {
    let mut read = Read::default();
    source.read(&["shop"], window, &mut |batch| read.take(batch)).await.unwrap();
    read
}

#[tokio::test]
async fn each_measurement_and_each_kill_is_reported_once() {
    let (server, client) = start();
    server.put(pod("shop", json!({})));
    server.put(measured("shop", "2026-11-21T04:28:50Z", "250m"));
    let source = MetricsApi::new(client.clone());
    assert_eq!(source.now().await, Ok(NOW + 21));
    assert_eq!(source.namespaces(minute(0)).await.unwrap(), ["shop"]);

    let first = look(&source, minute(0)).await;
    let reported: Vec<_> = first
        .series
        .iter()
        .map(|((of, resource), samples)| (of.image.as_str(), *resource, samples[0].time, samples[0].value))
        .collect();
    assert_eq!(
        reported,
        [("nginx:1.27", Resource::Cpu, NOW, 250_000_000), ("nginx:1.27", Resource::Memory, NOW, 32 << 20)]
    );
    assert_eq!(first.kills, []);

    // The API returns the same again; meanwhile there was a kill, with the limit in the pod.
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-21T04:30:05Z"}});
    server.put(pod("shop", killed));
    let second = look(&source, minute(1)).await;
    assert_eq!((second.samples(), second.kills.len()), (0, 1));
    assert_eq!((second.kills[0].at, second.kills[0].memory), (NOW + 65, 64 << 20));

    // A restarted collector with the memory of the previous one reports nothing again; one without it does.
    let heir = MetricsApi::new(client);
    heir.remember(&source.memory().unwrap());
    let second_read = look(&heir, minute(1)).await;
    assert_eq!((second_read.samples(), second_read.kills.len()), (0, 0));
    heir.remember(b"unreadable");
    let second_read = look(&heir, minute(1)).await;
    assert_eq!((second_read.samples(), second_read.kills.len()), (2, 1));

    server.put(measured("shop", "2026-11-21T04:31:10Z", "1"));
    let third = look(&source, minute(2)).await;
    assert_eq!((third.samples(), third.kills.len()), (2, 0));
    assert!(third.series.values().all(|samples| samples[0].time == NOW + 130));

    // Long after, there is no new measurement.
    assert_eq!(look(&source, minute(30)).await.samples(), 0);
}

#[tokio::test]
async fn a_whole_cluster_is_read_in_two_calls_if_permitted() {
    const NAMESPACES: usize = 300;
    let (server, client) = start();
    for number in 0..NAMESPACES {
        let namespace = format!("team-{number}");
        server.put(pod(&namespace, json!({})));
        server.put(measured(&namespace, "2026-11-21T04:28:50Z", "250m"));
    }
    let source = MetricsApi::new(client.clone());
    let look = async |source: &MetricsApi, window: Window| {
        let mut read = Read::default();
        let whole = source.read_all(window, &mut |batch| read.take(batch)).await.unwrap();
        (whole, read.samples())
    };
    assert_eq!(look(&source, minute(0)).await, (true, 2 * NAMESPACES));
    assert_eq!(server.requests().len(), 2);
    // Reported once, also to a collector that takes over.
    assert_eq!(look(&source, minute(1)).await, (true, 0));
    let heir = MetricsApi::new(client.clone());
    heir.remember(&source.memory().unwrap());
    assert_eq!(look(&heir, minute(1)).await, (true, 0));
    for number in 0..NAMESPACES {
        server.remove(&format!("/api/v1/namespaces/team-{number}/pods/web-1"));
    }
    look(&source, minute(1)).await;
    assert!(source.memory().unwrap().len() < 100, "deleted pods must be forgotten");

    for forbidden in [&["/api/v1/pods"], &["/apis/metrics.k8s.io/v1beta1/pods"]] {
        forbid(&server, forbidden);
        assert_eq!(look(&source, minute(2)).await, (false, 0));
    }
    server.put(pod("shop", json!({})));
    server.put(measured("shop", "2026-11-21T04:28:50Z", "20k"));
    let findings = metrics_api::diagnose(client, NOW).await.unwrap();
    let reported: Vec<_> = findings[1..3].iter().map(|finding| (finding.verdict, finding.subject)).collect();
    assert_eq!(reported, [(SourceVerdict::Doubtful, "permissions"), (SourceVerdict::Good, "metrics API")]);
    let amounts = findings.iter().find(|finding| finding.subject == "amounts").unwrap();
    assert_eq!(amounts.found, "1 impossible sample, such as cpu 20k of container nginx in shop/web-1");
    forbid(&server, &["/api/v1/namespaces/shop/pods"]);
    let refused = source.read(&["shop"], minute(3), &mut |_| {}).await;
    assert!(
        matches!(&refused, Err(SourceError::Permanent(text)) if text.contains("not allowed to list pods")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_missing_metrics_api_is_reported() {
    let (_server, client) = start();
    let refused = MetricsApi::new(client.clone()).read(&["shop"], minute(0), &mut |_| {}).await;
    let expected = "there is no metrics API: install metrics-server, or read from a metrics store";
    assert_eq!(refused, Err(SourceError::Permanent(expected.to_owned())));
    let findings = metrics_api::diagnose(client, NOW).await.unwrap();
    assert_eq!(findings.last().unwrap().verdict, SourceVerdict::Bad);
}
