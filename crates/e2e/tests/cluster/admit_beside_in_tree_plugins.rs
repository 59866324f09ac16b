//! Our policy together with the API server's own LimitRanger and ResourceQuota, as in most clusters.

use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::Controllers;
use serde_json::{Value, json};

use crate::chart_policies;
use crate::guarded_namespace::{Guarded, eventually, guard_by, wait_for};
use crate::objects::{deployment, quota};

/// A namespace guarded as documented, with the LimitRange that was there when the requests of `tests/data` were
/// recorded.
async fn shop() -> Guarded {
    let shop = guard_by(Cluster::of_environment(Controllers::On).await.unwrap(), chart_policies::policies()).await;
    let ranges: Value = serde_json::from_str(include_str!("../../../../tests/data/context/LimitRange.json")).unwrap();
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": shop.namespace},
        "spec": ranges["items"][0]["spec"],
    });
    shop.create(range).await.unwrap();
    shop
}

/// The StatefulSet of `tests/data`, with a memory limit set by its author.
fn stateful_set(namespace: &str, memory_limit: &str) -> Value {
    let review = include_str!("../../../../tests/data/requests/statefulset-create-request-above-default-limit.json");
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
async fn applying_a_controller_warns_about_pods_that_would_be_refused() {
    crate::skip_without!("kube-controller-manager");
    let shop = shop().await;
    shop.create(quota(&shop.namespace, json!({"limits.cpu": "1"}))).await.unwrap();
    let quotas = shop.all("v1", "ResourceQuota");
    wait_for(&quotas, "team", "the quota is observed", |quota| quota["status"]["used"]["limits.cpu"] == "0").await;

    let said = shop.apply(&stateful_set(&shop.namespace, "2Gi"));
    assert!(
        said.contains(
            "Warning: headroom: its pods would be rejected: maximum memory usage per Container is 1Gi, but limit is 2Gi; \
             container db: lower the memory limit from 2Gi to at most 1Gi (LimitRange limits)"
        ),
        "{said}"
    );
    let said = shop.apply(&deployment(&shop.namespace, 3, json!({})));
    assert!(
        said.contains(
            "Warning: headroom: only 2 of 3 replicas fit quota \"team\": limits.cpu short by 500m (1 available)"
        ) && said.contains("deployment.apps/web created"),
        "{said}"
    );
    // The user is warned, and the object is stored unchanged: no defaults in a template that another tool manages.
    let deployments = shop.all("apps/v1", "Deployment");
    let stored = deployments.get("web").await.unwrap();
    assert_eq!(stored.data["spec"]["template"]["spec"]["containers"][0]["resources"], json!({}));
    // The API server may need a moment to see the second webhook, which is for scaling.
    wait_for(&deployments, "web", "two pods are there", |web| web["status"]["replicas"] == 2).await;
    let mut replicas = 3;
    eventually("scaling warns", async || {
        replicas += 1;
        let said = shop.kubectl(&["scale", "deployment/web", &format!("--replicas={replicas}")]);
        assert!(said.contains("deployment.apps/web scaled"), "{said}");
        let warning =
            format!("Warning: headroom: only 2 of {replicas} replicas fit quota \"team\": limits.cpu short by");
        said.contains(&warning).then_some(()).ok_or(said)
    })
    .await;
}
