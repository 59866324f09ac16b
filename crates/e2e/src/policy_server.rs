//! Policies behind webhooks, as Kubewarden's policy server serves them.
//!
//! A review sent to `/validate/<id>` is evaluated by the policy of that name, whose host calls are answered from the
//! live API server with the permissions of the policy server's user. One module may be deployed several times, mutating
//! and validating: each deployment is its own webhook, and the API server calls the validating ones last. Evaluations
//! have no time limit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use headroom_wasm_host::access::Access;
use headroom_wasm_host::admission::{AdmissionRequest, AdmissionResponse};
use headroom_wasm_host::built::workspace_file;
use headroom_wasm_host::host::PolicyHost;
use headroom_wasm_host::metadata::{ContextAwareResource, Metadata};
use kube::Client;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, LABEL, api, create, resource, try_create};
use crate::kubewarden::Kubewarden;
use crate::live_host::LiveHost;
use crate::wait::within;
use crate::webhook::WebhookServer;

pub fn configuration_name(id: &str, namespace: &str) -> String {
    format!("{id}-{namespace}")
}

/// The API server sees new objects by its watches, a moment later.
const MOMENT: [Duration; 2] = [Duration::from_secs(30), Duration::from_millis(100)];

/// The policy server's user at the API server.
pub const USER: &str = "system:serviceaccount:kubewarden:policy-server";
/// A group that only Kubewarden's own requests have; our host reads as the user alone.
pub const GROUP: &str = "headroom-test-kubewarden";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    Ours,
    /// The program that `POLICY_SERVER` names, beside our host; without the variable our host alone.
    Kubewarden,
}

/// The annotated wasm of this workspace, compiled.
pub struct Policy {
    wasm: PathBuf,
    host: PolicyHost,
    metadata: Metadata,
}

/// The parts of a ClusterAdmissionPolicy that decide how to run a policy.
#[derive(Debug, Clone)]
pub struct Deployment {
    pub settings: Value,
    pub mutating: bool,
    /// Monitor mode: nothing is refused or changed.
    pub monitor: bool,
    /// Called again if a later webhook has changed the object.
    pub reinvoked: bool,
    /// The rules, if different from the policy's metadata.
    pub rules: Option<Value>,
    /// The kinds that the policy may read, if different from its metadata.
    pub context_aware_resources: Option<BTreeSet<ContextAwareResource>>,
}

impl Deployment {
    /// As in the documentation: the policy may change objects, and is called once.
    pub fn mutating(settings: Value) -> Self {
        let (rules, context_aware_resources) = (None, None);
        Self { settings, mutating: true, monitor: false, reinvoked: false, rules, context_aware_resources }
    }

    /// As in a ClusterAdmissionPolicy, except for the module.
    pub fn from_manifest(manifest: &Value) -> Result<Self> {
        let spec = manifest.get("spec").context("the policy has no spec")?;
        let field = |name: &str| spec.get(name).cloned().with_context(|| format!("the policy has no {name}"));
        Ok(Self {
            settings: field("settings")?,
            mutating: field("mutating")? == json!(true),
            monitor: spec.get("mode") == Some(&json!("monitor")),
            reinvoked: false,
            rules: Some(field("rules")?),
            context_aware_resources: Some(serde_json::from_value(field("contextAwareResources")?)?),
        })
    }

    fn access(&self, metadata: &Metadata) -> Access {
        let declared = Access::declared(metadata);
        Access { resources: self.context_aware_resources.clone().unwrap_or(declared.resources), ..declared }
    }

    /// The entry of the policy server's `policies.yml`.
    pub fn served(&self, policy: &Policy) -> Value {
        let Access { resources, capabilities } = self.access(&policy.metadata);
        json!({
            "module": format!("file://{}", policy.wasm.display()),
            "settings": self.settings,
            "allowedToMutate": self.mutating,
            "policyMode": if self.monitor { "monitor" } else { "protect" },
            "contextAwareResources": resources,
            "hostCapabilities": capabilities,
        })
    }

