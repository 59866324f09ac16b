//! Accuracy of estimates: from annotations and usage of pods to metrics and profiles.

use crate::api_server::{ApiServer, Scenario};
use crate::cluster::rounds;
use crate::support::*;
use serde_json::{Value, json};

const NGINX: &str = "docker.io/library/nginx";

fn pod(namespace: &str, name: &str, annotation: &str) -> Value {
    json!({"namespace": namespace, "name": name, "creationTimestamp": "2026-11-18T00:00:00Z",
        "annotations": {"headroom.dev/resources": annotation}})
}

/// The metrics about estimates.
fn shown(metrics: &impl ToString) -> Vec<String> {
    let text = metrics.to_string();
    let of_estimates = text.lines().filter(|line| line.starts_with("headroom_collector_estimated_"));
    of_estimates.map(|line| line.trim_start_matches("headroom_collector_estimated_").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn estimates_are_compared_with_usage_of_their_pods() {
    let server = ApiServer::new("1");
    let folder = tempfile::tempdir().unwrap();
    server.put_all("Pod", [
        // Its usage is evenly distributed from 1m to 501m.
        pod(
            "shop",
            "web-0",
            r#"{"main":{"requests.cpu":"400m: p90 of recent nginx:1.27 in this namespace, 60 samples, 1h old","requests.memory":"1Gi: typical for this image: chart"}}"#,
        ),
        // The pod was created after the container's usage had ended.
        pod("shop", "web-1", r#"{"main":{"requests.cpu":"1m: typical for this image: chart"}}"#),
        // Set by hand.
        pod(
            "lab",
            "job-0",
            r#"{"main":{"requests.cpu":"10k: typical for this image: x","requests.memory":"2Ei: peak of 7d x"}}"#,
        ),
        pod("lab", "unseen", r#"{"main":{"requests.cpu":"1: typical for this image: x"}}"#),
        pod("shop", "default", r#"{"main":{"requests.cpu":"1m: default of LimitRange limits"}}"#),
    ]);
    let mut workloads = three_workloads();
    workloads[1].to = NOW - 4 * DAY;
    let rounds = rounds(&server, folder.path(), Scripted::new(workloads)).await;
    rounds.once().await.unwrap();

    let profiles: Vec<Value> = server.profiles();
    let shop = &histories(&profiles, NGINX, "shop")["estimates"];
    let of = |resource: &str, name: &str| figure(&shop[resource], name);
    assert_eq!(["containers", "above", "estimated"].map(|name| of("cpu", name)), ["1", "1", "400m"]);
    assert_eq!(["containers", "above", "estimated"].map(|name| of("memory", name)), ["1", "0", "1Gi"]);
    let used: headroom_core::amount::Quantity = of("cpu", "used").parse().unwrap();
    assert!((240..260).contains(&used.milli_value()), "{used}");
    assert_eq!(histories(&profiles, NGINX, "pool")["estimates"], Value::Null);

    let shown = shown(&*rounds.metrics);
    let has = |line: &str| assert!(shown.iter().any(|shown| shown.starts_with(line)), "{line}: {shown:?}");
    has(r#"containers{namespace="shop",resource="cpu"} 1.0"#);
    has(r#"containers_above{namespace="shop",resource="cpu"} 1.0"#);
    has(r#"requests{namespace="shop",resource="cpu"} 0.4"#);
    has(r#"usage{namespace="shop",resource="cpu"} 0.25"#);
    // Annotations on a pod of lab only change lab's figures, and impossible values are ignored.
    has(r#"requests{namespace="lab",resource="cpu"} 10000.0"#);
    assert!(!shown.iter().any(|shown| shown.contains("lab") && shown.contains("memory")), "{shown:?}");
    assert_eq!(shown.len(), 3 * 4);

    // A week after a container was last seen, it has no metrics.
    rounds.store.expire(((NOW + 7 * DAY) / DAY) as u32).unwrap();
    assert_eq!(of_store(&rounds.store), 2, "expiry depends on the newest usage, not on the clock");
}

fn of_store(store: &headroom_collector::store::Store) -> usize {
    let mut count = 0;
    for root in headroom_core::cluster::usage::Root::all() {
        store.visit_compared(root, |_, _| count += 1).unwrap();
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_not_seen_for_a_week_no_longer_count() {
    let server = ApiServer::new("1");
    let folder = tempfile::tempdir().unwrap();
    let annotation = r#"{"main":{"requests.cpu":"1m: typical for this image: chart"}}"#;
    server.put_all("Pod", [pod("shop", "web-0", annotation), pod("lab", "job-0", annotation)]);
    let mut workloads = three_workloads();
    // Three days later, web-0 was last seen more than a week ago.
    workloads[2].to = NOW + 8 * DAY;
    let mut source = Scripted::new(workloads);
    rounds(&server, folder.path(), source).await.once().await.unwrap();
    assert_eq!(of_store(&open(folder.path())), 2);
    source = Scripted { now: NOW + 8 * DAY, ..Scripted::new(three_workloads()) };
    source.workloads[2].to = NOW + 8 * DAY;
    let rounds = rounds(&server, folder.path(), source).await;
    rounds.once().await.unwrap();
    rounds.store.expire(((NOW + 8 * DAY) / DAY) as u32).unwrap();
    assert_eq!(of_store(&rounds.store), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_to_list_pods_collection_continues() {
    let server = ApiServer::new("1");
    let folder = tempfile::tempdir().unwrap();
    server.set_scenario(Scenario::NoPods);
    let rounds = rounds(&server, folder.path(), Scripted::new(three_workloads())).await;
    rounds.once().await.unwrap();
    assert_eq!((server.profiles().len(), shown(&*rounds.metrics).len()), (64, 0));
}
