//! Usage of one cluster is never written to another, and a store never has usage of two clusters.

use headroom_collector::store::{Store, StoreError};
use headroom_metrics_stores::cluster_id::ClusterId;

use crate::api_server::ApiServer;
use crate::cluster::rounds;
use crate::support::*;

fn id(uid: &str) -> ClusterId {
    ClusterId { address: Some(format!("https://{uid}:6443")), uid: Some(uid.to_owned()), created: None }
}

#[test]
fn a_store_refuses_another_cluster_and_another_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    let said = |error: StoreError| error.to_string().replace(&path.display().to_string(), "usage.redb");
    let prometheus = "prometheus at http://p:9090";
    let store = Store::open(&path).unwrap();
    // An empty store accepts any origin.
    store.claim(&id("staging"), "files", false).unwrap();
    store.claim(&id("prod"), prometheus, false).unwrap();
    store.plan(headroom_usage::sample::Window { from: 0, to: 60 }, &[]).unwrap();
    store.claim(&id("prod"), prometheus, false).unwrap();
    store.claim(&ClusterId::default(), prometheus, false).unwrap();
    drop(store);

    let store = Store::open(&path).unwrap();
    assert_eq!(
        said(store.claim(&id("staging"), prometheus, true).unwrap_err()),
        "the store `usage.redb` holds usage of cluster `https://prod:6443` (UID of kube-system: prod), and now that of \
         cluster `https://staging:6443` (UID of kube-system: staging) would be added: choose another file with --store, \
         or the right cluster with --context"
    );
    assert_eq!(
        said(store.claim(&id("prod"), "metrics-api", false).unwrap_err()),
        "the store `usage.redb` was filled from prometheus at http://p:9090, and not from metrics-api: choose another \
         file with --store; or, if both have the usage of the same workloads, go on with --adopt"
    );
    store.claim(&id("prod"), "metrics-api", true).unwrap();
    store.claim(&id("prod"), "metrics-api", false).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_of_one_cluster_is_not_written_to_another() {
    let server = ApiServer::new("1");
    let folder = tempfile::tempdir().unwrap();
    // kube-state-metrics identifies a cluster by the creation time of kube-system.
    let of_another = ClusterId { created: Some(1_700_000_000), ..ClusterId::default() };
    let run = async |cluster: ClusterId| {
        let source = Scripted { cluster, ..Scripted::new(three_workloads()) };
        let rounds = rounds(&server, folder.path(), source).await;
        let done = rounds.once().await.map_err(|error| error.to_string());
        (done, rounds.store.newest().unwrap())
    };
    let (refused, newest) = run(of_another).await;
    assert_eq!(
        refused.unwrap_err(),
        "prometheus at http://p:9090 has the usage of cluster (kube-system created 2023-11-14T22:13:20Z), but profiles \
         would be written to cluster (UID of kube-system: 1): choose the right --context, or write elsewhere with --output"
    );
    assert_eq!((newest, server.profiles()), (None, Vec::new()));
    let of_this = ClusterId { created: Some(1_767_323_045), ..ClusterId::default() };
    let (done, newest) = run(of_this).await;
    done.unwrap();
    assert!(newest.is_some() && !server.profiles().is_empty());
}
