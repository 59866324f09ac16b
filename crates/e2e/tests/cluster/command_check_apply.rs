//! `check` and the API server agree about the object that applying a manifest makes of an existing one.

use std::collections::BTreeMap;

use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Admission, Run};
use headroom_e2e::cluster::{Cluster, api_in};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_objects::cluster_reader::Folder;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// A Deployment is applied by Flux, changed by others, and applied again without some of its containers and limits.
#[tokio::test]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn server_side_apply_makes_of_an_object_what_check_says() {
    let cluster = Cluster::start(InTreePlugins::Off, Controllers::Off).await.unwrap();
    let namespace = cluster.new_namespace("shop").await.unwrap();
    let deployments = api_in(&cluster.client().await.unwrap(), &namespace, "apps/v1", "Deployment");
    let deployment = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace}, "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}}})
    };
    let flux = PatchParams::apply("kustomize-controller").force();
    let first = deployment(json!([
        {"name": "web", "image": "nginx", "ports": [{"containerPort": 80}],
            "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}}},
        {"name": "log", "image": "fluent-bit", "resources": {"limits": {"memory": "64Mi"}}},
    ]));
    deployments.patch("web", &flux, &Patch::Apply(&first)).await.unwrap();
    // Another operator sets a limit, and somebody adds a container and scales.
    let tuned = deployment(json!([{"name": "web", "resources": {"limits": {"cpu": "1"}}}]));
    deployments.patch("web", &PatchParams::apply("tuner").force(), &Patch::Apply(&tuned)).await.unwrap();
    let edit =
        json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "debug", "image": "busybox"}]}}}});
    let there = deployments.patch("web", &PatchParams::default(), &Patch::Strategic(&edit)).await.unwrap();
    let there = serde_json::to_value(there).unwrap();

    for containers in [
        json!([{"name": "web", "image": "nginx:2", "resources": {"requests": {"cpu": "0.1"}}}]),
        json!([{"name": "web", "image": "nginx"}, {"name": "log", "image": "fluent-bit"}]),
        json!([{"name": "new", "image": "nginx"}, {"name": "web", "image": "nginx", "resources": {"limits": {"memory": "2Gi"}}}]),
    ] {
        let manifest = deployment(containers);
        let applied = deployments.patch("web", &flux.clone().dry_run(), &Patch::Apply(&manifest)).await.unwrap();
        let applied = serde_json::to_value(applied).unwrap();
        let mut folder = Folder::default();
        folder.put(there.clone()).unwrap();
        let evaluation =
            Run::new(Overlay::new(folder, None), Admission::of_settings(&json!({})), &namespace).evaluate(&manifest);
        assert_eq!(decisive(&evaluation.request["object"]), decisive(&applied), "{manifest}");
    }
}

/// The fields that decide: replicas, and image and resources of each container.
fn decisive(deployment: &Value) -> (&Value, BTreeMap<String, (&Value, Value)>) {
    let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array).unwrap();
    let resources = |container: &Value| container.get("resources").cloned().unwrap_or_else(|| json!({}));
    let containers =
        containers.iter().map(|container| (container["name"].to_string(), (&container["image"], resources(container))));
    (&deployment["spec"]["replicas"], containers.collect())
}
