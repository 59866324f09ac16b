//! What an admission costs with the ledger, beside the API server's own plugin and beside the least that any webhook costs,
//! with the same pods, namespace, controllers, certificates and processors. The servers are optimized builds in processes
//! of their own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt;
use headroom_core::amount::Quantity;
use headroom_e2e::certificate::Authority;
use headroom_e2e::cluster::{Cluster, create, resource};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::process::Process;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::replicas::{free_address, install_definitions, webhooks};
use crate::objects;

/// Pods created by each number of writers.
const PODS: usize = 1_000;
const WRITERS: [usize; 3] = [1, 10, 50];
const NAMESPACE: &str = "shop";
/// The namespace of ledgers, and of what the webhook with one write creates.
const HOME: &str = "headroom-ledger";
const WRITES: &str = "headroom_ledger_writes_total";
const CONFLICTS: &str = "headroom_ledger_conflicts_total";
/// The label by which a pod calls one of two servers, as a Service spreads calls.
const SERVER: &str = "server";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    NoQuota,
    Plugin,
    /// A webhook that allows at once.
    AtOnce,
    /// A webhook that allows after a write of its own.
    OneWrite,
    Ledger,
}

impl Row {
    const ALL: [Self; 5] = [Self::NoQuota, Self::Plugin, Self::AtOnce, Self::OneWrite, Self::Ledger];

    fn name(self) -> &'static str {
        match self {
            Self::NoQuota => "no quota",
            Self::Plugin => "in-tree plugin",
            Self::AtOnce => "webhook, at once",
            Self::OneWrite => "webhook, one write",
            Self::Ledger => "ledger",
        }
    }

    /// The program of a webhook, and its arguments besides address and certificate.
    fn program(self) -> Option<(&'static str, Vec<String>)> {
        let arguments = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        match self {
            Self::NoQuota | Self::Plugin => None,
            Self::AtOnce => Some(("examples/webhook_floor", Vec::new())),
            Self::OneWrite => Some(("examples/webhook_floor", arguments(&["--write", HOME]))),
            Self::Ledger => {
                Some(("headroom-controller", arguments(&["enforce-quotas", "--namespace", HOME, "--no-configure"])))
            }
        }
    }
}

struct Scene {
    row: Row,
    servers: Vec<Process>,
    /// Where the replicas of the ledger show their metrics.
    statuses: Vec<SocketAddr>,
    cluster: Cluster,
    client: Client,
    files: tempfile::TempDir,
}

impl Scene {
    async fn start(row: Row, programs: &Path) -> Self {
        let plugins = if row == Row::Plugin { InTreePlugins::On } else { InTreePlugins::Off };
        let cluster = Cluster::start(plugins, Controllers::On).await.unwrap();
        let client = cluster.client().await.unwrap();
        let mut scene = Self {
            row,
            servers: Vec::new(),
            statuses: Vec::new(),
            cluster,
            client,
            files: tempfile::tempdir().unwrap(),
        };
        for name in [HOME, NAMESPACE] {
            let metadata = json!({"name": name, "labels": {"tenant": name}});
            scene.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await;
        }
        if row == Row::Ledger {
            install_definitions(&scene.cluster);
        }
        if let Some((program, arguments)) = row.program() {
            scene.serve(&programs.join(program), &arguments).await;
        }
        scene.add_quota().await;
        scene
    }

    async fn create(&self, object: Value) {
        create(&self.client, object).await.unwrap();
    }

    /// Starts two servers, and waits until the API server calls them.
    async fn serve(&mut self, program: &Path, arguments: &[String]) {
        let authority = Authority::new().unwrap();
        let certificate = authority.sign_server(&["127.0.0.1"]).unwrap();
        let file = |name: &str| -> String { self.files.path().join(name).to_str().unwrap().to_owned() };
        std::fs::write(file("tls.crt"), certificate.certificate).unwrap();
        std::fs::write(file("tls.key"), certificate.key).unwrap();
        let addresses = [free_address().await, free_address().await];
        let labels = |server: usize| json!({SERVER: server.to_string()});
        self.create(webhooks(&authority, addresses, &["pods"], ("objectSelector", &labels))).await;
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.has_answers().await != [false, false] {
            assert!(Instant::now() < deadline, "the API server does not call the webhook");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut servers = Vec::new();
        for address in addresses {
            let kubeconfig = format!("KUBECONFIG={}", self.cluster.kubeconfig_file().unwrap().display());
            let of_file = |flag: &str, name: &str| [flag.to_owned(), file(name)];
            let mut all = vec![kubeconfig, program.to_str().unwrap().to_owned()];
            all.extend_from_slice(arguments);
            if self.row == Row::Ledger {
                let status = free_address().await;
                all.extend(["--listen-status".to_owned(), status.to_string()]);
                self.statuses.push(status);
            }
            all.extend(["--listen".to_owned(), address.to_string()]);
            all.extend([of_file("--tls-certificate", "tls.crt"), of_file("--tls-key", "tls.key")].concat());
            servers.push(Process::start(Path::new("env"), &all, self.files.path()).unwrap());
        }
        while self.has_answers().await != [true, true] {
            assert!(Instant::now() < deadline, "{}", servers[0].last_words());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.servers = servers;
    }

    /// True for each server that answers the API server.
    async fn has_answers(&self) -> [bool; 2] {
        [self.try_pod("probe", 0, true).await.is_ok(), self.try_pod("probe", 1, true).await.is_ok()]
    }

    /// A quota on pods, and waits until it is enforced.
    async fn add_quota(&self) {
        let hard = json!({"pods": "100000"});
        match self.row {
            Row::Plugin => self.create(objects::quota(NAMESPACE, hard)).await,
            Row::Ledger => {
                let namespaces = json!({"selector": {"matchLabels": {"tenant": NAMESPACE}}});
                self.create(json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota",
                    "metadata": {"name": "team"}, "spec": {"namespaces": namespaces, "quota": {"hard": hard}}}))
                    .await;
            }
            Row::NoQuota | Row::AtOnce | Row::OneWrite => return,
        }
        self.wait_for_used(0).await;
    }

