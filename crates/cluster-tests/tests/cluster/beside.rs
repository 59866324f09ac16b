//! Our policy beside the API server's own LimitRanger and ResourceQuota, as most clusters have them.

use std::time::{Duration, Instant};

use headroom_cluster_tests::cluster::{Cluster, resource};
use headroom_cluster_tests::control_plane::Controllers;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::deployed;
use crate::guarded::{Guarded, guard_by, resources, wait_for};
use crate::objects::{deployment, limit_range, quota};

/// A namespace guarded as the documentation says, with the LimitRange that the requests of `test_data` were recorded with.
async fn shop() -> Guarded {
    let shop = guard_by(Cluster::of_environment(Controllers::On).await.unwrap(), deployed::policies()).await;
    let ranges: Value = serde_json::from_str(include_str!("../../../../test_data/context/LimitRange.json")).unwrap();
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": shop.namespace},
        "spec": ranges["items"][0]["spec"],
    });
    shop.create(range).await.unwrap();
    shop
}

/// The StatefulSet of `test_data`, with a memory limit of its author's.
fn stateful_set(namespace: &str, memory_limit: &str) -> Value {
    let review = include_str!("../../../../test_data/requests/statefulset-create-request-above-default-limit.json");
    let review: Value = serde_json::from_str(review).unwrap();
    let mut spec = review["request"]["object"]["spec"].clone();
    spec["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!(memory_limit);
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": namespace},
        "spec": spec,
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn a_stateful_set_whose_pods_the_plugins_alone_refuse_gets_its_pods() {
    let shop = shop().await;
    // Where our policy does not look, the default limit of 500m stays below the author's request of 1, and no pod comes.
    let unguarded = shop.cluster.new_namespace("unguarded").await.unwrap();
    let item =
        json!({"default": {"cpu": "500m", "memory": "500Mi"}, "defaultRequest": {"cpu": "250m", "memory": "250Mi"}});
    shop.create(limit_range(&unguarded, item)).await.unwrap();
    shop.create(stateful_set(&unguarded, "1Gi")).await.unwrap();
    shop.create(stateful_set(&shop.namespace, "1Gi")).await.unwrap();

    let pods = shop.all("v1", "Pod");
    let pod = wait_for(&pods, "db-0", "the controller has made the first pod", |_| true).await;
    assert_eq!(
        *resources(&pod),
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}})
    );
    let told = &pod.metadata.annotations.unwrap_or_default()["headroom.dev/resources"];
    assert!(told.contains("limits.cpu") && told.contains("raised"), "{told}");

    let events: Api<DynamicObject> = Api::namespaced_with(shop.client.clone(), &unguarded, &resource("v1", "Event"));
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let told = events.list(&ListParams::default()).await.unwrap().items;
        let told: Vec<&str> = told.iter().filter_map(|event| event.data["message"].as_str()).collect();
        if told.iter().any(|message| message.contains("must be less than or equal to cpu limit")) {
            return;
        }
        assert!(Instant::now() < deadline, "nobody is told why no pod comes: {told:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn whoever_applies_a_controller_is_told_what_its_pods_would_meet() {
    let shop = shop().await;
    shop.create(quota(&shop.namespace, json!({"limits.cpu": "1"}))).await.unwrap();
    let quotas = shop.all("v1", "ResourceQuota");
    wait_for(&quotas, "team", "the quota is observed", |quota| quota["status"]["used"]["limits.cpu"] == "0").await;

    let said = shop.apply(&stateful_set(&shop.namespace, "2Gi"));
    assert!(
        said.contains(
            "Warning: its pods would be refused: maximum memory usage per Container is 1Gi, but limit is 2Gi; \
             container db: lower the memory limit from 2Gi to at most 1Gi (LimitRange limits)"
        ),
        "{said}"
    );
    let said = shop.apply(&deployment(&shop.namespace, 3, json!({})));
    assert!(
        said.contains(
            "Warning: its pods would be refused: quota team: 2 of 3 replicas fit: limits.cpu short by 500m (1 available)"
        ) && said.contains("deployment.apps/web created"),
        "{said}"
    );
    // They are told, and the object is as it was written: no defaults in a template that another tool keeps.
    let deployments = shop.all("apps/v1", "Deployment");
    let stored = deployments.get("web").await.unwrap();
    assert_eq!(stored.data["spec"]["template"]["spec"]["containers"][0]["resources"], json!({}));
    // The API server has heard of the second webhook, that for scaling, at the latest a moment later.
    wait_for(&deployments, "web", "two pods are there", |web| web["status"]["replicas"] == 2).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    for replicas in 4.. {
        let said = shop.kubectl(&["scale", "deployment/web", &format!("--replicas={replicas}")]);
        assert!(said.contains("deployment.apps/web scaled"), "{said}");
        let warning =
            format!("Warning: its pods would be refused: quota team: 2 of {replicas} replicas fit: limits.cpu");
        if said.contains(&warning) {
            return;
        }
        assert!(Instant::now() < deadline, "{said}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
