//! A Lease prevents two collectors of one cluster from writing at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headroom_api_server::lease::{RenewedLease, Timing, Turn};
use headroom_api_server::parts::Parts;
use headroom_collector::publish::cluster::{ClusterError, ProfileCluster};
use headroom_collector::publish::lease::{lease, lease_error};
use headroom_collector::publish::{Destination, PublishError};
use headroom_fixtures::api_server::{Outcome, status};
use headroom_metrics_stores::Reach;
use serde_json::json;

use crate::api_server::{ApiServer, LEASE};
use crate::cluster::{publish_to, rounds, store, wait_for};
use crate::support::*;

/// A Lease of two seconds instead of a minute.
const FAST: Timing = Timing {
    duration: Duration::from_secs(2),
    renewal: Duration::from_millis(200),
    observation: Duration::from_millis(50),
};

async fn lease_of(server: &std::sync::Arc<ApiServer>, store: &str) -> RenewedLease {
    lease(ProfileCluster::new(server.client().await, false, &pace()).api, "headroom", store, FAST, &Parts::default())
}

/// Takes the Lease, and returns how long that took.
async fn take(lease: &RenewedLease) -> Duration {
    let begun = Instant::now();
    assert_eq!(lease.take().await.unwrap(), Turn::Ours);
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_holds_the_lease_and_the_other_names_the_holder() {
    let server = ApiServer::new("1");
    let (first, second) = (lease_of(&server, "aaaa").await, lease_of(&server, "bbbb").await);
    take(&first).await;
    take(&first).await;
    let holder = server.holder();
    assert!(holder.ends_with("_aaaa"), "{holder}");
    let begun = Instant::now();
    match second.take().await.unwrap() {
        Turn::Theirs { holder: theirs, renewed } => assert!(theirs == holder && renewed.is_some()),
        Turn::Ours => panic!("both hold the Lease"),
    }
    assert!(begun.elapsed() < FAST.duration, "a renewal was not noticed in time");
    assert!(first.is_ours() && !second.is_ours());
    // Longer than its duration, because it is renewed.
    tokio::time::sleep(FAST.duration + FAST.renewal).await;
    assert!(first.is_ours());

    first.release().await;
    assert!(!first.is_ours() && server.holder().is_empty());
    assert!(take(&second).await < FAST.duration / 2, "a released Lease was not taken at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_under_way_does_not_prevent_the_release() {
    let server = ApiServer::new("1");
    let lease = lease_of(&server, "aaaa").await;
    take(&lease).await;
    let (within, is_renewed) = (Arc::downgrade(&server), AtomicBool::new(false));
    server.on_request(move |request| {
        let is_release =
            request.method == "PUT" && request.body["spec"]["holderIdentity"].as_str().is_none_or(str::is_empty);
        if is_release && !is_renewed.swap(true, Ordering::Relaxed) {
            within.upgrade().unwrap().edit(LEASE, &json!({"metadata": {"annotations": {"renewed": "meanwhile"}}}));
        }
        Outcome::Serve
    });
    lease.release().await;
    assert!(server.holder().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_killed_collector_expires() {
    let server = ApiServer::new("1");
    take(&lease_of(&server, "aaaa").await).await;
    // With the same store, the Lease is taken at once, because no other collector can have that store open.
    assert!(take(&lease_of(&server, "aaaa").await).await < FAST.duration / 2);
    let waited = take(&lease_of(&server, "bbbb").await).await;
    assert!(waited >= FAST.duration / 2, "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_many_gets_the_lease() {
    let server = ApiServer::new("1");
    let mut tasks = Vec::new();
    for number in 0..8 {
        let lease = lease_of(&server, &format!("{number:04}")).await;
        tasks.push(tokio::spawn(async move { (lease.take().await.unwrap(), lease) }));
    }
    let (mut winners, mut kept) = (0, Vec::new());
    for task in tasks {
        let (turn, lease) = task.await.unwrap();
        winners += u32::from(turn == Turn::Ours);
        kept.push(lease);
    }
    assert_eq!(winners, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_loses_the_lease_stops_writing() {
    let server = ApiServer::new("1");
    let (_folder, store) = store().await;
    let ours = lease_of(&server, store.id()).await;
    take(&ours).await;
    let cluster = Destination::Cluster(Box::new(server.start().await));
    publish_to(&store, &cluster, NOW, Some(&ours), false).await.unwrap();
    let written = server.writes();
    assert!(server.holders.lock().unwrap().iter().all(|holder| holder.ends_with(store.id())));
    // Another client overwrites the Lease.
    server.edit(LEASE, &serde_json::json!({"spec": {"holderIdentity": "eve_bbbb"}}));
    let deadline = Instant::now() + 4 * FAST.duration;
    while ours.is_ours() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(FAST.observation).await;
    }
    let error = publish_to(&store, &cluster, NOW + 7 * HOUR, Some(&ours), false).await.unwrap_err();
    assert!(matches!(error, PublishError::Cluster(ClusterError::LostTurn)), "{error}");
    assert_eq!(server.writes(), written);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_api_server_ends_the_turn_in_time() {
    let server = ApiServer::new("1");
    let ours = lease_of(&server, "aaaa").await;
    take(&ours).await;
    server.fail(|_| Some(status(503, "etcd has no leader")));
    tokio::time::sleep(FAST.duration).await;
    assert!(!ours.is_ours());
    server.fail(|_| None);
    take(&ours).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_namespace_is_named() {
    let server = ApiServer::new("1");
    server.fail(|request| {
        let (code, mut object) = status(404, "namespaces \"headroom\" not found");
        object["details"] = json!({"kind": "namespaces", "name": "headroom"});
        matches!(request.method.as_str(), "POST" | "PATCH").then_some((code, object))
    });
    let error = lease_of(&server, "aaaa").await.take().await.unwrap_err();
    let error = lease_error(error, "headroom").to_string();
    assert_eq!(
        error,
        "there is no namespace `headroom` for the profiles: create it, or name another \
         with --namespace"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_ends_with_each_of_its_parts() {
    for name in ["collecting", "renewals of the Lease", "watch of Namespaces"] {
        let (server, folder) = (ApiServer::new("1"), tempfile::tempdir().unwrap());
        let mut rounds = rounds(&server, folder.path(), Scripted::new(three_workloads())).await;
        let (api, parts) = (server.start().await.api, rounds.metrics.parts.clone());
        rounds.lease = Some(lease(api, "headroom", rounds.store.id(), FAST, &parts));
        drop(rounds.start(Duration::from_secs(3600)));
        let begun = Instant::now();
        while !parts.silent().iter().any(|(part, _)| part == name) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", parts.silent());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        parts.disturb(name, false);
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), parts.failed()).await.unwrap(), name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_is_no_success_while_nothing_can_be_published() {
    let (server, folder) = (ApiServer::new("1"), tempfile::tempdir().unwrap());
    let source = Scripted { reach: Reach::Present, step_seconds: 1, ..Scripted::new(three_workloads()) };
    let mut rounds = rounds(&server, folder.path(), source).await;
    let (api, metrics, stop) = (server.start().await.api, rounds.metrics.clone(), rounds.stop.clone());
    rounds.lease = Some(lease(api, "headroom", rounds.store.id(), FAST, &metrics.parts));
    server.fail(|request| request.path.contains("/leases").then(|| status(403, "leases is forbidden")));
    let running = rounds.start(Duration::from_secs(3600));
    wait_for(&server, "two reads", &|| metrics.to_string().contains("runs_total{result=\"done\"} 2\n")).await;
    let text = metrics.to_string();
    assert!(text.contains("_runs_total{result=\"failed\"} 1\n") && text.contains("_leads 0\n"), "{text}");
    assert!(text.contains("_last_success_timestamp_seconds 0\n"), "{text}");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_lost_between_publications_is_told() {
    let (server, folder) = (ApiServer::new("1"), tempfile::tempdir().unwrap());
    let source = Scripted { reach: Reach::Present, step_seconds: 1, ..Scripted::new(three_workloads()) };
    let mut rounds = rounds(&server, folder.path(), source).await;
    let (api, metrics) = (server.start().await.api, rounds.metrics.clone());
    rounds.lease = Some(lease(api, "headroom", rounds.store.id(), FAST, &metrics.parts));
    drop(rounds.start(Duration::from_secs(3600)));
    wait_for(&server, "a leader", &|| metrics.to_string().contains("_leads 1\n")).await;
    server.fail(|request| request.path.contains("/leases").then(|| status(503, "etcd has no leader")));
    wait_for(&server, "no leader", &|| metrics.to_string().contains("_leads 0\n")).await;
}
