//! The policies of the Helm chart: a mutating policy that fills in and warns, and a validating one of the same
//! module that evaluates objects before they are stored. The plugins are off, so that every refusal is ours.

use std::collections::BTreeMap;

use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::policy_server::Deployment;
use headroom_e2e::webhook::WebhookServer;
use serde_json::{Value, json};

use crate::chart_policies;
use crate::guarded_namespace::{Guarded, guard_by, inject_sidecars, wait_for};
use crate::objects::{limit_range, pod, quota};

/// The annotation that asks [`inject_behind`] for a sidecar; its value is the sidecar's resources as JSON.
const SIDECAR: &str = "test.headroom.dev/sidecar";

/// A namespace guarded by these policies, whose quota `team` has a status.
async fn shop(policies: BTreeMap<String, Deployment>, hard: Value) -> Guarded {
    let shop = guard_by(Cluster::start(InTreePlugins::Off, Controllers::On).await.unwrap(), policies).await;
    shop.create(quota(&shop.namespace, hard.clone())).await.unwrap();
    let quotas = shop.all("v1", "ResourceQuota");
    wait_for(&quotas, "team", "the quota is observed", |quota| quota["status"]["hard"] == hard).await;
    shop
}

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

fn refused_by(id: &str) -> String {
    format!(r#"admission webhook "{id}.kubewarden.admission" denied the request: "#)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn injected_containers_are_evaluated_too() {
    crate::skip_without!("kube-controller-manager");
    let policies = chart_policies::policies();
    let evaluate = chart_policies::evaluate(&policies);
    let shop = shop(policies, json!({"requests.cpu": "500m"})).await;
    let namespace = &shop.namespace;
    let item = json!({"max": {"cpu": "1"}, "default": {"cpu": "300m", "memory": "64Mi"}});
    shop.create(limit_range(namespace, item)).await.unwrap();
    let _webhook = inject_behind(&shop).await;

    // The mutating policy has accepted the pod: the sidecar was injected later.
    let check = async |resources: Value, reason: &str| {
        let refusal = shop.refusal(with_sidecar(namespace, "greedy", resources)).await;
        assert!(refusal.contains(&refused_by(&evaluate)), "{refusal}");
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

/// Fields that a client may forge to make a pod look smaller.
fn forgeries() -> [Value; 4] {
    [
        json!({"status": {"phase": "Succeeded"}}),
        json!({"status": {"qosClass": "BestEffort"}}),
        json!({"status": {
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            "containerStatuses": [
                {"name": "web", "image": "web", "imageID": "", "ready": true, "restartCount": 0},
            ],
        }}),
        json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}}),
    ]
}

/// A pod that requests nine cores and has these fields.
fn forged(namespace: &str, fields: &Value) -> Value {
    let mut pod = pod(namespace, "forged", json!({"requests": {"cpu": "9"}}));
    for part in ["metadata", "status"] {
        for (field, value) in fields[part].as_object().into_iter().flatten() {
            pod[part][field] = value.clone();
        }
    }
    pod
}

async fn check_forgeries(policies: BTreeMap<String, Deployment>, refused_by: &str) {
    let shop = shop(policies, json!({"requests.cpu": "1"})).await;
    let mut busy = quota(&shop.namespace, json!({"requests.cpu": "1"}));
    busy["metadata"]["name"] = json!("busy");
    busy["spec"]["scopes"] = json!(["NotBestEffort"]);
    shop.create(busy).await.unwrap();
    let quotas = shop.all("v1", "ResourceQuota");
    wait_for(&quotas, "busy", "the quota is observed", |quota| quota["status"]["hard"]["requests.cpu"] == "1").await;
    for fields in forgeries() {
        let refusal = shop.refusal(forged(&shop.namespace, &fields)).await;
        assert!(refusal.contains(refused_by), "{fields}: {refusal}");
        for words in ["exceeded quota: busy, requested: requests.cpu=9", "team"] {
            assert!(refusal.contains(words), "{fields}: without {words}: {refusal}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn forged_fields_do_not_help_against_the_pair() {
    crate::skip_without!("kube-controller-manager");
    check_forgeries(chart_policies::policies(), ".kubewarden.admission").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn forged_fields_do_not_help_against_a_validating_policy_alone() {
    crate::skip_without!("kube-controller-manager");
    let policies: BTreeMap<_, _> =
        chart_policies::policies().into_iter().filter(|(_, policy)| !policy.mutating).collect();
    let evaluate = chart_policies::evaluate(&policies);
    check_forgeries(policies, &refused_by(&evaluate)).await;
}

/// A request to resize a pod's only container. This API server has no such subresource, so the pod is not in the
/// cluster.
fn resize(namespace: &str, before: &Value, after: &Value) -> Value {
    let stored = |resources: &Value| {
        let mut pod = pod(namespace, "web", resources.clone());
        pod["metadata"]["resourceVersion"] = json!("1");
        pod
    };
    json!({
        "uid": "73d8d216-a4aa-4547-a8ed-c135418fd2b7", "operation": "UPDATE", "subResource": "resize",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web", "namespace": namespace, "userInfo": {"username": "author"},
        "oldObject": stored(before), "object": stored(after),
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn a_resize_is_evaluated_and_never_changed() {
    crate::skip_without!("kube-controller-manager");
    let policies = chart_policies::policies();
    let id = policies.iter().find(|(_, policy)| policy.is_about("pods/resize")).unwrap().0.clone();
    let shop = shop(policies, json!({"requests.cpu": "500m"})).await;
    let namespace = &shop.namespace;
    let check = async |before: Value, after: Value, reason: Option<&str>| {
        let answer = shop.server.review(&id, resize(namespace, &before, &after)).await.unwrap();
        assert_eq!(answer["patch"], Value::Null, "{answer}");
        assert_eq!(answer["allowed"], reason.is_none(), "{answer}");
        let message = answer["status"]["message"].as_str().unwrap_or_default();
        assert!(reason.is_none_or(|reason| message.contains(reason)), "without {reason:?}: {message}");
    };

    // The pod is older than the LimitRange, so it gets no default limit.
    shop.create(limit_range(namespace, json!({"default": {"cpu": "100m"}}))).await.unwrap();
    check(json!({"requests": {"cpu": "50m"}}), json!({"requests": {"cpu": "200m"}}), None).await;

    let mut bounds = limit_range(namespace, json!({"max": {"cpu": "1"}}));
    bounds["metadata"]["name"] = json!("bounds");
    shop.create(bounds).await.unwrap();
    let stored = json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "300m"}});
    check(stored.clone(), json!({"requests": {"cpu": "200m"}, "limits": {"cpu": "300m"}}), None).await;
    let greedy = json!({"requests": {"cpu": "200m"}, "limits": {"cpu": "2"}});
    check(stored.clone(), greedy, Some("maximum cpu usage per Container is 1, but limit is 2")).await;
    let large = json!({"requests": {"cpu": "700m"}, "limits": {"cpu": "700m"}});
    check(stored, large, Some("exceeded quota: team, requested: requests.cpu=650m")).await;
}
