//! Requests that fail after admission, and replicas that die.

use std::time::{Duration, Instant};

use headroom_e2e::cluster::create;
use headroom_e2e::webhook::WebhookServer;
use serde_json::{Value, json};

use super::replicas::{Ledger, Tally};

/// Another webhook refuses a third of the requests after us: their room is released, and refusals do not wait long.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn room_of_requests_refused_by_another_webhook_is_released() {
    let ledger = Ledger::start(json!({"pods": "30"})).await;
    let other = WebhookServer::start(|_: &str, request: &Value| {
        let is_refused = request["name"].as_str().is_some_and(|name| {
            name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())) % 3 == 0
        });
        match is_refused {
            true => json!({"allowed": false, "status": {"code": 403, "message": "another webhook says no"}}),
            false => json!({"allowed": true}),
        }
    })
    .await
    .unwrap();
    create(&ledger.client, json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "other"}, "webhooks": [{
            "name": "other.example.com", "clientConfig": other.client_config("/"), "failurePolicy": "Fail",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"tenant": "payments"}}, "sideEffects": "None", "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
        }],
    }))
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let watched = ledger.watch().await;
    let began = Instant::now();
    let tally = ledger.create_pods("some", 90, 30).await;
    println!("{tally:?} in {:.1?}", began.elapsed());
    assert!(tally.others > 10 && tally.refused > 0, "{tally:?}");
    assert_eq!(tally.wrong, Vec::<String>::new());
    let one = Instant::now();
    let refused = ledger.create_pods("late", 3, 3).await;
    assert!(refused.stored == 3 || one.elapsed() < Duration::from_secs(5), "{refused:?}");
    // The longest lifetime of a request, plus the time to look up the objects.
    let clean = ledger.clean(Duration::from_secs(40)).await;
    println!("clean {clean:.1?} later");
    let (most, states) = watched.end();
    assert!(most <= 30, "{most} of 30 in {states} states");
}

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

/// The API server is killed under load and restarted.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn the_ledger_survives_a_restart_of_the_api_server() {
    let mut ledger = Ledger::start(json!({"pods": "20"})).await;
    let before = ledger.create_pods("before", 10, 10).await;
    assert_eq!(before.stored, 10);
    let during = ledger.create_pods("during", 30, 10);
    // Killed during requests, whose clients get no answer.
    drop(tokio::time::timeout(Duration::from_millis(60), during).await);
    let plane = ledger.cluster.control_plane.as_mut().unwrap();
    plane.stop_api_server();
    plane.start_api_server().await.unwrap();
    let clean = ledger.clean(Duration::from_secs(60)).await;
    println!("clean {clean:.1?} after the API server was ready");
    let after = ledger.create_pods("after", 40, 40).await;
    assert_eq!(ledger.stored().await, 20, "{after:?}");
}
