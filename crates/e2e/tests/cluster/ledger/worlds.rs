//! Replicas with delayed watches, with a wrong clock, or with different API servers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use headroom_api_server::clock;
use headroom_e2e::cluster::api_in;
use headroom_e2e::kubeconfig::{client, write_kubeconfig};
use kube::api::{Api, DynamicObject};
use serde_json::json;

use super::replicas::{Ledger, NAMESPACES, Tally, Watched, Watches};

fn ten_minutes_ahead() -> i64 {
    clock::now() + 600
}

/// Replicas whose clocks differ by ten minutes work, whichever of them leads.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn wrong_clocks_change_nothing() {
    let ledger = Ledger::start_in(json!({"pods": "30"}), &[], |[mut ahead, right]| {
        ahead.clock = ten_minutes_ahead;
        [ahead, right]
    })
    .await;
    let watched = ledger.watch().await;
    let first = ledger.leader().await;
    let tally = ledger.create_pods("first", 60, 60).await;
    assert_eq!(tally, Tally { stored: 30, refused: 30, ..Tally::default() });
    ledger.clean(Duration::from_secs(2)).await;
    // The other replica takes over, and then this one again.
    for (round, which) in [first, 1 - first].into_iter().enumerate() {
        ledger.kill(which);
        assert_eq!(ledger.leader().await, 1 - which);
        ledger.run(which).await;
        ledger.delete_all().await;
        let tally = ledger.create_pods(&format!("after-{round}"), 60, 60).await;
        assert_eq!(tally, Tally { stored: 30, refused: 30, ..Tally::default() });
        ledger.clean(Duration::from_secs(2)).await;
    }
    let (most, states) = watched.end();
    assert_eq!(most, 30, "in {states} states");
}

/// Two API servers on one etcd, a replica at each, requests to both; then one API server is killed under load.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn two_api_servers_on_one_etcd_keep_one_bound() {
    let mut ledger = Ledger::start(json!({"pods": "20"})).await;
    let folder = tempfile::tempdir().unwrap();
    let plane = ledger.cluster.control_plane.as_mut().unwrap();
    let kubeconfig = plane.add_api_server().await.unwrap();
    let file = folder.path().join("other.kubeconfig");
    write_kubeconfig(&kubeconfig, &file).unwrap();
    ledger.move_to(1, |world| world.kubeconfig = file).await;
    let other = client(&kubeconfig).await.unwrap();
    let watched = Watched::start(&other, None).await;
    let pods =
        |client: &kube::Client, namespace: &str| -> Api<DynamicObject> { api_in(client, namespace, "v1", "Pod") };
    let creating = (0..80).map(|at: usize| {
        let by = [&ledger.client, &other][at / 2 % 2];
        let pods = pods(by, NAMESPACES[at % 2]);
        async move { Ledger::create_pod_by(&pods, json!({"name": format!("both-{at}")}), false).await }
    });
    let tally = Tally::of(futures::future::join_all(creating).await);
    assert_eq!(tally, Tally { stored: 20, refused: 60, ..Tally::default() });
    ledger.clean(Duration::from_secs(5)).await;

    // Creates and deletes at the other API server, while the first is down for a while.
    let end = tokio_util::sync::CancellationToken::new();
    let churn = |writer: usize, pods: Api<DynamicObject>| {
        let end = end.clone();
        tokio::spawn(async move {
            let mut outcomes = Vec::new();
            while !end.is_cancelled() {
                let name = format!("churn-{writer}-{}", outcomes.len());
                let outcome = Ledger::create_pod_by(&pods, json!({"name": name}), false).await;
                let there = match &outcome {
                    Ok(_) => name,
                    Err(_) => format!("both-{}", fastrand::usize(..80)),
                };
                let now = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
                drop(pods.delete(&there, &now).await);
                outcomes.push(outcome);
            }
            outcomes
        })
    };
    let churning: Vec<_> = (0..12).map(|writer| churn(writer, pods(&other, NAMESPACES[writer % 2]))).collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let plane = ledger.cluster.control_plane.as_mut().unwrap();
    plane.stop_api_server();
    tokio::time::sleep(Duration::from_secs(3)).await;
    plane.start_api_server().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    end.cancel();
    let outcomes = futures::future::join_all(churning).await;
    let tally = Tally::of(outcomes.into_iter().flat_map(Result::unwrap));
    println!("{} stored, {} refused, {} asked to retry", tally.stored, tally.refused, tally.busy);
    assert!(tally.stored > 20 && tally.wrong.is_empty(), "{tally:?}");
    let clean = ledger.clean(Duration::from_secs(60)).await;
    println!("clean {clean:.1?} later");
    let (most, states) = watched.end();
    assert!(most <= 20, "{most} of 20 in {states} states");
}

/// The replicas' watches are cut under load, until etcd has compacted their revisions.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn watches_that_are_cut_until_etcd_has_compacted_miss_nothing() {
    let seconds = std::env::var("HEADROOM_LEDGER_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(9);
    let watches = Watches::default();
    // Without its cache, the API server has no older revisions than etcd.
    let arguments = ["--watch-cache=false", "--etcd-compaction-interval=2s"];
    let ledger = Ledger::start_in(json!({"pods": "20"}), &arguments, |worlds| {
        worlds.map(|world| super::replicas::World { watches: Some(watches.clone()), ..world })
    })
    .await;
    let watched = ledger.watch().await;
    let end = tokio_util::sync::CancellationToken::new();
    let churn = |writer: usize| ledger.churn(writer, || end.is_cancelled());
    let cut = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let lists = watches.lists.load(Ordering::Relaxed);
        watches.cut(true);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        watches.cut(false);
        super::replicas::until("pods are listed again", || watches.lists.load(Ordering::Relaxed) > lists).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        end.cancel();
    };
    let (outcomes, ()) = tokio::join!(futures::future::join_all((0..12).map(churn)), cut);
    // A pod that was created and deleted meanwhile was never seen: its claim is released like that of a failed request.
    let clean = ledger.clean(Duration::from_secs(40)).await;
    let tally = Tally::of(outcomes.into_iter().flatten());
    println!(
        "{} stored, {} refused, {} asked to retry; clean {clean:.1?} later",
        tally.stored, tally.refused, tally.busy
    );
    let (most, states) = watched.end();
    assert!(most <= 20 && tally.stored > 20, "{most} of 20 in {states} states; {tally:?}");
    assert_eq!(tally.wrong, Vec::<String>::new());
}
