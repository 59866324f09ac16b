//! A namespace of a real API server that our policy guards, and helpers for tests in it.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use headroom_e2e::cluster::{Cluster, LABEL, api_in, create, try_create};
use headroom_e2e::policy_server::{Deployment, Host, PolicyServer};
use headroom_e2e::wait::within;
use headroom_e2e::webhook::WebhookServer;
use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};

/// The name of the deployed policy.
pub const ID: &str = "headroom";

pub struct Guarded {
    pub cluster: Cluster,
    /// Acts as the administrator.
    pub client: Client,
    pub server: PolicyServer,
    pub namespace: String,
}

/// A new namespace of `cluster`, guarded by the policy.
pub async fn guard(cluster: Cluster, deployment: Deployment) -> Guarded {
    guard_by(cluster, BTreeMap::from([(ID.to_owned(), deployment)])).await
}

/// Like [`guard`], with any number of deployments of the policy by name.
pub async fn guard_by(cluster: Cluster, deployments: BTreeMap<String, Deployment>) -> Guarded {
    let (server, namespace) = guard_in(&cluster, deployments, Host::Kubewarden).await;
    Guarded { client: cluster.client().await.unwrap(), cluster, server, namespace }
}

/// A new namespace of `cluster`, and the policy server that guards it.
pub async fn guard_in(
    cluster: &Cluster,
    deployments: BTreeMap<String, Deployment>,
    host: Host,
) -> (PolicyServer, String) {
    let server = PolicyServer::start(deployments, cluster, host).await.unwrap();
    let namespace = cluster.new_namespace("shop").await.unwrap();
    server.guard(&cluster.client().await.unwrap(), &namespace).await.unwrap();
    (server, namespace)
}

impl Guarded {
    pub async fn create(&self, object: Value) -> kube::Result<DynamicObject> {
        create(&self.client, object).await
    }

    /// The error of an attempt to create this object.
    pub async fn refusal(&self, object: Value) -> String {
        self.create(object).await.unwrap_err().to_string()
    }

    pub fn all(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api_in(&self.client, &self.namespace, api_version, kind)
    }

    /// Runs `kubectl` in the namespace. Returns its standard error and output.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let mut command = self.cluster.kubectl().unwrap();
        let output = command.args(["-n", &self.namespace]).args(arguments).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout))
    }
}

/// The resources of a pod's first container.
pub fn resources(pod: &DynamicObject) -> &Value {
    &pod.data["spec"]["containers"][0]["resources"]
}

/// Polls an object until `answer` is true, because controllers and caches need time.
pub async fn wait_for(
    api: &Api<DynamicObject>,
    name: &str,
    claim: &str,
    answer: impl Fn(&Value) -> bool,
) -> DynamicObject {
    eventually(claim, async || {
        let object = api.get_opt(name).await.unwrap();
        let found = object.as_ref().map_or("nothing".to_owned(), |object| object.data.to_string());
        object.filter(|object| answer(&object.data)).ok_or(found)
    })
    .await
}

/// Polls until an attempt succeeds; fails with the reason of the last one.
pub async fn eventually<T>(claim: &str, attempt: impl AsyncFnMut() -> Result<T, String>) -> T {
    within([Duration::from_secs(120), Duration::from_millis(200)], claim, attempt).await.unwrap()
}

/// Makes the API server call another team's webhook after our mutating policy, because it calls webhooks in the order of
/// their names. It adds the container that `sidecar` makes for a pod, if the pod has none of that name, and is called when
/// this returns: `probe` is a pod that gets a sidecar.
pub async fn inject_sidecars(
    shop: &Guarded,
    probe: Value,
    sidecar: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static,
) -> WebhookServer {
    let review = move |_: &str, request: &Value| {
        let pod = &request["object"];
        let has = |name: &Value| pod["spec"]["containers"].as_array().unwrap().iter().any(|one| one["name"] == *name);
        let Some(added) = sidecar(pod).filter(|added| !has(&added["name"])) else { return json!({"allowed": true}) };
        let patch = json!([{"op": "add", "path": "/spec/containers/-", "value": added}]);
        json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
    };
    let webhook = WebhookServer::start(review).await.unwrap();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": format!("sidecars-{}", shop.namespace), "labels": {LABEL: shop.namespace}},
        "webhooks": [{
            "name": "sidecars.test.headroom.dev",
            "clientConfig": webhook.client_config("/inject"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "namespaceSelector": {"matchLabels": {LABEL: shop.namespace}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }],
    });
    shop.create(configuration).await.unwrap();
    eventually("the API server calls the sidecar webhook", async || {
        let created = try_create(&shop.client, probe.clone()).await.unwrap();
        let count = created.data["spec"]["containers"].as_array().unwrap().len();
        (count == 2).then_some(()).ok_or(format!("{count} containers"))
    })
    .await;
    webhook
}
