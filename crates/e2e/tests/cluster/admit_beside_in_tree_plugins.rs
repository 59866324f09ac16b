//! Our policy together with the API server's own LimitRanger and ResourceQuota, as in most clusters.

use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::Controllers;
use serde_json::json;

use crate::chart_policies;
use crate::guarded_namespace::{eventually, guard_by, wait_for};
use crate::objects::{deployment, limit_range, quota};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn applying_a_controller_warns_about_pods_that_would_be_refused() {
    crate::skip_without!("kube-controller-manager");
    let shop = guard_by(Cluster::of_environment(Controllers::On).await.unwrap(), chart_policies::policies()).await;
    shop.create(limit_range(&shop.namespace, json!({"default": {"cpu": "500m"}}))).await.unwrap();
    shop.create(quota(&shop.namespace, json!({"limits.cpu": "1"}))).await.unwrap();
    let quotas = shop.all("v1", "ResourceQuota");
    wait_for(&quotas, "team", "the quota is observed", |quota| quota["status"]["used"]["limits.cpu"] == "0").await;

    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, &deployment(&shop.namespace, 3, json!({}))).unwrap();
    let said = shop.kubectl(&["apply", "-f", file.path().to_str().unwrap()]);
    let warning = "Warning: headroom: only 2 of 3 replicas fit quota \"team\": limits.cpu short by 500m (1 available)";
    assert!(said.contains(warning) && said.contains("deployment.apps/web created"), "{said}");
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
