//! Our policy alone: the API server's own LimitRanger and ResourceQuota are off.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_e2e::cluster::{Cluster, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::policy_server::{Deployment, Host, Policy, PolicyServer, USER, grant};
use serde_json::json;

use crate::guarded_namespace::{ID, guard, resources, wait_for};
use crate::objects::{deployment, limit_range, pod, quota};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn limits_are_enforced_and_requests_refused_without_permission_to_read_limits() {
    let cluster = Cluster::start(InTreePlugins::Off, Controllers::Off).await.unwrap();
    let client = cluster.client().await.unwrap();
    let policy = Arc::new(Policy::built().unwrap());
    let namespace = cluster.new_namespace("shop").await.unwrap();
    let item = json!({"default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}});
    create(&client, limit_range(&namespace, item)).await.unwrap();

    let reader = cluster.client_as(USER).await.unwrap();
    let deployments = BTreeMap::from([(ID.to_owned(), Deployment::mutating(json!({})))]);
    // Kubewarden waits for a watch that it may not open.
    let server = PolicyServer::start(Arc::clone(&policy), deployments, &cluster, Host::Ours).await.unwrap();
    server.guard(&client, &namespace).await.unwrap();

    let denied = create(&client, pod(&namespace, "too-early", json!({}))).await.unwrap_err().to_string();
    for words in [
        r#"admission webhook "headroom.kubewarden.admission" denied the request: "#,
        &format!("cannot list LimitRange in namespace `{namespace}`, so LimitRanges are not applied: "),
        r#"User "system:serviceaccount:kubewarden:policy-server" cannot list resource "limitranges""#,
        "the policy server's service account may not list it",
        &format!("cannot list ResourceQuota in namespace `{namespace}`"),
    ] {
        assert!(denied.contains(words), "without {words}: {denied}");
    }

    grant(&client, &policy, &reader).await.unwrap();
    let plain = create(&client, pod(&namespace, "plain", json!({}))).await.unwrap();
    assert_eq!(*resources(&plain), json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}}));
    let refused = create(&client, pod(&namespace, "greedy", json!({"limits": {"cpu": "2"}}))).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("maximum cpu usage per Container is 1, but limit is 2"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn quotas_are_enforced_for_pods_claims_and_services() {
    crate::skip_without!("kube-controller-manager");
    let cluster = Cluster::start(InTreePlugins::Off, Controllers::On).await.unwrap();
    let shop = guard(cluster, Deployment::mutating(json!({}))).await;
    let namespace = &shop.namespace;
    let hard = json!({
        "requests.cpu": "1", "requests.storage": "10Gi", "services.loadbalancers": "0", "persistentvolumeclaims": "5",
    });
    shop.create(quota(namespace, hard)).await.unwrap();
    let quotas = shop.all("v1", "ResourceQuota");
    wait_for(&quotas, "team", "the quota is observed", |quota| quota["status"]["hard"]["requests.cpu"] == "1").await;

    shop.create(pod(namespace, "first", json!({"requests": {"cpu": "700m"}}))).await.unwrap();
    wait_for(&quotas, "team", "the pod is counted", |quota| quota["status"]["used"]["requests.cpu"] == "700m").await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "11Gi"}}},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    for (object, reason) in [
        (
            pod(namespace, "second", json!({"requests": {"cpu": "400m"}})),
            "exceeded quota: team, requested: requests.cpu=400m, used: requests.cpu=700m, limited: requests.cpu=1",
        ),
        (pod(namespace, "third", json!({})), "failed quota: team: must specify requests.cpu for: web"),
        (
            claim,
            "exceeded quota: team, requested: requests.storage=11Gi, used: requests.storage=0, limited: requests.storage=10Gi",
        ),
        (
            service,
            "exceeded quota: team, requested: services.loadbalancers=1, used: services.loadbalancers=0, limited: services.loadbalancers=0",
        ),
    ] {
        let refusal = shop.refusal(object).await;
        assert!(refusal.contains(reason), "without {reason}: {refusal}");
    }
}

/// docs/src/tasks/gitops.md says of Argo CD (client-side apply, or server-side) and Flux (server-side, a dry run
/// first): an object whose missing values were set at admission is the same after it is applied again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn applying_a_manifest_again_changes_nothing() {
    for settings in [json!({}), json!({"mutateTemplates": true})] {
        let cluster = Cluster::start(InTreePlugins::Off, Controllers::Off).await.unwrap();
        let shop = guard(cluster, Deployment::mutating(settings.clone())).await;
        let item = json!({"default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}});
        shop.create(limit_range(&shop.namespace, item)).await.unwrap();
        let is_filled = json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}});
        let file = tempfile::NamedTempFile::new().unwrap();
        for (way, arguments) in [
            ("client-side", &["--field-manager=argocd-controller"][..]),
            ("server-side", &["--server-side", "--field-manager=kustomize-controller"]),
        ] {
            for mut object in [pod(&shop.namespace, way, json!({})), deployment(&shop.namespace, 0, json!({}))] {
                object["metadata"]["name"] = json!(way);
                serde_json::to_writer(file.reopen().unwrap(), &object).unwrap();
                let path = file.path().to_str().unwrap();
                let apply = |more: &[&str]| shop.kubectl(&[&["apply", "-f", path], arguments, more].concat());
                let api = shop.all(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
                let first = apply(&[]);
                let stored = api.get(way).await.unwrap_or_else(|error| panic!("{first}: {error}"));
                let pod_spec = stored.data["spec"].pointer("/template/spec").unwrap_or(&stored.data["spec"]);
                let found = &pod_spec["containers"][0]["resources"];
                // A template is filled in only where the settings ask for it.
                let is_expected = object["kind"] == "Pod" || settings["mutateTemplates"] == true;
                assert_eq!(*found, if is_expected { is_filled.clone() } else { json!({}) }, "{way}: {first}");
                let again = [apply(&["--dry-run=server"]), apply(&[])].concat();
                let after = api.get(way).await.unwrap();
                assert_eq!(after.metadata.resource_version, stored.metadata.resource_version, "{way}: {again}");
                assert!(way == "server-side" || again.contains("unchanged"), "{again}");
                std::fs::write(file.path(), "").unwrap();
            }
        }
    }
}
