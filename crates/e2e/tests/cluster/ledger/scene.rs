//! An API server with quotas, two replicas of the ledger as processes of their own, and namespaces with pods.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt;
use headroom_admission::amount::Quantity;
use headroom_api_server::api_client::ApiClient;
use headroom_e2e::certificate;
use headroom_e2e::cluster::{Cluster, api, api_in, create, try_create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins, free_port};
use headroom_e2e::process::Process;
use headroom_e2e::wait::within;
use headroom_fixtures::servers::request;
use headroom_quota_server::objects::{PLAN_LABEL, ledgers};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::guarded_namespace::eventually;
use crate::objects;

/// The only ledger of a quota for all.
pub const LEDGER: &str = "trees.1";
/// In rows with several tenants.
const TENANTS: usize = 10;
const NAMESPACES_OF_EACH: usize = 100;
/// The common quota of the tenants.
const ROOT: &str = "all";
/// The namespace of ledgers, and of what the webhook with one write creates.
pub const HOME: &str = "headroom-ledger";
/// The label by which a pod calls one of two servers, as a Service spreads calls.
pub const SERVER: &str = "server";
/// A second quota, which bounds no pods.
pub const SERVICES: &str = "services";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Row {
    NoQuota,
    /// A ResourceQuota in each of this many namespaces, which the plugin enforces.
    Plugin(usize),
    /// A webhook that allows at once.
    AtOnce,
    /// A webhook that allows after a write of its own.
    OneWrite,
    Ledger,
    /// One quota over the namespaces of all tenants.
    OneOfMany,
    /// A quota for each tenant, and so a ledger.
    Trees,
    /// A quota for each tenant below a common one: one ledger, of which each has a share.
    Shares,
    /// A TenantQuota for each of this many namespaces, and so a ledger.
    OfEach(usize),
    /// A ResourceQuota in each of this many namespaces, which the ledger enforces.
    ResourceQuotas(usize),
    /// A TenantQuota for each of this many namespaces, at an API server that has the plugin.
    BesidePlugin(usize),
}

impl Row {
    pub const ALL: [Self; 8] = [
        Self::NoQuota,
        Self::Plugin(1),
        Self::AtOnce,
        Self::OneWrite,
        Self::Ledger,
        Self::OneOfMany,
        Self::Trees,
        Self::Shares,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::NoQuota => "no quota",
            Self::Plugin(_) => "in-tree plugin",
            Self::AtOnce => "webhook, at once",
            Self::OneWrite => "webhook, one write",
            Self::Ledger => "ledger",
            Self::OneOfMany => "10 tenants, ledger, 1 quota",
            Self::Trees => "10 tenants, ledger, 10 trees",
            Self::Shares => "10 tenants, ledger, 10 shares",
            Self::OfEach(_) => "TenantQuota for each namespace",
            Self::ResourceQuotas(_) => "ResourceQuota in each namespace",
            Self::BesidePlugin(_) => "TenantQuotas beside the plugin",
        }
    }

    pub fn is_of_ledger(self) -> bool {
        !matches!(self, Self::NoQuota | Self::Plugin(_) | Self::AtOnce | Self::OneWrite)
    }

    /// The program that answers the webhook, and its arguments besides addresses and certificate.
    fn program(self) -> Option<(&'static str, &'static [&'static str])> {
        Some(match self {
            Self::NoQuota | Self::Plugin(_) => return None,
            Self::AtOnce => ("headroom-bench", &["webhook"]),
            Self::OneWrite => ("headroom-bench", &["webhook", "--write", HOME]),
            Self::ResourceQuotas(_) => {
                ("headroom-controller", &["enforce-quotas", "--no-configure", "--namespace", HOME, "--resource-quotas"])
            }
            _ => ("headroom-controller", &["enforce-quotas", "--no-configure", "--namespace", HOME]),
        })
    }

    /// The namespaces, each with its tenant.
    fn namespaces(self) -> Vec<(String, String)> {
        let (tenants, of_each) = match self {
            Self::OneOfMany | Self::Trees | Self::Shares => (TENANTS, NAMESPACES_OF_EACH),
            Self::Plugin(namespaces)
            | Self::OfEach(namespaces)
            | Self::ResourceQuotas(namespaces)
            | Self::BesidePlugin(namespaces) => (namespaces, 1),
            _ => (1, 1),
        };
        let of_tenants = |number| (0..tenants).map(move |tenant| (format!("{tenant}-{number}"), tenant));
        let namespaces = (0..of_each).flat_map(of_tenants);
        namespaces.map(|(name, tenant)| (format!("team-{name}"), format!("team-{tenant}"))).collect()
    }
}