    /// True if its own rules match `resource`, such as `pods` or `pods/resize`.
    pub fn is_about(&self, resource: &str) -> bool {
        let names = |rule: &Value| {
            let resources = rule.get("resources").and_then(Value::as_array);
            resources.is_some_and(|resources| resources.iter().any(|name| name == resource))
        };
        self.rules.as_ref().and_then(Value::as_array).is_some_and(|rules| rules.iter().any(names))
    }
}

impl Policy {
    /// Loads the wasm built by `make annotated-policy.wasm`.
    pub fn built() -> Result<Self> {
        let wasm = workspace_file("annotated-policy.wasm");
        let bytes = std::fs::read(&wasm).context("run `make annotated-policy.wasm`")?;
        let metadata = Metadata::from_wasm(&bytes).map_err(anyhow::Error::msg)?;
        let metadata = metadata.with_context(|| format!("`{}` is not annotated", wasm.display()))?;
        let host = PolicyHost::from_bytes(&bytes).map_err(anyhow::Error::msg)?;
        Ok(Self { wasm, host, metadata })
    }
}

/// Evaluates reviews with the deployments of one policy.
struct Evaluations {
    policy: Policy,
    deployments: BTreeMap<String, Deployment>,
    host_calls: LiveHost,
    kubewarden: Option<Kubewarden>,
}

impl Evaluations {
    fn review(&self, path: &str, request: &Value) -> Value {
        let failure = |error: &str| AdmissionResponse::internal_server_error("", error);
        let ours = || json!(self.evaluate(path, request).unwrap_or_else(|error| failure(&error)));
        match &self.kubewarden {
            Some(kubewarden) => {
                kubewarden.review(path, request, ours).unwrap_or_else(|error| json!(failure(&format!("{error:#}"))))
            }
            None => ours(),
        }
    }

    fn evaluate(&self, path: &str, request: &Value) -> Result<AdmissionResponse, String> {
        let id = path.strip_prefix("/validate/").unwrap_or_default();
        let deployment = self.deployments.get(id).ok_or_else(|| format!("no policy is served at `{path}`"))?;
        let request = AdmissionRequest::from_value(request.clone())?;
        let mut host_calls = self.host_calls.clone();
        let access = deployment.access(&self.policy.metadata);
        let response = self.policy.host.validate(&request, &deployment.settings, &access, &mut host_calls);
        Ok(match deployment {
            Deployment { monitor: true, .. } => response.monitored(),
            Deployment { mutating: false, .. } => response.without_mutation(id),
            _ => response,
        })
    }
}

/// A running policy server. It stops when it is dropped; the API server then refuses the requests that it would review.
pub struct PolicyServer {
    webhook: WebhookServer,
    evaluations: Arc<Evaluations>,
}

impl PolicyServer {
    /// Serves the policy with each of `deployments`, reading `cluster` as [`USER`], which may read the kinds that the policy
    /// declares.
    ///
    /// Like Kubewarden, validates settings before it serves a policy.
    pub async fn start(deployments: BTreeMap<String, Deployment>, cluster: &Cluster, host: Host) -> Result<Self> {
        let policy = Policy::built()?;
        grant(cluster, &policy).await?;
        for (id, deployment) in &deployments {
            let validation = policy.host.validate_settings(&deployment.settings);
            if !validation.valid {
                bail!("the settings of `{id}` are not valid: {}", validation.message.unwrap_or_default());
            }
        }
        let program = std::env::var("POLICY_SERVER").ok().filter(|_| host == Host::Kubewarden);
        let kubewarden = match program {
            Some(program) => {
                let served: BTreeMap<_, _> = deployments.iter().map(|(id, one)| (id, one.served(&policy))).collect();
                Some(Kubewarden::start(&program, &json!(served), &cluster.kubeconfig_file_as(USER, GROUP)?).await?)
            }
            None => None,
        };
        let host_calls = LiveHost::new(cluster.client_as(USER).await?);
        let evaluations = Arc::new(Evaluations { policy, deployments, host_calls, kubewarden });
        let reviewing = Arc::clone(&evaluations);
        let webhook = WebhookServer::start(move |path, request| reviewing.review(path, request)).await?;
        Ok(Self { webhook, evaluations })
    }

