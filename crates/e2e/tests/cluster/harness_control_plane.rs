//! The control plane behaves like a real cluster: plugins, controllers, roles, custom kinds and outages.

use std::time::{Duration, Instant};

use headroom_e2e::cluster::{Cluster, LABEL, create, resource};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::json;

use crate::guarded_namespace::{resources, wait_for};
use crate::objects::{limit_range, pod, quota};

#[tokio::test]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn two_control_planes_differ_only_in_their_plugins() {
    let began = Instant::now();
    let (with, without) = tokio::join!(
        Cluster::start(InTreePlugins::On, Controllers::On),
        Cluster::start(InTreePlugins::Off, Controllers::On)
    );
    let (with, without) = (with.unwrap(), without.unwrap());
    println!("two control planes are ready after {:?}", began.elapsed());

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
        let quotas = Api::namespaced_with(client.clone(), &namespace, &resource("v1", "ResourceQuota"));
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

#[tokio::test]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn stored_objects_survive_a_crash_of_the_api_server() {
    let mut cluster = Cluster::start(InTreePlugins::On, Controllers::Off).await.unwrap();
    let client = cluster.client().await.unwrap();
    let namespace = cluster.new_namespace("shop").await.unwrap();
    create(&client, pod(&namespace, "web", json!({}))).await.unwrap();
    let pods: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource("v1", "Pod"));

    let control_plane = cluster.control_plane.as_mut().unwrap();
    control_plane.stop_api_server();
    assert!(pods.get("web").await.is_err());
    let began = Instant::now();
    control_plane.start_api_server().await.unwrap();
    println!("the API server is ready again after {:?}", began.elapsed());
    assert_eq!(pods.get("web").await.unwrap().metadata.name.as_deref(), Some("web"));
}

#[tokio::test]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn roles_custom_kinds_and_kubectl_work() {
    let cluster = Cluster::of_environment(Controllers::Off).await.unwrap();
    let client = cluster.client().await.unwrap();
    let namespace = cluster.new_namespace("shop").await.unwrap();

    let pods: Api<DynamicObject> =
        Api::namespaced_with(cluster.client_as("stranger").await.unwrap(), &namespace, &resource("v1", "Pod"));
    let denied = pods.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(denied.contains(r#"User "stranger" cannot list resource "pods""#), "{denied}");
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role",
        "metadata": {"name": "views", "namespace": namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": {"name": "stranger-views", "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "views"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "stranger"}],
    });
    for object in [role, binding] {
        create(&client, object).await.unwrap();
    }
    // The authorizer sees a new binding by a watch.
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(denied) = pods.list(&ListParams::default()).await {
        assert!(Instant::now() < deadline, "{denied}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let group = format!("{namespace}.example.com");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}"), "labels": {LABEL: namespace}},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
            }}}],
        },
    });
    create(&client, definition).await.unwrap();
    let definitions: Api<DynamicObject> =
        Api::all_with(client.clone(), &resource("apiextensions.k8s.io/v1", "CustomResourceDefinition"));
    wait_for(&definitions, &format!("widgets.{group}"), "the kind is served", |definition| {
        let conditions = definition["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
    })
    .await;
    let widget = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "small", "namespace": namespace}, "spec": {"size": 1},
    });
    assert_eq!(create(&client, widget).await.unwrap().data["spec"]["size"], 1);

    let output =
        cluster.kubectl().unwrap().args(["get", &format!("widgets.{group}"), "-n", &namespace]).output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("small"), "{table}{}", String::from_utf8_lossy(&output.stderr));
}
