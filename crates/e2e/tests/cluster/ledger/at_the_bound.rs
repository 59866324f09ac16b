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