    /// Waits until the status of the quota counts this many pods.
    async fn wait_for_used(&self, pods: usize) {
        let quotas: Api<DynamicObject> = match self.row {
            Row::Plugin => Api::namespaced_with(self.client.clone(), NAMESPACE, &resource("v1", "ResourceQuota")),
            _ => Api::all_with(self.client.clone(), &resource("headroom.dev/v1alpha1", "TenantQuota")),
        };
        let pods: Quantity = pods.to_string().parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let quota = quotas.get("team").await.unwrap();
            // Kubernetes writes 3k for 3000.
            let used = quota.data["status"]["used"]["pods"].as_str().map(|used| used.parse::<Quantity>().unwrap());
            if used.as_ref() == Some(&pods) {
                return;
            }
            assert!(Instant::now() < deadline, "{pods} pods are not counted: {}", quota.data["status"]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn try_pod(&self, name: &str, server: usize, dry_run: bool) -> kube::Result<DynamicObject> {
        let mut pod = objects::pod(NAMESPACE, name, json!({}));
        pod["metadata"]["labels"] = json!({SERVER: (server % 2).to_string()});
        let pods = Api::namespaced_with(self.client.clone(), NAMESPACE, &resource("v1", "Pod"));
        pods.create(&PostParams { dry_run, ..PostParams::default() }, &serde_json::from_value(pod).unwrap()).await
    }

    /// Processor time of the servers, the API server and etcd.
    fn cpu(&self) -> [Duration; 3] {
        let [api_server, etcd] = self.cluster.control_plane.as_ref().unwrap().cpu().unwrap();
        [self.servers.iter().map(|server| server.cpu().unwrap()).sum(), api_server, etcd]
    }

    /// The sum of a counter of all replicas.
    async fn count(&self, counter: &str) -> u64 {
        let mut sum = 0;
        for status in &self.statuses {
            let mut stream = tokio::net::TcpStream::connect(status).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: replica\r\nConnection: close\r\n\r\n").await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(counter)).unwrap();
            sum += line.trim().parse::<u64>().unwrap();
        }
        sum
    }

    /// Creates the pods, and prints what that cost.
    async fn measure(&self, writers: usize) {
        let before = self.cpu();
        let began = Instant::now();
        let timed = (0..PODS).map(|number| async move {
            let began = Instant::now();
            let created = self.try_pod(&format!("bench-{writers}-{number}"), number, false).await;
            let words = || self.servers.iter().map(Process::last_words).collect::<Vec<_>>().join("\n");
            created.unwrap_or_else(|error| panic!("{error}\n{}", words()));
            began.elapsed()
        });
        let mut times: Vec<Duration> = futures::stream::iter(timed).buffer_unordered(writers).collect().await;
        let rate = PODS as f64 / began.elapsed().as_secs_f64();
        times.sort_unstable();
        let at = |percent: usize| times[(PODS - 1) * percent / 100].as_secs_f64() * 1e3;
        let after = self.cpu();
        let cpu = |process: usize| (after[process] - before[process]).as_secs_f64() * 1e3 / PODS as f64;
        let name = self.row.name();
        println!(
            "| {name:18} | {writers:7} | {:7.1} | {:7.1} | {rate:6.0} | {:6.2} | {:10.2} | {:4.2} |",
            at(50),
            at(99),
            cpu(0),
            cpu(1),
            cpu(2)
        );
    }

    /// Every pod was charged, so that nothing was measured beside the point.
    async fn check(&self) {
        let created = PODS * WRITERS.len();
        match self.row {
            Row::Plugin | Row::Ledger => self.wait_for_used(created).await,
            Row::OneWrite => {
                let written =
                    Api::<DynamicObject>::namespaced_with(self.client.clone(), HOME, &resource("v1", "ConfigMap"));
                assert!(written.list(&ListParams::default()).await.unwrap().items.len() >= created);
            }
            Row::NoQuota | Row::AtOnce => {}
        }
    }
}

/// `HEADROOM_BENCH` is the folder of the optimized programs.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: make bench-ledger"]
async fn bench() {
    let Some(programs) = std::env::var_os("HEADROOM_BENCH").map(PathBuf::from) else { return };
    println!("| {:18} | writers | p50, ms | p99, ms |  pods/s | CPU ms | API server | etcd |", "");
    println!("|{:-<20}|--------:|--------:|--------:|--------:|-------:|-----------:|-----:|", "");
    let mut notes = Vec::new();
    for row in Row::ALL {
        let scene = Scene::start(row, &programs).await;
        for writers in WRITERS {
            let before = [scene.count(WRITES).await, scene.count(CONFLICTS).await];
            scene.measure(writers).await;
            if row == Row::Ledger {
                let [writes, conflicts] =
                    [scene.count(WRITES).await - before[0], scene.count(CONFLICTS).await - before[1]];
                notes.push(format!("{writers} writers: {PODS} pods took {writes} writes and {conflicts} conflicts"));
            }
        }
        scene.check().await;
    }
    println!("{}", notes.join("\n"));
}
