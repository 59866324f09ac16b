//! Many requests for a small quota.

use std::time::{Duration, Instant};

use serde_json::json;

use super::replicas::{Ledger, NAMESPACES, Tally};

/// Room for 50 of 200 pods, in two namespaces with two replicas: exactly 50 are stored, at any concurrency.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn exactly_as_many_pods_as_fit_are_admitted() {
    let ledger = Ledger::start(json!({"pods": "50", "requests.cpu": "100"})).await;
    let watched = ledger.watch().await;
    for at_once in [16, 64, 200] {
        let began = Instant::now();
        let tally = ledger.create_pods(&format!("at-{at_once}"), 200, at_once).await;
        let took = began.elapsed();
        assert_eq!(tally, Tally { stored: 50, refused: 150, ..Tally::default() });
        assert_eq!(ledger.stored().await, 50);
        let clean = ledger.clean(Duration::from_secs(2)).await;
        let (writes, conflicts) = ledger.writes();
        println!(
            "200 creates, {at_once} at once: 50 stored in {took:.1?}, clean {clean:.0?} later; {writes} writes and {conflicts} conflicts so far"
        );
        ledger.delete_all().await;
    }
    let (most, states) = watched.end();
    assert_eq!(most, 50, "in {states} states");
}

/// Concurrent creates and deletes at the bound.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn creates_and_deletes_at_the_bound_never_exceed_it() {
    let seconds = std::env::var("HEADROOM_LEDGER_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let ledger = Ledger::start(json!({"pods": "20"})).await;
    let watched = ledger.watch().await;
    let end = Instant::now() + Duration::from_secs(seconds);
    let churn = |writer: usize| ledger.churn(writer, || Instant::now() > end);
    let outcomes = futures::future::join_all((0..32).map(churn)).await;
    let tally = Tally::of(outcomes.into_iter().flatten());
    ledger.clean(Duration::from_secs(5)).await;
    let (most, states) = watched.end();
    println!("{tally:?}; at most {most} of 20 in {states} states");
    assert!(most <= 20 && tally.stored > 50, "{most} of 20 in {states} states; {tally:?}");
    assert_eq!((tally.busy, tally.wrong), (0, Vec::new()));
}

/// Generated names, conflicting names, and repeated creates of an existing name, which take no room.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn creates_with_conflicting_names_take_no_room() {
    let ledger = Ledger::start(json!({"pods": "30"})).await;
    let watched = ledger.watch().await;
    let generated = (0..10).map(|at| ledger.create_pod(NAMESPACES[at % 2], json!({"generateName": "job-"}), false));
    let tally = Tally::of(futures::future::join_all(generated).await);
    assert_eq!(tally, Tally { stored: 10, ..Tally::default() });
    // Ten concurrent creates for each of ten names.
    let conflicting = (0..100).map(|at| ledger.create_pod("shop", json!({"name": format!("name-{}", at % 10)}), false));
    let tally = Tally::of(futures::future::join_all(conflicting).await);
    assert_eq!((tally.stored, tally.others), (10, 90), "{tally:?}");
    for _ in 0..30 {
        drop(ledger.create_pod("shop", json!({"name": "name-0"}), false).await);
    }
    // Repeated creates hold no room once the object has been counted.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let tally = ledger.create_pods("more", 20, 20).await;
    assert_eq!((tally.stored, tally.refused), (10, 10), "{tally:?}");
    let (most, _) = watched.end();
    assert_eq!(most, 30);
    // Room of failed requests is released in time.
    ledger.clean(Duration::from_secs(45)).await;
}

/// Dry runs get the same answers and take no room.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn dry_runs_take_no_room() {
    let ledger = Ledger::start(json!({"pods": "20"})).await;
    let dry = (0..40).map(|at| ledger.create_pod(NAMESPACES[at % 2], json!({"name": format!("dry-{at}")}), true));
    let (dry, tally) = tokio::join!(futures::future::join_all(dry), ledger.create_pods("real", 40, 40));
    assert_eq!(tally, Tally { stored: 20, refused: 20, ..Tally::default() });
    assert_eq!(Tally::of(dry).wrong, Vec::<String>::new());
    ledger.clean(Duration::from_secs(2)).await;
    let refused = ledger.create_pod("shop", json!({"name": "dry"}), true).await.unwrap_err().to_string();
    assert!(
        refused.contains(
            "pods \"dry\" is forbidden: exceeded quota: payments, requested: pods=1, used: pods=20, limited: pods=20; \
             tenant quota payments: pods short by 1 (0 available)"
        ),
        "{refused}"
    );
}

/// A tree whose leaves are larger than its root, and an overlapping quota: each holds exactly.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn every_quota_of_a_tree_and_an_overlapping_one_hold() {
    let ledger = Ledger::start(json!({"pods": "30"})).await;
    let of_shop = json!({"parent": "payments", "namespaces": {"names": ["shop"]}});
    ledger.quota("payments-shop", of_shop, json!({"pods": "25"})).await;
    ledger.quota("overlap", json!({"namespaces": {"names": ["web"]}}), json!({"pods": "10"})).await;
    let plans = |which: usize| {
        let views = ledger.replica(which).unwrap().ledgers.covering("web");
        views.iter().map(|view| view.plan.nodes_of("web").len()).sum::<usize>() == 2
    };
    super::replicas::until("both quotas charge", || plans(0) && plans(1)).await;
    let tally = ledger.create_pods("tree", 80, 80).await;
    // 25 in shop and 10 in web are more than the root has.
    assert_eq!((tally.stored, tally.busy, &tally.wrong), (30, 0, &Vec::new()), "{tally:?}");
    let count =
        async |namespace| ledger.pods(namespace).list(&kube::api::ListParams::default()).await.unwrap().items.len();
    let (shop, web) = (count("shop").await, count("web").await);
    assert!(shop <= 25 && web <= 10 && shop + web == 30, "{shop} in shop, {web} in web");
    ledger.clean(Duration::from_secs(2)).await;
}
