//! Replicas with different API servers.

use std::time::Duration;

use headroom_e2e::cluster::api_in;
use headroom_e2e::kubeconfig::{client, write_kubeconfig};
use kube::api::{Api, DynamicObject};
use serde_json::json;

use super::replicas::{Ledger, NAMESPACES, Tally, Watched};

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
    ledger.move_to(1, file).await;
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
