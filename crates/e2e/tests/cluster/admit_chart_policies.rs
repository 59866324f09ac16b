//! The policies of the Helm chart: a mutating policy that fills in and warns, and a validating one of the same
//! module that evaluates objects before they are stored. The plugins are off, so that every refusal is ours.

use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::webhook::WebhookServer;
use serde_json::{Value, json};

use crate::chart_policies;
use crate::guarded_namespace::{Guarded, guard_by, inject_sidecars, wait_for};
use crate::objects::{limit_range, pod, quota};

/// The annotation that asks [`inject_behind`] for a sidecar; its value is the sidecar's resources as JSON.
const SIDECAR: &str = "test.headroom.dev/sidecar";

/// Another team's webhook: it injects a sidecar into every pod that requests one.
async fn inject_behind(shop: &Guarded) -> WebhookServer {
    let smallest = json!({"requests": {"cpu": "1m"}, "limits": {"cpu": "1m"}});
    inject_sidecars(shop, with_sidecar(&shop.namespace, "probe", smallest), |pod| {
        let resources: Value = serde_json::from_str(pod["metadata"]["annotations"][SIDECAR].as_str()?).ok()?;
        Some(json!({"name": "sidecar", "image": "registry.example.com/mesh/proxy:1", "resources": resources}))
    })
    .await
}

/// A pod whose own container requests a tenth of a core, and that gets a sidecar with these resources.
fn with_sidecar(namespace: &str, name: &str, resources: Value) -> Value {
    let mut pod = pod(namespace, name, json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}));
    pod["metadata"]["annotations"] = json!({SIDECAR: resources.to_string()});
    pod
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn injected_containers_are_evaluated_too() {
    crate::skip_without!("kube-controller-manager");
    let policies = chart_policies::policies();
    let evaluate = chart_policies::evaluate(&policies);
    let shop = guard_by(Cluster::start(InTreePlugins::Off, Controllers::On).await.unwrap(), policies).await;
    let namespace = &shop.namespace;
    shop.create(quota(namespace, json!({"requests.cpu": "500m"}))).await.unwrap();
    let is_observed = |quota: &Value| quota["status"]["hard"]["requests.cpu"] == "500m";
    wait_for(&shop.all("v1", "ResourceQuota"), "team", "the quota is observed", is_observed).await;
    let item = json!({"max": {"cpu": "1"}, "default": {"cpu": "300m", "memory": "64Mi"}});
    shop.create(limit_range(namespace, item)).await.unwrap();
    let _webhook = inject_behind(&shop).await;

    // The mutating policy has accepted the pod: the sidecar was injected later.
    let check = async |resources: Value, reason: &str| {
        let refusal = shop.refusal(with_sidecar(namespace, "greedy", resources)).await;
        let refused = format!(r#"admission webhook "{evaluate}.kubewarden.admission" denied the request: "#);
        assert!(refusal.contains(&refused), "{refusal}");
        assert!(refusal.contains(reason), "without {reason}: {refusal}");
    };
    check(
        json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}),
        "maximum cpu usage per Container is 1, but limit is 2",
    )
    .await;
    check(
        json!({"requests": {"cpu": "450m"}, "limits": {"cpu": "450m"}}),
        "exceeded quota: team, requested: requests.cpu=550m, used: requests.cpu=0, limited: requests.cpu=500m",
    )
    .await;
    check(json!({}), "failed quota: team: must specify requests.cpu for: sidecar").await;

    // Only the mutating policy fills in defaults.
    let small = json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "50m"}});
    let admitted = shop.create(with_sidecar(namespace, "small", small.clone())).await.unwrap();
    let containers = &admitted.data["spec"]["containers"];
    assert_eq!(containers[0]["resources"]["limits"], json!({"cpu": "200m", "memory": "64Mi"}));
    assert_eq!(containers[1]["resources"], small);
}
