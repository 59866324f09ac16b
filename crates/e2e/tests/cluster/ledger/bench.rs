//! The cost of an admission with the ledger, beside the API server's own plugin, with the same pods, namespace, controllers,
//! certificates and processors. The servers are optimized builds in processes of their own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt;
use headroom_admission::amount::Quantity;
use headroom_e2e::certificate;
use headroom_e2e::cluster::{Cluster, api, api_in, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins, free_port};
use headroom_e2e::process::Process;
use headroom_fixtures::servers::request;
use headroom_quota_server::objects::PLAN_LABEL;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use super::replicas::{free_address, install_definitions, webhooks};
use crate::objects;

/// Pods created by each number of writers.
const PODS: usize = 1_000;
const WRITERS: [usize; 3] = [1, 10, 50];
/// In rows with several tenants.
const TENANTS: usize = 10;
const NAMESPACES_OF_EACH: usize = 100;
/// Namespaces with a quota each, to see what grows with them.
const GROWTH: [usize; 2] = [100, 1_000];
const GROWTH_PODS: u32 = 500;
const IDLE_SECONDS: u32 = 10;
/// The common quota of the tenants.
const ROOT: &str = "all";
/// The namespace of ledgers.
const HOME: &str = "headroom-ledger";
const WRITES: &str = "headroom_ledger_writes_total";
const CONFLICTS: &str = "headroom_ledger_conflicts_total";
/// The label by which a pod calls one of two servers, as a Service spreads calls.
pub const SERVER: &str = "server";
/// A second quota, which bounds no pods.
pub const SERVICES: &str = "services";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Row {
    NoQuota,
    /// A ResourceQuota in each of this many namespaces, which the plugin enforces.
    Plugin(usize),
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
    const ALL: [Self; 6] = [Self::NoQuota, Self::Plugin(1), Self::Ledger, Self::OneOfMany, Self::Trees, Self::Shares];

    pub fn name(self) -> &'static str {
        match self {
            Self::NoQuota => "no quota",
            Self::Plugin(_) => "in-tree plugin",
            Self::Ledger => "ledger",
            Self::OneOfMany => "10 tenants, ledger, 1 quota",
            Self::Trees => "10 tenants, ledger, 10 trees",
            Self::Shares => "10 tenants, ledger, 10 shares",
            Self::OfEach(_) => "TenantQuota for each namespace",
            Self::ResourceQuotas(_) => "ResourceQuota in each namespace",
            Self::BesidePlugin(_) => "TenantQuotas beside the plugin",
        }
    }

    fn is_of_ledger(self) -> bool {
        !matches!(self, Self::NoQuota | Self::Plugin(_))
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
    servers: Vec<Server>,
    /// With their tenants.
    pub namespaces: Vec<(String, String)>,
    cluster: Cluster,
    pub client: Client,
    files: tempfile::TempDir,
}

struct Server {
    process: Process,
    arguments: Vec<String>,
    /// The port where a replica of the ledger shows its metrics.
    status: u16,
}

impl Scene {
    pub async fn start(row: Row, controllers: Controllers, optimized: Option<&Path>) -> Self {
        let has_plugin = matches!(row, Row::Plugin(_) | Row::BesidePlugin(_));
        let plugins = if has_plugin { InTreePlugins::On } else { InTreePlugins::Off };
        let cluster = Cluster::start(plugins, controllers).await.unwrap();
        let client = cluster.client().await.unwrap();
        let (namespaces, files) = (row.namespaces(), tempfile::tempdir().unwrap());
        let mut scene = Self { row, servers: Vec::new(), namespaces, cluster, client, files };
        scene.add_namespaces().await;
        if row.is_of_ledger() {
            install_definitions(&scene.cluster);
            scene.serve(optimized).await;
        }
        scene
    }

    pub async fn create(&self, object: Value) {
        create(&self.client, object).await.unwrap();
    }

