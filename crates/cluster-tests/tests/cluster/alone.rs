//! Our policy, alone at the door of a real API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headroom_cluster_tests::cluster::{Cluster, create};
use headroom_cluster_tests::control_plane::{Controllers, InTreePlugins};
use headroom_cluster_tests::policy_server::{Deployment, Policy, PolicyServer, USER, grant};
use serde_json::{Value, json};

fn pod(namespace: &str, name: &str, resources: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "web", "image": "registry.example.com/unheard-of:1", "resources": resources}]},
    })
}

fn limit_range(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": namespace},
        "spec": {"limits": [{
            "type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}
        }]},
    })
}

fn deployed() -> BTreeMap<String, Deployment> {
    let headroom = Deployment { settings: json!({}), mutating: true, monitor: false };
    BTreeMap::from([("headroom".to_owned(), headroom)])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn limits_hold_without_the_plugins_and_not_without_the_right_to_read_them() {
    let cluster = Cluster::start(InTreePlugins::Off, Controllers::Off).await.unwrap();
    let client = cluster.client().await.unwrap();
    let policy = Arc::new(Policy::built().unwrap());
    let namespace = cluster.new_namespace("shop").await.unwrap();
    create(&client, limit_range(&namespace)).await.unwrap();

    let reader = cluster.client_as(USER).await.unwrap();
    let server = PolicyServer::start(Arc::clone(&policy), deployed(), reader).await.unwrap();
    server.guard(&client, &namespace).await.unwrap();

    let denied = create(&client, pod(&namespace, "too-early", json!({}))).await.unwrap_err().to_string();
    assert!(denied.contains("headroom.kubewarden.admission"), "{denied}");
    assert!(denied.contains("cannot list resource"), "{denied}");

    grant(&client, &policy).await.unwrap();
    // The authorizer hears of new roles by a watch.
    let deadline = Instant::now() + Duration::from_secs(10);
    let plain = loop {
        match create(&client, pod(&namespace, "plain", json!({}))).await {
            Ok(plain) => break plain,
            Err(refused) => assert!(Instant::now() < deadline, "{refused}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let defaulted = json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}});
    assert_eq!(plain.data["spec"]["containers"][0]["resources"], defaulted);

    let refused = create(&client, pod(&namespace, "greedy", json!({"limits": {"cpu": "2"}}))).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("maximum cpu usage per Container is 1, but limit is 2"), "{refused}");
}
