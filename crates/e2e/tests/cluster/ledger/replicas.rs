//! Two replicas of the ledger for an API server, and helpers of the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headroom_admission::json::Node;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::ApiClient;
use headroom_api_server::kubeconfig::Chosen;
use headroom_api_server::watch::{WatchUpdate, follow};
use headroom_e2e::certificate;
use headroom_e2e::cluster::{Cluster, api_in, create, resource};
use headroom_e2e::control_plane::{Controllers, InTreePlugins, free_port};
use headroom_quota_server::objects::{ledgers, plan_name};
use headroom_quota_server::{Options, Replica};
use headroom_wasm_host::built::workspace_file;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The namespace of the ledgers.
const HOME: &str = "headroom-ledger";
/// The only ledger.
pub const LEDGER: &str = "trees.1";
/// The tenant's namespaces, each with its own replica.
pub const NAMESPACES: [&str; 2] = ["shop", "web"];
/// The API server is started with a timeout of 10 s for each request.
const REQUEST_LIFETIME: Duration = Duration::from_secs(25);

pub struct Ledger {
    pub cluster: Cluster,
    pub client: Client,
    replicas: Mutex<[Option<Running>; 2]>,
    /// For the API server of each replica.
    kubeconfigs: Mutex<[PathBuf; 2]>,
    addresses: [SocketAddr; 2],
    authority: String,
    files: TempDir,
}

struct Running {
    runtime: Runtime,
    replica: Arc<Replica>,
    serving: JoinHandle<()>,
}

/// The outcomes of requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub stored: usize,
    /// Refused by the quota, with its text.
    pub refused: usize,
    /// Refused because the object exists.
    pub others: usize,
    /// Asked to retry.
    pub busy: usize,
    /// All other outcomes, which must not occur.
    pub wrong: Vec<String>,
}

impl Tally {
    pub fn of(outcomes: impl IntoIterator<Item = kube::Result<DynamicObject>>) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            match outcome {
                Ok(_) => tally.stored += 1,
                Err(kube::Error::Api(status)) if status.message.contains("exceeded quota") => {
                    tally.refused += 1;
                    if status.code != 403 {
                        tally.wrong.push(format!("{} {}", status.code, status.message));
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 429 => tally.busy += 1,
                Err(kube::Error::Api(status)) if status.is_already_exists() => tally.others += 1,
                Err(error) => tally.wrong.push(error.to_string()),
            }
        }
        tally
    }
}