    /// Creates the namespaces, and waits until the controllers have done their work with them.
    async fn add_namespaces(&self) {
        let home = (HOME.to_owned(), HOME.to_owned());
        let names = self.namespaces.iter().chain([&home]).map(|(name, tenant)| {
            let metadata = json!({"name": name, "labels": {"tenant": tenant}});
            self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
        });
        futures::stream::iter(names).buffer_unordered(10).collect::<Vec<()>>().await;
        let deadline = Instant::now() + Duration::from_secs(120);
        let accounts = api(&self.client, "v1", "ServiceAccount");
        let of_namespaces = ListParams::default().fields("metadata.name=default");
        while accounts.list(&of_namespaces).await.unwrap().items.len() <= self.namespaces.len() {
            assert!(Instant::now() < deadline, "the controllers have not made all service accounts");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Starts two replicas, optimized if there is a folder of such programs, and waits until the API server calls them.
    async fn serve(&mut self, optimized: Option<&Path>) {
        let program = optimized.map(|programs| programs.join("headroom-controller"));
        let program = program.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_headroom-controller-under-test")));
        let certificate = certificate::for_server(&["127.0.0.1"]).unwrap();
        let folder = self.files.path().to_str().unwrap().to_owned();
        std::fs::write(self.files.path().join("tls.crt"), certificate.certificate).unwrap();
        std::fs::write(self.files.path().join("tls.key"), certificate.key).unwrap();
        let addresses = [free_address(), free_address()];
        let labels = |server: usize| json!({SERVER: server.to_string()});
        self.create(webhooks(&certificate.authority, addresses, &["pods", "services"], ("objectSelector", &labels)))
            .await;
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.has_answers().await != [false, false] {
            assert!(Instant::now() < deadline, "the API server does not call the webhook");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Written once: a server that starts reads it.
        let kubeconfig = format!("KUBECONFIG={}", self.cluster.kubeconfig_file().unwrap().display());
        let mut servers = Vec::new();
        for address in addresses {
            let status = free_port().unwrap();
            let (own, pages) = (address.to_string(), format!("127.0.0.1:{status}"));
            let mut all = vec![&kubeconfig, program.to_str().unwrap(), "enforce-quotas", "--no-configure"];
            all.extend(["--namespace", HOME, "--tls", &folder, "--listen", &own, "--listen-status", &pages]);
            if matches!(self.row, Row::ResourceQuotas(_)) {
                all.push("--resource-quotas");
            }
            let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
            servers.push(Server { process: self.run(&all), arguments: all, status });
        }
        while self.has_answers().await != [true, true] {
            assert!(Instant::now() < deadline, "{}", servers[0].process.last_words());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.servers = servers;
    }

    fn run(&self, arguments: &[String]) -> Process {
        Process::start(Path::new("env"), arguments, self.files.path()).unwrap()
    }

    /// True for each server that answers the API server.
    async fn has_answers(&self) -> [bool; 2] {
        [self.try_pod("probe", 0, 0, true).await.is_ok(), self.try_pod("probe", 0, 1, true).await.is_ok()]
    }

    /// Quotas on pods, and waits until they are enforced.
    pub async fn add_quotas(&self, pods: &str) {
        let hard = json!({"pods": pods});
        let quota = |name: &str, mut spec: Value| {
            spec["quota"] = json!({"hard": hard});
            self.create(json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota",
                "metadata": {"name": name}, "spec": spec}))
        };
        match self.row {
            Row::NoQuota => return,
            Row::OfEach(_) | Row::BesidePlugin(_) => {
                let all = self.namespaces.iter().map(|(name, _)| quota(name, json!({"namespaces": {"names": [name]}})));
                futures::stream::iter(all).buffer_unordered(10).collect::<Vec<()>>().await;
            }
            Row::Plugin(_) | Row::ResourceQuotas(_) => {
                let all = self.namespaces.iter().map(|(name, _)| self.create(objects::quota(name, hard.clone())));
                futures::stream::iter(all).buffer_unordered(10).collect::<Vec<()>>().await;
            }
            Row::Ledger | Row::OneOfMany => {
                let selector = json!({"matchExpressions": [{"key": "tenant", "operator": "Exists"}]});
                quota("team", json!({"namespaces": {"selector": selector}})).await;
            }
            Row::Trees | Row::Shares => {
                let is_below = self.row == Row::Shares;
                if is_below {
                    quota(ROOT, json!({})).await;
                }
                for tenant in (0..TENANTS).map(|tenant| format!("team-{tenant}")) {
                    let mut spec = json!({"namespaces": {"selector": {"matchLabels": {"tenant": tenant}}}});
                    if is_below {
                        spec["parent"] = json!(ROOT);
                    }
                    quota(&tenant, spec).await;
                }
            }
        }
        self.wait_for_used(0).await;
        if let Row::ResourceQuotas(namespaces) = self.row {
            self.wait_for_ledgers(namespaces).await;
        }
    }

    /// Waits until the ledger enforces ResourceQuotas. Their usage is counted by the API server's controllers too, and the ledger
    /// first makes sure for ten seconds that the plugin is off.
    async fn wait_for_ledgers(&self, ledgers: usize) {
        let stored = api_in(&self.client, HOME, "headroom.dev/v1alpha1", "QuotaLedger");
        let states = ListParams::default().labels(PLAN_LABEL);
        let deadline = Instant::now() + Duration::from_secs(120);
        while stored.list_metadata(&states).await.unwrap().items.len() < ledgers {
            assert!(Instant::now() < deadline, "there are not {ledgers} ledgers");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until the quotas have counted this many pods.
    async fn wait_for_used(&self, pods: usize) {
        let quotas: Api<DynamicObject> = match self.row {
            Row::Plugin(_) | Row::ResourceQuotas(_) => api(&self.client, "v1", "ResourceQuota"),
            _ => api(&self.client, "headroom.dev/v1alpha1", "TenantQuota"),
        };
        let expected: Quantity = pods.to_string().parse().unwrap();
        let deadline =
            Instant::now() + Duration::from_secs(120) + Duration::from_millis(100) * self.namespaces.len() as u32;
        loop {
            let listed = quotas.list(&ListParams::default()).await.unwrap();
            let of_tenants = listed
                .items
                .iter()
                .filter(|quota| !matches!(quota.metadata.name.as_deref(), Some(ROOT | "headroom-probe" | SERVICES)));
            // Kubernetes writes 3k for 3000.
            let used = |quota: &DynamicObject| quota.data["status"]["used"]["pods"].as_str()?.parse::<Quantity>().ok();
            let used: Option<Vec<Quantity>> = of_tenants.map(used).collect();
            let sum = used.map(|used| used.iter().fold(Quantity::ZERO, |sum, used| sum.plus(used)));
            if sum.as_ref() == Some(&expected) {
                return;
            }
            assert!(Instant::now() < deadline, "{pods} pods are not counted, but {sum:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn try_pod(
        &self,
        name: &str,
        number: usize,
        server: usize,
        dry_run: bool,
    ) -> kube::Result<DynamicObject> {
        let (namespace, _) = &self.namespaces[number % self.namespaces.len()];
        let mut pod = objects::pod(namespace, name, json!({}));
        pod["metadata"]["labels"] = json!({SERVER: server.to_string()});
        let pods = api_in(&self.client, namespace, "v1", "Pod");
        pods.create(&PostParams { dry_run, ..PostParams::default() }, &serde_json::from_value(pod).unwrap()).await
    }

    /// Processor time of the servers, the API server and etcd.
    fn cpu(&self) -> [Duration; 3] {
        let [api_server, etcd] = self.cluster.control_plane.as_ref().unwrap().cpu().unwrap();
        [self.servers.iter().map(|server| server.process.cpu().unwrap()).sum(), api_server, etcd]
    }

    /// The sum of a counter of all replicas.
    fn count(&self, counter: &str) -> u64 {
        let mut sum = 0;
        for Server { status, .. } in &self.servers {
            let (_, text) = request(*status, "GET", "/metrics", b"").unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(counter)).unwrap();
            sum += line.trim().parse::<u64>().unwrap();
        }
        sum
    }

    /// Creates the pods, and prints what that cost.
    async fn measure(&self, writers: usize) {
        let is_of_ledger = self.row.is_of_ledger();
        let counts = || match is_of_ledger {
            true => [self.count(WRITES), self.count(CONFLICTS)],
            false => [0, 0],
        };
        let (before, counted) = (self.cpu(), counts());
        // Any server is called for any pod, as by a Service. The seed makes the calls the same in every row.
        let mut random = fastrand::Rng::with_seed(1);
        let servers: [usize; PODS] = std::array::from_fn(|_| random.usize(..2));
        let began = Instant::now();
        let timed = servers.into_iter().enumerate().map(|(number, server)| async move {
            let began = Instant::now();
            let created = self.try_pod(&format!("bench-{writers}-{number}"), number, server, false).await;
            let words = || self.servers.iter().map(|server| server.process.last_words()).collect::<Vec<_>>().join("\n");
            created.unwrap_or_else(|error| panic!("{error}\n{}", words()));
            began.elapsed()
        });
        let mut times: Vec<Duration> = futures::stream::iter(timed).buffer_unordered(writers).collect().await;
        let rate = PODS as f64 / began.elapsed().as_secs_f64();
        times.sort_unstable();
        let at = |percent: usize| times[(PODS - 1) * percent / 100].as_secs_f64() * 1e3;
        let (after, recounted) = (self.cpu(), counts());
        let cpu = |process: usize| (after[process] - before[process]).as_secs_f64() * 1e3 / PODS as f64;
        let of_ledger = |count: usize| match is_of_ledger {
            true => (recounted[count] - counted[count]).to_string(),
            false => String::new(),
        };
        println!(
            "| {:30} | {writers:7} | {:7.1} | {:7.1} | {rate:6.0} | {:10.2} | {:17.2} | {:11.2} | {:>6} | {:>9} |",
            self.row.name(),
            at(50),
            at(99),
            cpu(0),
            cpu(1),
            cpu(2),
            of_ledger(0),
            of_ledger(1)
        );
    }

    /// Kills a replica and starts it again. Returns how long it took until it was ready, and until its first admission.
    async fn restart(&mut self) -> [Duration; 2] {
        let Server { process, arguments, status } = self.servers.remove(0);
        drop(process);
        let began = Instant::now();
        let process = self.run(&arguments);
        while !matches!(request(status, "GET", "/readyz", b""), Ok((200, _))) {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", process.last_words());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let is_ready = began.elapsed();
        self.servers.insert(0, Server { process, arguments, status });
        self.try_pod("first", 0, 0, false).await.unwrap();
        [is_ready, began.elapsed()]
    }

    /// Prints what a quota for each namespace costs.
    async fn measure_growth(&self, in_force: Duration) {
        let own = || self.cpu()[0];
        // The leader's work after a change ends.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = own();
        tokio::time::sleep(Duration::from_secs(IDLE_SECONDS.into())).await;
        let idle = (own() - before) / IDLE_SECONDS;
        let before = own();
        let timed = (0..GROWTH_PODS).map(|number| async move {
            let began = Instant::now();
            self.try_pod(&format!("growth-{number}"), number as usize * 7, number as usize % 2, false).await.unwrap();
            began.elapsed()
        });
        let mut times: Vec<Duration> = futures::stream::iter(timed).buffer_unordered(10).collect().await;
        let admission = (own() - before) / GROWTH_PODS;
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        println!(
            "| {:31} | {:10} | {:11.1} | {:10.1} | {:7.1} | {:7.1} | {:10.2} |",
            self.row.name(),
            self.namespaces.len(),
            in_force.as_secs_f64(),
            idle.as_secs_f64() * 1e3,
            at(50),
            at(99),
            admission.as_secs_f64() * 1e3
        );
    }

    /// Every pod was charged, so that nothing was measured beside the point.
    async fn check(&self) {
        if self.row != Row::NoQuota {
            self.wait_for_used(PODS * WRITERS.len()).await;
        }
    }
}

/// `HEADROOM_BENCH` is the folder of the optimized programs, `HEADROOM_BENCH_ROWS` a part of the names of wanted rows.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: make bench-ledger"]
async fn bench() {
    let Some(programs) = std::env::var_os("HEADROOM_BENCH").map(PathBuf::from) else { return };
    println!(
        "| {:30} | writers | p50, ms | p99, ms | pods/s | own CPU ms | API server CPU ms | etcd CPU ms | writes | conflicts |",
        ""
    );
    println!(
        "|{:-<32}|--------:|--------:|--------:|-------:|-----------:|------------------:|------------:|-------:|----------:|",
        ""
    );
    let wanted = std::env::var("HEADROOM_BENCH_ROWS").unwrap_or_default();
    let mut starts = vec![
        format!("| {:30} | namespaces | ready, ms | first admission, ms |", ""),
        format!("|{:-<32}|-----------:|----------:|--------------------:|", ""),
    ];
    for row in Row::ALL.into_iter().filter(|row| row.name().contains(&wanted)) {
        let mut scene = Scene::start(row, Controllers::On, Some(&programs)).await;
        scene.add_quotas("100000").await;
        for writers in WRITERS {
            scene.measure(writers).await;
        }
        scene.check().await;
        if row.is_of_ledger() {
            let [ready, admitted] = scene.restart().await.map(|time| time.as_millis());
            starts.push(format!("| {:30} | {:10} | {ready:9} | {admitted:19} |", row.name(), scene.namespaces.len()));
        }
    }
    println!("\nFrom the start of a replica, with {} pods:\n", PODS * WRITERS.len());
    println!("{}", starts.join("\n"));
}

/// `HEADROOM_BENCH_NAMESPACES` are other numbers of namespaces.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: make bench-ledger"]
async fn bench_of_growth() {
    let Some(programs) = std::env::var_os("HEADROOM_BENCH").map(PathBuf::from) else { return };
    let sizes: Vec<usize> = match std::env::var("HEADROOM_BENCH_NAMESPACES") {
        Ok(sizes) => sizes.split(',').map(|size| size.parse().unwrap()).collect(),
        Err(_) => GROWTH.to_vec(),
    };
    println!("| {:31} | namespaces | in force, s | idle, ms/s | p50, ms | p99, ms | own CPU ms |", "");
    println!("|{:-<33}|-----------:|------------:|-----------:|--------:|--------:|-----------:|", "");
    let wanted = std::env::var("HEADROOM_BENCH_ROWS").unwrap_or_default();
    for row in [Row::OfEach, Row::ResourceQuotas] {
        for row in sizes.iter().map(|size| row(*size)).filter(|row| row.name().contains(&wanted)) {
            let scene = Scene::start(row, Controllers::On, Some(&programs)).await;
            let began = Instant::now();
            scene.add_quotas("100000").await;
            scene.measure_growth(began.elapsed()).await;
        }
    }
}
