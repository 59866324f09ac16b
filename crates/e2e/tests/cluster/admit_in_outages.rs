//! Outages of the API server and of the policy server.

use headroom_e2e::cluster::{Cluster, api, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::policy_server::{Deployment, configuration_name};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::guarded_namespace::{ID, eventually, guard, resources};
use crate::objects::{limit_range, pod};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn the_policy_works_after_an_outage_of_the_api_server_and_requests_are_refused_during_its_own() {
    let cluster = Cluster::start(InTreePlugins::Off, Controllers::Off).await.unwrap();
    let mut shop = guard(cluster, Deployment::mutating(json!({}))).await;
    let namespace = shop.namespace.clone();
    let item = json!({"default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}});
    shop.create(limit_range(&namespace, item)).await.unwrap();
    let defaulted = json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}});
    let greedy = || pod(&namespace, "greedy", json!({"limits": {"cpu": "2"}}));
    let before = shop.create(pod(&namespace, "before", json!({}))).await.unwrap();
    assert_eq!(*resources(&before), defaulted);

    // Requests in progress when the API server dies fail; none of them bypasses the policy.
    let control_plane = shop.cluster.control_plane.as_mut().unwrap();
    control_plane.stop_api_server();
    assert!(create(&shop.client, greedy()).await.is_err());
    control_plane.start_api_server().await.unwrap();

    let refusal = shop.refusal(greedy()).await;
    assert!(refusal.contains("maximum cpu usage per Container is 1, but limit is 2"), "{refusal}");
    let after = shop.create(pod(&namespace, "after", json!({}))).await.unwrap();
    assert_eq!(*resources(&after), defaulted);

    // Without a policy server nothing is created, unless the operator has set failurePolicy Ignore.
    drop(shop.server);
    let refusal = create(&shop.client, greedy()).await.unwrap_err().to_string();
    assert!(refusal.contains(r#"failed calling webhook "headroom.kubewarden.admission""#), "{refusal}");
    let configurations = api(&shop.client, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration");
    let ignore = json!({"webhooks": [{"name": "headroom.kubewarden.admission", "failurePolicy": "Ignore"}]});
    let ignore = Patch::Strategic(ignore);
    configurations.patch(&configuration_name(ID, &namespace), &PatchParams::default(), &ignore).await.unwrap();
    eventually("failurePolicy Ignore is followed", async || {
        create(&shop.client, greedy()).await.map(drop).map_err(|refused| refused.to_string())
    })
    .await;
}
