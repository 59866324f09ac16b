//! Each cluster has its own store.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use headroom_fixtures::api_server::kubeconfig;

use crate::api_server::ApiServer;
use crate::support::*;

fn csv(path: &Path, namespace: &str) {
    let header = "time,namespace,pod,container,image,cpu,memory\n";
    fs::write(path, format!("{header}{},{namespace},web-0,web,nginx,1,1Gi\n", NOW - DAY)).unwrap();
}

fn collect_files(folder: &Path, context: &str, file: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headroom-controller"))
        .args(["collect", "--context", context, "--pool-min-namespaces", "1", "files"])
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
    let urls = addresses.map(|address| format!("http://{address}"));
    let contexts = [("prod", urls[0].as_str(), "default"), ("staging", &urls[1], "default")];
    fs::write(folder.join("kubeconfig"), kubeconfig(&contexts)).unwrap();
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
