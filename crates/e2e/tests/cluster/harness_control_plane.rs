//! The control planes that the differential test compares differ in their plugins.

use headroom_e2e::cluster::{Cluster, api_in, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use serde_json::json;

use crate::guarded_namespace::{resources, wait_for};
use crate::objects::{limit_range, pod, quota};

#[tokio::test]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn two_control_planes_differ_only_in_their_plugins() {
    crate::skip_without!("kube-controller-manager");
    let (with, without) = tokio::join!(
        Cluster::start(InTreePlugins::On, Controllers::On),
        Cluster::start(InTreePlugins::Off, Controllers::On)
    );
    let (with, without) = (with.unwrap(), without.unwrap());

    for (cluster, plugins_are_on) in [(&with, true), (&without, false)] {
        let client = cluster.client().await.unwrap();
        let namespace = cluster.new_namespace("shop").await.unwrap();
        create(
            &client,
            limit_range(&namespace, json!({"default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}})),
        )
        .await
        .unwrap();
        create(&client, quota(&namespace, json!({"pods": "1"}))).await.unwrap();
        let quotas = api_in(&client, &namespace, "v1", "ResourceQuota");
        wait_for(&quotas, "team", "the quota is observed", |quota| quota["status"]["hard"]["pods"] == "1").await;

        let first = create(&client, pod(&namespace, "first", json!({}))).await.unwrap();
        let defaulted = json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}});
        assert_eq!(*resources(&first), if plugins_are_on { defaulted } else { json!({}) });

        wait_for(&quotas, "team", "the pod is counted", |quota| quota["status"]["used"]["pods"] == "1").await;
        let second = create(&client, pod(&namespace, "second", json!({}))).await;
        if plugins_are_on {
            let refusal = second.unwrap_err().to_string();
            let reason = "exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1";
            assert!(refusal.contains(reason), "{refusal}");
        } else {
            second.unwrap();
        }
    }
}
