//! `kubectl headroom snapshot` at a real API server: Pods that it rejected, as far as the user may read about them.

use std::process::Command;
use std::time::{Duration, Instant};

use headroom_e2e::cluster::{Cluster, api_in, create};
use headroom_e2e::control_plane::Controllers;
use kube::Client;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::objects::{deployment, pod, quota};

/// The Deployment `web` and the StatefulSet `db` want Pods, and the quota `team` has room for none.
async fn workloads_without_room(client: &Client, namespace: &str) {
    create(client, quota(namespace, json!({"pods": "0"}))).await.unwrap();
    // The plugin hears of a quota a moment after it was created.
    let pods = api_in(client, namespace, "v1", "Pod");
    let probe: DynamicObject = serde_json::from_value(pod(namespace, "probe", json!({}))).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    while !pods.create(&dry_run, &probe).await.is_err_and(|error| error.to_string().contains("exceeded quota")) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let web = deployment(namespace, 1, json!({}));
    let mut db = web.clone();
    db["kind"] = json!("StatefulSet");
    db["metadata"]["name"] = json!("db");
    db["spec"]["serviceName"] = json!("db");
    for workload in [web, db] {
        create(client, workload).await.unwrap();
    }
}

/// Takes snapshots as a user until the rejections are complete.
async fn rejections(cluster: &Cluster, namespace: &str, user: &str, is_complete: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom-under-test"))
            .args(["snapshot", "-n", namespace, "--as", user])
            .env("KUBECONFIG", cluster.kubeconfig_file().unwrap())
            .output()
            .unwrap();
        let snapshot: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let about = snapshot["items"].as_array().and_then(|items| items.last());
        let found = about.map_or(Value::Null, |about| about["spec"]["rejections"].clone());
        if is_complete(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{found} {}", String::from_utf8_lossy(&output.stderr));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn rejected_pods_are_listed_as_far_as_the_user_may_read_about_them() {
    crate::skip_without!("kube-controller-manager");
    let cluster = Cluster::of_environment(Controllers::On).await.unwrap();
    let client = cluster.client().await.unwrap();
    let shop = cluster.new_namespace("shop").await.unwrap();
    workloads_without_room(&client, &shop).await;
    let bind = |user: &str, role: &str| {
        let (of_role, of_user) = (format!("--clusterrole={role}"), format!("--user={user}"));
        cluster.run_kubectl(&["create", "rolebinding", user, "-n", &shop, &of_role, &of_user]).unwrap();
    };

    bind("viewer", "view");
    let found = rejections(&cluster, &shop, "viewer", |found| {
        found["groups"][0]["workloadCount"] == 2 && found["groups"][0]["blocked"] == 2
    });
    let found = found.await;
    let group = &found["groups"][0];
    assert_eq!(group["workloads"], json!(["deployment/web", "statefulset/db"]), "{found}");
    assert_eq!(group["message"], "exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0");
    assert!(group["count"].as_u64() >= Some(2) && found["problem"].is_null(), "{found}");

    // Without permission to read Events, the conditions of Deployments are used.
    let role = format!("{shop}-blind");
    let rules = json!([{"apiGroups": ["", "apps"], "resources": ["deployments", "limitranges"], "verbs": ["list"]}]);
    let metadata = json!({"name": role});
    create(&client, json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}))
        .await
        .unwrap();
    bind("blind", &role);
    let found = rejections(&cluster, &shop, "blind", |found| found["groups"][0]["blocked"] == 1).await;
    assert_eq!(found["groups"][0]["workloads"], json!(["deployment/web"]));
    let problem = found["problem"].as_str().unwrap();
    assert!(problem.starts_with(&format!("cannot read events in namespace {shop}: ")), "{problem}");
    assert!(problem.ends_with("; bind this account to the ClusterRole headroom-reader"), "{problem}");
}