pub struct Scene {
    pub row: Row,
    pub servers: Vec<Server>,
    /// With their tenants.
    pub namespaces: Vec<(String, String)>,
    pub cluster: Cluster,
    pub client: Client,
    /// That of the servers' certificate.
    authority: String,
    files: TempDir,
}

/// A replica of the ledger.
pub struct Server {
    process: Option<Process>,
    arguments: Vec<String>,
    logs: PathBuf,
    pub address: Address,
}

/// The places where a replica answers.
#[derive(Clone, Copy)]
pub struct Address {
    reviews: SocketAddr,
    /// The port of its metrics and probes.
    pub status: u16,
}

impl Address {
    pub fn is_ready(&self) -> bool {
        matches!(request(self.status, "GET", "/readyz", b""), Ok((200, _)))
    }

    /// The text of its metrics; empty while it does not run.
    pub fn metrics(&self) -> String {
        request(self.status, "GET", "/metrics", b"").map_or_else(|_| String::new(), |(_, text)| text)
    }
}

impl Server {
    /// Kills it at any point of its work.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        process.terminate().unwrap();
        while process.ended().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts it again, and waits until it is ready.
    pub async fn run(&mut self) {
        let process = self.process.insert(Process::start(Path::new("env"), &self.arguments, &self.logs).unwrap());
        within([Duration::from_secs(60), Duration::from_millis(1)], "it is ready", async || {
            self.address.is_ready().then_some(()).ok_or_else(|| process.last_words())
        })
        .await
        .unwrap();
    }

    /// Stops it, so that another one leads at once if it led, and starts it beside another API server.
    pub async fn move_to(&mut self, kubeconfig: &Path) {
        self.stop().await;
        self.arguments[0] = format!("KUBECONFIG={}", kubeconfig.display());
        self.run().await;
    }

    pub fn cpu(&self) -> Duration {
        self.process.as_ref().unwrap().cpu().unwrap()
    }

    pub fn last_words(&self) -> String {
        self.process.as_ref().map(Process::last_words).unwrap_or_default()
    }
}

impl Scene {
    pub async fn start(row: Row, controllers: Controllers, optimized: Option<&Path>) -> Self {
        let has_plugin = matches!(row, Row::Plugin(_) | Row::BesidePlugin(_));
        let plugins = if has_plugin { InTreePlugins::On } else { InTreePlugins::Off };
        let cluster = Cluster::start(plugins, controllers).await.unwrap();
        let client = cluster.client().await.unwrap();
        let (namespaces, files) = (row.namespaces(), tempfile::tempdir().unwrap());
        let authority = String::new();
        let mut scene = Self { row, servers: Vec::new(), namespaces, cluster, client, authority, files };
        scene.add_namespaces(controllers != Controllers::Off).await;
        if row.is_of_ledger() {
            scene.cluster.install("deploy/charts/headroom/files/ledger/crds.yaml").unwrap();
        }
        if let Some(program) = row.program() {
            scene.serve(program, optimized).await;
        }
        scene
    }

    pub async fn create(&self, object: Value) {
        create(&self.client, object).await.unwrap();
    }

    async fn create_all(&self, objects: impl Iterator<Item = Value>) {
        let created = objects.map(|object| self.create(object));
        futures::stream::iter(created).buffer_unordered(10).collect::<Vec<()>>().await;
    }

    /// Creates the namespaces, and waits until controllers have done their work with them.
    async fn add_namespaces(&self, has_controllers: bool) {
        let home = (HOME.to_owned(), HOME.to_owned());
        let namespaces = self.namespaces.iter().chain([&home]).map(|(name, tenant)| {
            let metadata = json!({"name": name, "labels": {"tenant": tenant}});
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        });
        self.create_all(namespaces).await;
        let accounts = api(&self.client, "v1", "ServiceAccount");
        let of_namespaces = ListParams::default().fields("metadata.name=default");
        eventually("the controllers have made all service accounts", async || {
            let made = accounts.list(&of_namespaces).await.unwrap().items.len();
            (!has_controllers || made > self.namespaces.len()).then_some(()).ok_or(format!("{made}"))
        })
        .await;
    }

