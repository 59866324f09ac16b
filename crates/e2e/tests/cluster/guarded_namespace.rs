//! A namespace of a real API server that our policy guards, and helpers for tests in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headroom_e2e::cluster::{Cluster, create, resource};
use headroom_e2e::policy_server::{Deployment, Policy, PolicyServer, USER, grant};
use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::Value;

/// The name of the deployed policy.
pub const ID: &str = "headroom";

pub struct Guarded {
    pub cluster: Cluster,
    /// Acts as the administrator.
    pub client: Client,
    pub server: PolicyServer,
    pub namespace: String,
}

/// A new namespace of `cluster`, guarded by the policy, which may read the kinds that it declares.
pub async fn guard(cluster: Cluster, deployment: Deployment) -> Guarded {
    guard_by(cluster, BTreeMap::from([(ID.to_owned(), deployment)])).await
}

/// Like [`guard`], with any number of deployments of the policy by name.
pub async fn guard_by(cluster: Cluster, deployments: BTreeMap<String, Deployment>) -> Guarded {
    let (server, namespace) = guard_in(&cluster, deployments).await;
    Guarded { client: cluster.client().await.unwrap(), cluster, server, namespace }
}

/// A new namespace of `cluster`, and the policy server that guards it.
pub async fn guard_in(cluster: &Cluster, deployments: BTreeMap<String, Deployment>) -> (PolicyServer, String) {
    let client = cluster.client().await.unwrap();
    let policy = Arc::new(Policy::built().unwrap());
    let reader = cluster.client_as(USER).await.unwrap();
    grant(&client, &policy, &reader).await.unwrap();
    let server = PolicyServer::start(policy, deployments, reader).await.unwrap();
    let namespace = cluster.new_namespace("shop").await.unwrap();
    server.guard(&client, &namespace).await.unwrap();
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

    /// The namespace's objects of a kind.
    pub fn all(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource(api_version, kind))
    }

    /// Runs `kubectl` in the namespace. Returns its standard error and output.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let mut command = self.cluster.kubectl().unwrap();
        let output = command.args(["-n", &self.namespace]).args(arguments).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout))
    }

    /// Runs `kubectl apply` for an object.
    pub fn apply(&self, object: &Value) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        serde_json::to_writer(&file, object).unwrap();
        self.kubectl(&["apply", "-f", file.path().to_str().unwrap()])
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
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let object = api.get_opt(name).await.unwrap();
        if let Some(object) = object.as_ref().filter(|object| answer(&object.data)) {
            return object.clone();
        }
        let found = object.map_or("nothing".to_owned(), |object| object.data.to_string());
        assert!(Instant::now() < deadline, "not within a minute: {claim}: {found}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
