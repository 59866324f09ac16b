//! Replicas that die or are replaced.

use std::time::{Duration, Instant};

use headroom_e2e::control_plane::Controllers;

use super::churn::churn_during;
use super::scene::{Address, Row, Scene, Server};
use super::seen::{Tally, Watched, until};
use crate::workload_forecast::number;

async fn leader(servers: &[Server]) -> usize {
    let leader = || servers.iter().position(|server| server.address.metrics().contains("\nheadroom_ledger_leads 1\n"));
    until("a replica leads", || leader().is_some()).await;
    leader().unwrap()
}

/// Both replicas, including the leader, are killed repeatedly during requests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn killed_replicas_leave_no_claims() {
    let kills = number("HEADROOM_LEDGER_KILLS", 8);
    let mut scene = Scene::start(Row::Ledger, Controllers::Off, None).await;
    scene.add_quotas("20").await;
    let (mut servers, scene) = (std::mem::take(&mut scene.servers), scene);
    let watched = Watched::start(&scene.client, None).await;
    let killer = async {
        for kill in 0..kills {
            // The leader first, then either replica.
            let which = if kill % 2 == 0 { leader(&servers).await } else { fastrand::usize(0..2) };
            tokio::time::sleep(Duration::from_millis(fastrand::u64(300..1500))).await;
            servers[which].kill();
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..1000))).await;
            servers[which].run().await;
        }
    };
    let tally = churn_during(&scene, killer).await;
    // A review in progress at a killed replica ends with an error of the API server, not with ours.
    assert!(tally.wrong.iter().all(|wrong| wrong.contains("failed calling webhook")), "{:?}", tally.wrong);
    scene.clean(Duration::from_secs(120)).await;
    let (most, states) = watched.end();
    assert!(most <= 20, "{most} of 20 in {states} states");
    // The number of states depends on the machine, but the watch must have seen some.
    assert!(tally.stored > 0 && states > tally.stored, "only {states} states of {} stored", tally.stored);
}

/// Both replicas, including the leader, are replaced one after the other during requests, behind a Service: every request
/// is admitted.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn a_rollout_rejects_nothing() {
    let mut scene = Scene::start(Row::Ledger, Controllers::Off, None).await;
    // Room for more pods than any machine creates in the time.
    scene.add_quotas("1000000").await;
    let (mut servers, scene) = (std::mem::take(&mut scene.servers), scene);
    let addresses: Vec<Address> = servers.iter().map(|server| server.address).collect();
    let rollouts = async {
        for which in [0, 1, 0, 1] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            servers[which].stop().await;
            let began = Instant::now();
            servers[which].run().await;
            println!("ready {:.1?} after its start", began.elapsed());
        }
        // All are sent there since the other one was stopped last.
        let metrics = addresses[0].metrics();
        let reviews = metrics.lines().find(|line| line.contains("reviews_total{") && line.contains("allowed"));
        assert!(reviews.is_some_and(|line| !line.ends_with(" 0")), "the replica was not called: {metrics}");
    };
    let tally = tokio::select! {
        () = scene.serve_as_service(&addresses) => Tally::default(),
        tally = churn_during(&scene, rollouts) => tally,
    };
    assert!(tally.stored > 0, "{tally:?}");
    assert_eq!(tally, Tally { stored: tally.stored, ..Tally::default() });
}