    /// Starts a program twice, optimized if there is a folder of such programs, and waits until the API server calls both.
    async fn serve(&mut self, (program, arguments): (&str, &[&str]), optimized: Option<&Path>) {
        let program = optimized.map(|programs| programs.join(program));
        let program = program.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_headroom-controller-under-test")));
        let certificate = certificate::for_server(&["127.0.0.1"]).unwrap();
        let folder = self.files.path().to_str().unwrap().to_owned();
        std::fs::write(self.files.path().join("tls.crt"), certificate.certificate).unwrap();
        std::fs::write(self.files.path().join("tls.key"), certificate.key).unwrap();
        let addresses = [free_address(), free_address()];
        self.create(webhooks(&certificate.authority, addresses)).await;
        self.authority = certificate.authority;
        self.wait_for_answers(false).await;
        // Written once: a server that starts reads it.
        let kubeconfig = format!("KUBECONFIG={}", self.cluster.kubeconfig_file().unwrap().display());
        for reviews in addresses {
            let status = free_port().unwrap();
            let (own, pages) = (reviews.to_string(), format!("127.0.0.1:{status}"));
            let mut all = vec![&kubeconfig, program.to_str().unwrap()];
            all.extend_from_slice(arguments);
            all.extend(["--tls", &folder, "--listen", &own]);
            if self.row.is_of_ledger() {
                all.extend(["--listen-status", &pages]);
            }
            let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
            let logs = self.files.path().to_owned();
            let process = Process::start(Path::new("env"), &all, &logs).unwrap();
            let address = Address { reviews, status };
            self.servers.push(Server { process: Some(process), arguments: all, logs, address });
        }
        self.wait_for_answers(true).await;
    }

    /// Waits until both servers answer the API server, or until it calls them where none is.
    async fn wait_for_answers(&self, has_servers: bool) {
        eventually("the API server calls the webhooks", async || {
            let ask = |server| try_create(&self.client, self.pod("probe", 0, server));
            let answers = [ask(0).await, ask(1).await];
            let are_right = answers.iter().all(|answer| answer.is_ok() == has_servers);
            let words = || self.servers.iter().map(Server::last_words).collect::<String>();
            are_right.then_some(()).ok_or_else(|| format!("{answers:?} {}", words()))
        })
        .await;
    }

    /// Quotas on pods, and waits until they are enforced.
    pub async fn add_quotas(&self, pods: &str) {
        let hard = json!({"pods": pods});
        let quota = |name: &str, mut spec: Value| {
            spec["quota"] = json!({"hard": hard});
            json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": name}, "spec": spec})
        };
        let namespaces = self.namespaces.iter().map(|(name, _)| name);
        match self.row {
            Row::NoQuota | Row::AtOnce | Row::OneWrite => return,
            Row::OfEach(_) | Row::BesidePlugin(_) => {
                self.create_all(namespaces.map(|name| quota(name, json!({"namespaces": {"names": [name]}})))).await;
            }
            Row::Plugin(_) | Row::ResourceQuotas(_) => {
                self.create_all(namespaces.map(|name| objects::quota(name, hard.clone()))).await;
            }
            Row::Ledger | Row::OneOfMany => {
                let selector = json!({"matchExpressions": [{"key": "tenant", "operator": "Exists"}]});
                self.create(quota("team", json!({"namespaces": {"selector": selector}}))).await;
            }
            Row::Trees | Row::Shares => {
                let is_below = self.row == Row::Shares;
                if is_below {
                    self.create(quota(ROOT, json!({}))).await;
                }
                let of_tenants = (0..TENANTS).map(|tenant| format!("team-{tenant}")).map(|tenant| {
                    let mut spec = json!({"namespaces": {"selector": {"matchLabels": {"tenant": tenant}}}});
                    if is_below {
                        spec["parent"] = json!(ROOT);
                    }
                    quota(&tenant, spec)
                });
                self.create_all(of_tenants).await;
            }
        }
        self.wait_for_used(0).await;
        let Row::ResourceQuotas(ledgers) = self.row else { return };
        // A counted usage may be that of the API server's controllers; and the ledger first makes sure for ten seconds that the plugin is
        // off.
        let stored = api_in(&self.client, HOME, "headroom.dev/v1alpha1", "QuotaLedger");
        let states = ListParams::default().labels(PLAN_LABEL);
        eventually("there are ledgers", async || {
            let there = stored.list_metadata(&states).await.unwrap().items.len();
            (there >= ledgers).then_some(()).ok_or(format!("{there} of {ledgers}"))
        })
        .await;
    }