impl Ledger {
    /// Two running replicas, and the quota `payments` for both namespaces.
    pub async fn start(hard: Value) -> Self {
        let cluster =
            Cluster::start_with(InTreePlugins::Off, Controllers::Off, &["--request-timeout=10s"]).await.unwrap();
        install_definitions(&cluster);
        let client = cluster.client().await.unwrap();
        let ports = [free_address(), free_address()];
        let files = tempfile::tempdir().unwrap();
        let server = certificate::for_server(&["127.0.0.1"]).unwrap();
        std::fs::write(files.path().join("tls.crt"), server.certificate).unwrap();
        std::fs::write(files.path().join("tls.key"), server.key).unwrap();
        create(&client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})).await.unwrap();
        for namespace in NAMESPACES {
            let labels = json!({"tenant": "payments", "replica": namespace});
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
            create(&client, namespace).await.unwrap();
        }
        let kubeconfig = cluster.kubeconfig_file().unwrap();
        let kubeconfigs = Mutex::new([kubeconfig.clone(), kubeconfig]);
        let replicas = Mutex::new([None, None]);
        let ledger =
            Self { cluster, client, replicas, kubeconfigs, addresses: ports, authority: server.authority, files };
        ledger.run(0).await;
        ledger.run(1).await;
        ledger
            .quota("payments", json!({"namespaces": {"selector": {"matchLabels": {"tenant": "payments"}}}}), hard)
            .await;
        ledger.configure().await;
        ledger
    }

    /// Starts a replica, and starts it again whenever it was killed.
    pub async fn run(&self, which: usize) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let path = |name: &str| -> PathBuf { self.files.path().join(name) };
        let kubeconfig = self.kubeconfigs.lock().unwrap()[which].clone();
        let options = Options {
            request_lifetime: REQUEST_LIFETIME,
            files: Some((path("tls.crt"), path("tls.key"))),
            drain: Duration::from_millis(500),
            ..Options::new(HOME)
        };
        let chosen = Chosen { kubeconfig: Some(kubeconfig), ..Chosen::default() };
        let (started, is_started) = tokio::sync::oneshot::channel();
        let address = self.addresses[which];
        let serving = runtime.spawn(async move {
            let config = headroom_api_server::kubeconfig::config(&chosen).await.unwrap();
            let client = headroom_api_server::proxy::client(config).unwrap();
            let replica = Replica::new(options, client, CancellationToken::new());
            let listener = listen_again(address).await;
            assert!(started.send(Arc::clone(&replica)).is_ok());
            replica.serve(listener, None).await.unwrap();
        });
        let replica = is_started.await.unwrap();
        until("a replica is ready", || replica.is_ready()).await;
        self.replicas.lock().unwrap()[which] = Some(Running { runtime, replica, serving });
    }

    /// Kills a replica at any point of its work.
    pub fn kill(&self, which: usize) {
        if let Some(running) = self.replicas.lock().unwrap()[which].take() {
            running.runtime.shutdown_background();
        }
    }

    /// Asks a replica to stop, and waits until it has.
    pub async fn stop(&self, which: usize) {
        let running = self.replicas.lock().unwrap()[which].take();
        if let Some(Running { runtime, replica, serving }) = running {
            replica.stop.cancel();
            serving.await.unwrap();
            runtime.shutdown_background();
        }
    }

    /// Kills a replica, and starts it beside another API server.
    pub async fn move_to(&self, which: usize, kubeconfig: PathBuf) {
        self.kill(which);
        self.kubeconfigs.lock().unwrap()[which] = kubeconfig;
        self.run(which).await;
    }

    pub fn replica(&self, which: usize) -> Option<Arc<Replica>> {
        self.replicas.lock().unwrap()[which].as_ref().map(|running| Arc::clone(&running.replica))
    }

    /// The replica that leads.
    pub async fn leader(&self) -> usize {
        let leader = || (0..2).find(|which| self.replica(*which).is_some_and(|it| it.metrics.leads.get() == 1));
        until("a replica leads", || leader().is_some()).await;
        leader().unwrap()
    }

    /// Creates a TenantQuota, and waits until it is enforced.
    async fn quota(&self, name: &str, mut spec: Value, hard: Value) {
        spec["quota"] = json!({"hard": hard});
        let quota = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota",
            "metadata": {"name": name}, "spec": spec});
        create(&self.client, quota).await.unwrap();
        let is_charged = |which: usize| {
            let views = self.replica(which).unwrap().ledgers.views();
            views.iter().any(|view| view.plan.nodes.iter().any(|node| node.quota == name))
        };
        until("the quota is in force", || is_charged(0) && is_charged(1)).await;
    }

    /// The webhooks that call a server at each address for its own namespace.
    fn webhooks(&self, addresses: [SocketAddr; 2]) -> Value {
        let resources = ["pods", "services", "persistentvolumeclaims", "deployments"];
        let labels = |which: usize| json!({"replica": NAMESPACES[which]});
        webhooks(&self.authority, addresses, &resources, ("namespaceSelector", &labels))
    }

    /// Makes the API server call one address for both namespaces, as it calls a Service. Connections are forwarded to
    /// replicas that are ready.
    pub async fn serve_as_service(&self) {
        let service = TcpListener::bind(free_address()).await.unwrap();
        let address = service.local_addr().unwrap();
        let kind = resource("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
        let webhooks = json!({"webhooks": self.webhooks([address; 2])["webhooks"]});
        let configurations: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        configurations.patch("ledger", &PatchParams::default(), &Patch::Merge(webhooks)).await.unwrap();
        loop {
            let (mut connection, _) = service.accept().await.unwrap();
            let is_ready = |which: &usize| self.replica(*which).is_some_and(|replica| replica.is_ready());
            let ready: Vec<usize> = (0..2).filter(is_ready).collect();
            let mut replica = TcpStream::connect(self.addresses[ready[fastrand::usize(..ready.len())]]).await.unwrap();
            // It ends with either side.
            tokio::spawn(async move { drop(tokio::io::copy_bidirectional(&mut connection, &mut replica).await) });
        }
    }

    /// Makes the API server call each replica for its own namespace.
    async fn configure(&self) {
        create(&self.client, self.webhooks(self.addresses)).await.unwrap();
        for (which, namespace) in NAMESPACES.into_iter().enumerate() {
            let replica = self.replica(which).unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            while replica.metrics.reviews("allowed") + replica.metrics.reviews("rejected") == 0 {
                assert!(Instant::now() < deadline, "the API server does not call the webhook");
                drop(self.create_pod(namespace, json!({"name": "probe"}), true).await);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    pub fn pods(&self, namespace: &str) -> Api<DynamicObject> {
        api_in(&self.client, namespace, "v1", "Pod")
    }

    pub async fn create_pod(&self, namespace: &str, metadata: Value, dry_run: bool) -> kube::Result<DynamicObject> {
        Self::create_pod_by(&self.pods(namespace), metadata, dry_run).await
    }

    /// Like [`Self::create_pod`], with a client of another API server.
    pub async fn create_pod_by(
        pods: &Api<DynamicObject>,
        metadata: Value,
        dry_run: bool,
    ) -> kube::Result<DynamicObject> {
        let pod: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}}]},
        }))
        .unwrap();
        pods.create(&PostParams { dry_run, ..PostParams::default() }, &pod).await
    }

    pub async fn delete_pod(&self, namespace: &str, name: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        drop(self.pods(namespace).delete(name, &now).await);
    }

    /// Creates and deletes pods as one writer, until `is_over`.
    pub async fn churn(&self, writer: usize, is_over: impl Fn() -> bool) -> Vec<kube::Result<DynamicObject>> {
        let namespace = NAMESPACES[writer % 2];
        let (mut outcomes, mut there) = (Vec::new(), std::collections::VecDeque::new());
        for round in 0.. {
            if is_over() {
                break;
            }
            let name = format!("churn-{writer}-{round}");
            let outcome = self.create_pod(namespace, json!({"name": name}), false).await;
            if outcome.is_ok() {
                there.push_back(name);
            }
            // Delete a pod if there is no room, and sometimes otherwise.
            if (outcome.is_err() || round % 3 == 0)
                && let Some(name) = there.pop_front()
            {
                self.delete_pod(namespace, &name).await;
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    async fn stored(&self) -> usize {
        let mut stored = 0;
        for namespace in NAMESPACES {
            stored += self.pods(namespace).list(&ListParams::default()).await.unwrap().items.len();
        }
        stored
    }

    /// Waits until no claim is left and `used` matches the stored pods. Returns how long that took.
    pub async fn clean(&self, patience: Duration) -> Duration {
        let began = Instant::now();
        loop {
            let stored = self.stored().await;
            let api = ApiClient::new(self.client.clone());
            let state = api.get(&ledgers(HOME).at(LEDGER)).await.unwrap();
            let plan = plan_name(LEDGER, state["plan"].as_u64().unwrap());
            let plan = api.get(&ledgers(HOME).at(&plan)).await.unwrap();
            let mut nodes = plan["nodes"].as_array().unwrap().iter();
            let node = nodes.position(|line| line.as_str().unwrap().starts_with("payments ")).unwrap();
            let used = state["used"][node].as_str().unwrap().to_owned();
            let is_counted = used.split(' ').any(|word| word == format!("pods={stored}"));
            if is_counted && state.get("claims").is_none() {
                return began.elapsed();
            }
            assert!(began.elapsed() < patience, "{stored} are stored, but {used}; claims: {}", state["claims"]);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Counts pods after every event from now on.
    pub async fn watch(&self) -> Watched {
        Watched::start(&self.client, None).await
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.kill(0);
        self.kill(1);
    }
}

/// The counts of a watch.
pub struct Watched {
    /// In how many states there were this many pods.
    states: Arc<Mutex<BTreeMap<usize, usize>>>,
    stop: CancellationToken,
}

impl Watched {
    /// Counts the pods of a namespace, or of all, after every event from now on.
    pub async fn start(client: &Client, namespace: Option<&str>) -> Self {
        let watched = Self { states: Arc::default(), stop: CancellationToken::new() };
        let (states, mut there) = (Arc::clone(&watched.states), BTreeSet::new());
        let uid = |pod: Node<'_>| Some(pod.at(&["metadata", "uid"]).unwrap().unwrap().str().unwrap().into_owned());
        let (client, path) = (ApiClient::new(client.clone()), ApiPath::new("/api/v1").collection(namespace, "pods"));
        tokio::spawn(follow(client, path, watched.stop.clone(), uid, move |seen| {
            match seen {
                WatchUpdate::Listed(_, uids) => there = uids.into_iter().collect(),
                WatchUpdate::Stored(uid) => _ = there.insert(uid),
                WatchUpdate::Deleted(uid) => _ = there.remove(&uid),
                WatchUpdate::UpTo(_) | WatchUpdate::Lost(_) => return,
            }
            *states.lock().unwrap().entry(there.len()).or_default() += 1;
        }));
        until("pods are listed", || !watched.states.lock().unwrap().is_empty()).await;
        watched
    }

    /// The number of states with more pods than fit.
    pub fn above(&self, room: usize) -> usize {
        self.states.lock().unwrap().range(room + 1..).map(|(_, states)| states).sum()
    }

    /// The most pods at any time, and the number of states.
    pub fn end(self) -> (usize, usize) {
        self.stop.cancel();
        let states = self.states.lock().unwrap();
        (*states.last_key_value().unwrap().0, states.values().sum())
    }
}

pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Listens at the address of a killed replica, whose runtime closes its listener only a moment after it was told to.
async fn listen_again(address: SocketAddr) -> TcpListener {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            listener => return listener.unwrap(),
        }
    }
}

/// Installs the kinds of the ledger, and waits until the API server serves them.
pub fn install_definitions(cluster: &Cluster) {
    let definitions = workspace_file("deploy/charts/headroom/files/ledger/crds.yaml");
    cluster.run_kubectl(&["apply", "-f", definitions.to_str().unwrap()]).unwrap();
    cluster.wait_for_definitions().unwrap();
}

/// Webhooks that call each of two servers for the objects that its labels select.
pub fn webhooks(
    authority: &str,
    addresses: [SocketAddr; 2],
    resources: &[&str],
    (selector, labels): (&str, &dyn Fn(usize) -> Value),
) -> Value {
    let authority = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority);
    let webhook = |which: usize| {
        let url = format!("https://{}/review", addresses[which]);
        json!({
            "name": format!("quota-{which}.headroom.dev"), "clientConfig": {"url": url, "caBundle": authority},
            "rules": [{"apiGroups": ["", "apps"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": resources, "scope": "Namespaced"}],
            selector: {"matchLabels": labels(which)}, "failurePolicy": "Fail",
            "sideEffects": "NoneOnDryRun", "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "ledger"}, "webhooks": [webhook(0), webhook(1)],
    })
}

/// A free address on loopback.
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port().unwrap()).into()
}