    /// Makes the API server call this server for `namespace`, and returns once it does.
    ///
    /// A mutating policy becomes a mutating webhook, any other a validating one, each with Kubewarden's defaults.
    pub async fn guard(&self, administrator: &Client, namespace: &str) -> Result<()> {
        let label = json!({"metadata": {"labels": {LABEL: namespace}}});
        let namespaces = api(administrator, "v1", "Namespace");
        namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(label)).await?;
        for (id, deployment) in &self.evaluations.deployments {
            let kind =
                if deployment.mutating { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
            create(administrator, self.configuration(kind, id, deployment, namespace)).await?;
        }
        self.wait_until_called(administrator, namespace).await
    }

    pub fn calls(&self, id: &str, namespace: &str) -> usize {
        self.webhook.calls(&format!("/validate/{id}"), namespace)
    }

    fn configuration(&self, kind: &str, id: &str, deployment: &Deployment, namespace: &str) -> Value {
        let mut webhook = json!({
            "name": format!("{id}.kubewarden.admission"),
            "clientConfig": self.webhook.client_config(&format!("/validate/{id}")),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            // Kubewarden's own 10 s would end a review before a hung server is replaced.
            "timeoutSeconds": if self.evaluations.kubewarden.is_some() { 30 } else { 10 },
            "namespaceSelector": {"matchLabels": {LABEL: namespace}},
            "rules": deployment.rules.clone().unwrap_or_else(|| json!(self.evaluations.policy.metadata.rules)),
        });
        if let (true, Value::Object(webhook)) = (deployment.reinvoked, &mut webhook) {
            webhook.insert("reinvocationPolicy".to_owned(), json!("IfNeeded"));
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": configuration_name(id, namespace), "labels": {LABEL: namespace}},
            "webhooks": [webhook],
        })
    }

    /// Creates pods by dry run until each deployment that reviews pods was called.
    async fn wait_until_called(&self, administrator: &Client, namespace: &str) -> Result<()> {
        let probe = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": namespace},
            "spec": {"containers": [{"name": "probe", "image": "probe"}]},
        });
        within(MOMENT, "the API server calls the policy server", async || {
            // The policy's verdict on the probe does not matter.
            drop(try_create(administrator, probe.clone()).await);
            // The rules of the policy's metadata match pods.
            let is_about_pods = |of: &Deployment| of.rules.is_none() || of.is_about("pods");
            let mut deployments = self.evaluations.deployments.iter();
            let is_called = deployments.all(|(id, of)| !is_about_pods(of) || self.calls(id, namespace) > 0);
            is_called.then_some(()).ok_or_else(|| format!("not for `{namespace}`"))
        })
        .await
    }
}

impl Drop for PolicyServer {
    fn drop(&mut self) {
        let differences = self.evaluations.kubewarden.as_ref().map(Kubewarden::differences).unwrap_or_default();
        assert!(std::thread::panicking() || differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// Grants [`USER`] the kinds that the policy declares. Returns once the grant is effective.
pub async fn grant(cluster: &Cluster, policy: &Policy) -> Result<()> {
    let administrator = cluster.client().await?;
    let group = "rbac.authorization.k8s.io";
    let rules: Vec<Value> = policy
        .metadata
        .context_aware_resources
        .iter()
        .map(|readable| {
            let readable = resource(&readable.api_version, &readable.kind);
            json!({"apiGroups": [readable.group], "resources": [readable.plural], "verbs": ["get", "list", "watch"]})
        })
        .collect();
    let name = "headroom-test-policy-server";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    });
    for object in [role, binding] {
        match create(&administrator, object).await {
            // The cluster of `KUBECONFIG` still has the roles of earlier tests.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            other => drop(other?),
        }
    }
    let ranges = api(&cluster.client_as(USER).await?, "v1", "LimitRange");
    let first = ListParams::default().limit(1);
    let listed = async || ranges.list(&first).await.map(drop).map_err(|denied| denied.to_string());
    within(MOMENT, "the policy server can read, because it has the role", listed).await
}
