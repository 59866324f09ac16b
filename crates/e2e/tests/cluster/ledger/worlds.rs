//! Replicas with different API servers.

use std::time::Duration;

use headroom_e2e::cluster::{api_in, create};
use headroom_e2e::control_plane::Controllers;
use headroom_e2e::kubeconfig::{client, write_kubeconfig};

use super::churn::churn_during;
use super::scene::{Row, Scene};
use super::seen::{Tally, Watched};

const RETRY: Duration = Duration::from_secs(1);

/// Two API servers on one etcd, a replica at each, requests to both; then one API server is killed under load.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn two_api_servers_on_one_etcd_keep_one_bound() {
    let mut scene = Scene::start(Row::Ledger, Controllers::Off, None).await;
    scene.add_quotas("20").await;
    let folder = tempfile::tempdir().unwrap();
    let mut plane = scene.cluster.control_plane.take().unwrap();
    let kubeconfig = plane.add_api_server().await.unwrap();
    let file = folder.path().join("other.kubeconfig");
    write_kubeconfig(&kubeconfig, &file).unwrap();
    scene.servers[1].move_to(&file).await;
    let other = client(&kubeconfig).await.unwrap();
    let watched = Watched::start(&other, None).await;
    let creating = (0..80).map(|at: usize| {
        let (scene, by) = (&scene, [&scene.client, &other][at / 2 % 2].clone());
        let name = format!("both-{at}");
        // As Kubernetes' own clients do, which retry ten times where they are asked to.
        async move {
            let create = || create(&by, scene.pod(&name, 0, at % 2));
            let mut outcome = create().await;
            for _ in 0..10 {
                if !matches!(&outcome, Err(kube::Error::Api(status)) if status.code == 429) {
                    break;
                }
                tokio::time::sleep(RETRY).await;
                outcome = create().await;
            }
            outcome
        }
    });
    let tally = Tally::of(futures::future::join_all(creating).await);
    assert_eq!(tally, Tally { stored: 20, refused: 60, ..Tally::default() });
    scene.clean(Duration::from_secs(30)).await;

    // Creates and deletes at the other API server, while the first is down for a while.
    scene.client = other;
    let gone = kube::api::DeleteParams::default().grace_period(0);
    let pods = api_in(&scene.client, &scene.namespaces[0].0, "v1", "Pod");
    drop(pods.delete_collection(&gone, &kube::api::ListParams::default()).await.unwrap());
    let outage = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        plane.stop_api_server();
        tokio::time::sleep(Duration::from_secs(3)).await;
        plane.start_api_server().await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    };
    let tally = churn_during(&scene, outage).await;
    assert!(tally.stored > 20 && tally.wrong.is_empty(), "{tally:?}");
    scene.clean(Duration::from_secs(120)).await;
    let (most, states) = watched.end();
    assert!(most <= 20, "{most} of 20 in {states} states");
}
