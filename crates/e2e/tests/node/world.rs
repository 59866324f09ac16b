//! The cluster that all scenarios share, each in a namespace of its own with a Deployment `web` of one container, `app`.

use std::process::Command;
use std::sync::Arc;

use headroom_admission::amount::Quantity;
use headroom_e2e::cluster::{Cluster, api_in, create};
use headroom_e2e::control_plane::ControlPlane;
use headroom_e2e::policy_server::{Host, PolicyServer};
use headroom_fixtures::servers::Server;
use kube::Client;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::node::{self, Node, is_ready};
use crate::replica::{Gate, Replica};
use crate::{chart, usage, within};

/// The values of the chart.
const VALUES: &str = "resize.enabled=true,policies.mode=protect,policies.settings.estimates.mode=always";

pub struct World {
    pub cluster: Cluster,
    pub client: Client,
    pub node: Node,
    pub prometheus: Server,
    pub control_plane: Mutex<ControlPlane>,
    /// Those that stay.
    pub replicas: Mutex<Vec<Replica>>,
    /// The policies that guard the namespace `always`.
    pub policies: PolicyServer,
    /// Holds the resizes of the namespace `shrunk` back.
    pub gate: Arc<Gate>,
    /// The history of the collector.
    store: TempDir,
}

impl World {
    /// A cluster with a node, the chart without its programs, the metrics API, and Prometheus with this past.
    pub async fn start(mut cluster: Cluster, past: &[(&str, i64, u64)]) -> Self {
        let node = Node::start(&cluster);
        let client = cluster.client().await.unwrap();
        cluster.install("tests/data/charts/crds.yaml").unwrap();
        cluster.run_kubectl(&["create", "namespace", "headroom"]).unwrap();
        chart::apply(&cluster, &["--set", VALUES], |object| object["kind"] != "Deployment");
        cluster.wait_for_definitions().unwrap();
        let prometheus = usage::prometheus(&cluster, past).await;
        usage::serve_metrics_api(&client, prometheus.port).await;
        node.wait_until_ready(&cluster).await;
        let policies = chart::policies(chart::render(&["--set", VALUES]));
        assert_eq!(policies.len(), 3);
        let policies = PolicyServer::start(policies, &cluster, Host::Ours).await.unwrap();
        let control_plane = cluster.control_plane.take().unwrap();
        let (control_plane, replicas) = (Mutex::new(control_plane), Mutex::default());
        let (gate, store) = (Arc::default(), tempfile::tempdir().unwrap());
        Self { cluster, client, node, prometheus, control_plane, replicas, policies, gate, store }
    }

    /// Runs the collector with the rights that the chart gives it, until there is new usage.
    pub async fn collect(&self) {
        let user = "system:serviceaccount:headroom:headroom-collector";
        let kubeconfig = self.cluster.kubeconfig_file_as(user, "system:serviceaccounts").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom-controller-under-test"));
        command.args(["collect", "prometheus", &self.prometheus.url(), "--store"]);
        command.arg(self.store.path().join("usage.redb")).env("KUBECONFIG", kubeconfig);
        within(600, "usage is collected", async || {
            let collected = command.output().unwrap();
            let said = || String::from_utf8_lossy(&collected.stderr).into_owned();
            collected.status.success().then_some(()).ok_or_else(said)
        })
        .await;
    }