    /// Waits until the quotas have counted this many pods.
    pub async fn wait_for_used(&self, pods: usize) {
        let quotas: Api<DynamicObject> = match self.row {
            Row::Plugin(_) | Row::ResourceQuotas(_) => api(&self.client, "v1", "ResourceQuota"),
            _ => api(&self.client, "headroom.dev/v1alpha1", "TenantQuota"),
        };
        let expected: Quantity = pods.to_string().parse().unwrap();
        let patience = Duration::from_secs(120) + Duration::from_millis(100) * self.namespaces.len() as u32;
        within([patience, Duration::from_millis(50)], &format!("{pods} pods are counted"), async || {
            let listed = quotas.list(&ListParams::default()).await.unwrap();
            let of_tenants = listed
                .items
                .iter()
                .filter(|quota| !matches!(quota.metadata.name.as_deref(), Some(ROOT | "headroom-probe" | SERVICES)));
            // Kubernetes writes 3k for 3000.
            let used = |quota: &DynamicObject| quota.data["status"]["used"]["pods"].as_str()?.parse::<Quantity>().ok();
            let used: Option<Vec<Quantity>> = of_tenants.map(used).collect();
            let sum = used.map(|used| used.iter().fold(Quantity::ZERO, |sum, used| sum.plus(used)));
            (sum.as_ref() == Some(&expected)).then_some(()).ok_or_else(|| format!("{sum:?}"))
        })
        .await
        .unwrap();
    }

    /// A pod in one of the namespaces, about which one of the servers is called.
    pub fn pod(&self, name: &str, number: usize, server: usize) -> Value {
        let (namespace, _) = &self.namespaces[number % self.namespaces.len()];
        let mut pod = objects::pod(namespace, name, json!({}));
        pod["metadata"]["labels"] = json!({SERVER: server.to_string()});
        pod
    }

    pub async fn try_pod(&self, name: &str, number: usize, server: usize) -> kube::Result<DynamicObject> {
        create(&self.client, self.pod(name, number, server)).await
    }

    /// Waits until no claim is left and `used` matches the stored pods, and says how long that took.
    pub async fn clean(&self, patience: Duration) {
        let (began, pods) = (Instant::now(), api(&self.client, "v1", "Pod"));
        let reader = ApiClient::new(self.client.clone());
        within([patience, Duration::from_millis(20)], "the ledger is clean", async || {
            let stored = pods.list(&ListParams::default()).await.unwrap().items.len();
            let state = reader.get(&ledgers(HOME).at(LEDGER)).await.unwrap();
            let is_counted = state["used"][0].as_str().unwrap().split(' ').any(|word| word == format!("pods={stored}"));
            let is_clean = is_counted && state.get("claims").is_none();
            is_clean.then_some(()).ok_or_else(|| format!("{stored} are stored, but {state}"))
        })
        .await
        .unwrap();
        println!("clean {:.1?} later", began.elapsed());
    }

    /// Makes the API server call one address for all pods, as it calls a Service. Connections are forwarded to replicas that are
    /// ready.
    pub async fn serve_as_service(&self, replicas: &[Address]) {
        let service = TcpListener::bind(free_address()).await.unwrap();
        let webhooks = webhooks(&self.authority, [service.local_addr().unwrap(); 2]);
        let configurations = api(&self.client, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
        let webhooks = Patch::Merge(json!({"webhooks": webhooks["webhooks"]}));
        configurations.patch("ledger", &PatchParams::default(), &webhooks).await.unwrap();
        loop {
            let (mut connection, _) = service.accept().await.unwrap();
            let ready: Vec<&Address> = replicas.iter().filter(|replica| replica.is_ready()).collect();
            let mut replica = TcpStream::connect(ready[fastrand::usize(..ready.len())].reviews).await.unwrap();
            // It ends with either side.
            tokio::spawn(async move { drop(tokio::io::copy_bidirectional(&mut connection, &mut replica).await) });
        }
    }
}

/// Webhooks that call each of two servers for the objects with its label.
fn webhooks(authority: &str, addresses: [SocketAddr; 2]) -> Value {
    let authority = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority);
    let webhook = |which: usize| {
        let url = format!("https://{}/review", addresses[which]);
        json!({
            "name": format!("quota-{which}.headroom.dev"), "clientConfig": {"url": url, "caBundle": authority},
            "rules": [{"apiGroups": ["", "apps"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": ["pods", "services"], "scope": "Namespaced"}],
            "objectSelector": {"matchLabels": {SERVER: which.to_string()}}, "failurePolicy": "Fail",
            "sideEffects": "NoneOnDryRun", "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "ledger"}, "webhooks": [webhook(0), webhook(1)],
    })
}

pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port().unwrap()).into()
}
