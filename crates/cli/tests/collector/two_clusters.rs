//! Usage of one cluster is never written to another, and a store never has usage of two clusters.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use headroom_collector::store::{Origin, Store};
use headroom_sources::cluster_id::ClusterId;

use crate::api_server::{ApiServer, kubeconfig};
use crate::cluster::rounds;
use crate::support::*;

fn id(uid: &str) -> ClusterId {
    ClusterId { address: Some(format!("https://{uid}:6443")), uid: Some(uid.to_owned()), created: None }
}

fn origin(cluster: ClusterId, source: &str) -> Origin {
    Origin { cluster, source: source.to_owned() }
}

#[test]
fn a_store_refuses_another_cluster_and_another_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    let said = |error: headroom_collector::store::StoreError| {
        error.to_string().replace(&path.display().to_string(), "usage.redb")
    };
    let prometheus = "prometheus at http://p:9090";
    let store = Store::open(&path).unwrap();
    // An empty store accepts any origin.
    store.claim(&origin(id("staging"), "files"), false).unwrap();
    store.claim(&origin(id("prod"), prometheus), false).unwrap();
    store.plan(headroom_usage::sample::Window { from: 0, to: 60 }, &[]).unwrap();
    store.claim(&origin(id("prod"), prometheus), false).unwrap();
    store.claim(&origin(ClusterId::default(), prometheus), false).unwrap();
    drop(store);

    let store = Store::open(&path).unwrap();
    assert_eq!(
        said(store.claim(&origin(id("staging"), prometheus), true).unwrap_err()),
        "the store `usage.redb` holds usage of cluster `https://prod:6443` (UID of kube-system: prod), and now that of \
         cluster `https://staging:6443` (UID of kube-system: staging) would be added: choose another file with --store, \
         or the right cluster with --context"
    );
    assert_eq!(
        said(store.claim(&origin(id("prod"), "metrics-api"), false).unwrap_err()),
        "the store `usage.redb` was filled from prometheus at http://p:9090, and not from metrics-api: choose another \
         file with --store; or, if both have the usage of the same workloads, go on with --change-source"
    );
    store.claim(&origin(id("prod"), "metrics-api"), true).unwrap();
    store.claim(&origin(id("prod"), "metrics-api"), false).unwrap();
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
    assert_eq!((newest, server.names()), (None, Vec::new()));
    let of_this = ClusterId { created: Some(1_767_323_045), ..ClusterId::default() };
    let (done, newest) = run(of_this).await;
    done.unwrap();
    assert!(newest.is_some() && !server.names().is_empty());
}

fn csv(path: &Path, namespace: &str) {
    let header = "time,namespace,pod,container,image,cpu,memory\n";
    fs::write(path, format!("{header}{},{namespace},web-0,web,nginx,1,1Gi\n", NOW - DAY)).unwrap();
}

fn collect_files(folder: &Path, context: &str, file: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headroom-controller"))
        .args(["collect", "--context", context, "--min-namespaces", "1", "files"])
        .arg(folder.join(file))
        .args(more)
        .env_clear()
        .env("HOME", folder)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .output()
        .unwrap()
}

#[test]
fn each_cluster_has_its_own_store() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (prod, staging) = (ApiServer::new("prod"), ApiServer::new("staging"));
    let addresses: [SocketAddr; 2] = runtime.block_on(async { [prod.listen().await, staging.listen().await] });
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    kubeconfig(&folder.join("kubeconfig"), &[("prod", addresses[0]), ("staging", addresses[1])]);
    csv(&folder.join("prod.csv"), "shop");
    csv(&folder.join("staging.csv"), "lab");
    for (context, file) in [("prod", "prod.csv"), ("staging", "staging.csv"), ("prod", "prod.csv")] {
        let output = collect_files(folder, context, file, &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for (server, ours, other) in [(&prod, "shop", "lab"), (&staging, "lab", "shop")] {
        let profiles: Vec<serde_json::Value> = server.profiles.lock().unwrap().values().cloned().collect();
        assert_eq!(profiles.len(), 64, "expected every root");
        assert!(!histories(&profiles, "docker.io/library/nginx", ours).is_null());
        assert!(histories(&profiles, "docker.io/library/nginx", other).is_null());
    }
    assert_eq!(fs::read_dir(folder.join(".local/state/headroom")).unwrap().count(), 2);
    assert!(prod.holder().is_empty() && staging.holder().is_empty(), "the leases were not released");

    // One file for both is refused, and the error names both.
    let store = folder.join("one.redb");
    let store = ["--store", store.to_str().unwrap()];
    assert!(collect_files(folder, "prod", "prod.csv", &store).status.success());
    let before = staging.histories();
    let refused = collect_files(folder, "staging", "staging.csv", &store);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success()
            && said.contains("UID of kube-system: prod")
            && said.contains("UID of kube-system: staging"),
        "{said}"
    );
    assert_eq!(staging.histories(), before);
}