    /// Creates a namespace in this mode. The collector publishes which namespaces ask for estimates, so those that do are made before
    /// it runs.
    pub async fn namespace(&self, name: &str, mode: &str) {
        let labels = json!({"headroom.dev/resize": mode, "headroom.dev/estimates": "always"});
        let metadata = json!({"name": name, "labels": labels});
        create(&self.client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await.unwrap();
    }

    /// Creates the Deployment of a namespace, and waits until all pods are ready.
    pub async fn run(&self, namespace: &str, replicas: usize, resources: Value, annotations: Value) {
        self.node.load(namespace, 5, 20, true);
        let labels = json!({"app": "web"});
        let container = json!({"name": "app", "image": "localhost/load:1", "imagePullPolicy": "Never", "resources": resources,
            "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 5, "timeoutSeconds": 20},
            "volumeMounts": [{"name": "load", "mountPath": "/ctl"}]});
        let spec = json!({"nodeName": node::NAME, "dnsPolicy": "Default", "terminationGracePeriodSeconds": 2, "containers": [container],
            "volumes": [{"name": "load", "hostPath": {"path": format!("/host/load/{namespace}")}}]});
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}});
        let metadata = json!({"name": "web", "namespace": namespace});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
        create(&self.client, deployment).await.unwrap();
        within(600, &format!("{namespace}: the pods are ready"), async || {
            let pods = self.pods(namespace).await;
            let are_ready = pods.iter().filter(|pod| is_ready(pod)).count() == replicas;
            are_ready.then_some(()).ok_or_else(|| format!("{:?}", pods.last().map(|pod| &pod.data["status"])))
        })
        .await;
    }

    /// The objects of a kind in a namespace. While the API server is away, this waits.
    pub async fn list(&self, namespace: &str, kind: &str) -> Vec<DynamicObject> {
        let objects = api_in(&self.client, namespace, "v1", kind);
        let listed = async || objects.list(&ListParams::default()).await.map_err(|error| error.to_string());
        within(600, "the API server answers", listed).await.items
    }

    pub async fn pods(&self, namespace: &str) -> Vec<DynamicObject> {
        let pods = self.list(namespace, "Pod").await.into_iter();
        pods.filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
    }

    /// Waits until the only pod of a namespace is as wanted.
    pub async fn until(&self, namespace: &str, claim: &str, is_it: impl Fn(&DynamicObject) -> bool) -> DynamicObject {
        within(600, &format!("{namespace}: {claim}"), async || {
            let pods = self.pods(namespace).await;
            let found = pods.iter().find(|pod| is_it(pod)).cloned();
            found.ok_or_else(|| format!("{:?}", pods.iter().map(|pod| &pod.data).collect::<Vec<_>>()))
        })
        .await
    }

    /// Waits until the pod and the kubelet's report of it have the amount, and returns the pod.
    pub async fn resized(
        &self,
        namespace: &str,
        kind: &str,
        resource: &str,
        is_it: impl Fn(&Quantity) -> bool,
    ) -> DynamicObject {
        let claim = format!("the {kind} of {resource} are made");
        let pod = self.until(namespace, &claim, |pod| {
            let [spec, status] = [&pod.data["spec"]["containers"], &pod.data["status"]["containerStatuses"]];
            let [asked, made] = [spec, status].map(|of| quantity(&of[0]["resources"][kind][resource]));
            asked == made && is_it(&made)
        });
        pod.await
    }

    /// Waits for an Event in a namespace, and returns its message.
    pub async fn event(&self, namespace: &str, reason: &str) -> String {
        within(600, &format!("{namespace}: an Event {reason}"), async || {
            let events = self.list(namespace, "Event").await;
            let message = |event: &DynamicObject| event.data["message"].as_str().unwrap_or_default().to_owned();
            let found = events.iter().find(|event| event.data["reason"] == reason).map(message);
            found.ok_or_else(|| format!("{:?}", events.iter().map(message).collect::<Vec<_>>()))
        })
        .await
    }
}

/// An amount; zero where nothing is set.
pub fn quantity(amount: &Value) -> Quantity {
    amount.as_str().unwrap_or("0").parse().unwrap()
}

/// The amount of a container in the pod's spec.
pub fn asked(pod: &DynamicObject, kind: &str, resource: &str) -> Quantity {
    quantity(&pod.data["spec"]["containers"][0]["resources"][kind][resource])
}

pub fn restarts(pod: &DynamicObject) -> u64 {
    pod.data["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap()
}
