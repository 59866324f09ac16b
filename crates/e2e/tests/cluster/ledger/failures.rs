//! Replicas that die or are replaced.

use std::time::{Duration, Instant};

use serde_json::json;

use super::replicas::{Ledger, Tally};

/// Both replicas, including the leader, are killed repeatedly during requests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn killed_replicas_leave_no_claims() {
    let kills = std::env::var("HEADROOM_LEDGER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let ledger = Ledger::start(json!({"pods": "20"})).await;
    let watched = ledger.watch().await;
    let end = tokio_util::sync::CancellationToken::new();
    let churn = |writer: usize| ledger.churn(writer, || end.is_cancelled());
    let killer = async {
        for kill in 0..kills {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(300..1500))).await;
            // The leader first, then either replica.
            let which = if kill % 2 == 0 { ledger.leader().await } else { fastrand::usize(0..2) };
            ledger.kill(which);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..1000))).await;
            ledger.run(which).await;
        }
        end.cancel();
    };
    let (outcomes, ()) = tokio::join!(futures::future::join_all((0..12).map(churn)), killer);
    let tally = Tally::of(outcomes.into_iter().flatten());
    let (stored, refused, wrong) = (tally.stored, tally.refused, tally.wrong.len());
    println!("{stored} stored, {refused} refused, {} asked to retry, {wrong} failed with a replica", tally.busy);
    // A review in progress at a killed replica ends with an error of the API server, not with ours.
    assert!(tally.wrong.iter().all(|wrong| wrong.contains("failed calling webhook")), "{:?}", tally.wrong);
    let clean = ledger.clean(Duration::from_secs(60)).await;
    println!("clean {clean:.1?} later");
    let (most, states) = watched.end();
    assert!(most <= 20, "{most} of 20 in {states} states");
    // The number of states depends on the machine, but the watch must have seen some.
    assert!(stored > 0 && states > stored, "only {states} states of {stored} stored");
}

/// Both replicas, including the leader, are replaced one after the other during requests, behind a Service: every request
/// is admitted.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn a_rollout_rejects_nothing() {
    // The churn creates more than it deletes: room for more pods than any machine creates in the time.
    let ledger = Ledger::start(json!({"pods": "1000000"})).await;
    let rollouts = async {
        let end = tokio_util::sync::CancellationToken::new();
        let churn = |writer: usize| ledger.churn(writer, || end.is_cancelled());
        let rollouts = async {
            for which in [0, 1, 0, 1] {
                tokio::time::sleep(Duration::from_secs(1)).await;
                ledger.stop(which).await;
                let began = Instant::now();
                ledger.run(which).await;
                println!("ready {:.1?} after its start", began.elapsed());
            }
            // All are sent there since the other one was stopped last.
            let reviews = ledger.replica(0).unwrap().metrics.reviews("allowed");
            assert!(reviews > 0, "the replica was not called");
            end.cancel();
        };
        tokio::join!(futures::future::join_all((0..12).map(churn)), rollouts).0
    };
    let outcomes = tokio::select! {
        () = ledger.serve_as_service() => Vec::new(),
        outcomes = rollouts => outcomes,
    };
    let tally = Tally::of(outcomes.into_iter().flatten());
    assert!(tally.stored > 0, "{tally:?}");
    assert_eq!(tally, Tally { stored: tally.stored, ..Tally::default() });
}
