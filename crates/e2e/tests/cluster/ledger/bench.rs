//! The cost of an admission with the ledger, beside the API server's own plugin and beside the least that any webhook costs,
//! with the same pods, namespace, controllers, certificates and processors. The servers are optimized builds in processes of
//! their own.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt;
use headroom_e2e::cluster::api_in;
use headroom_e2e::control_plane::Controllers;
use kube::api::ListParams;

use super::scene::{HOME, Row, Scene};

/// Pods created by each number of writers.
const PODS: usize = 1_000;
const WRITERS: [usize; 3] = [1, 10, 50];
/// Namespaces with a quota each, to see what grows with them.
const GROWTH: [usize; 2] = [100, 1_000];
const GROWTH_PODS: u32 = 500;
const IDLE_SECONDS: u32 = 10;
const WRITES: &str = "headroom_ledger_writes_total";
const CONFLICTS: &str = "headroom_ledger_conflicts_total";

impl Scene {
    /// Processor time of the servers, the API server and etcd.
    fn cpu(&self) -> [Duration; 3] {
        let [api_server, etcd] = self.cluster.control_plane.as_ref().unwrap().cpu().unwrap();
        [self.servers.iter().map(|server| server.cpu()).sum(), api_server, etcd]
    }

    /// The sum of a counter of all replicas.
    fn count(&self, counter: &str) -> u64 {
        let mut sum = 0;
        for server in &self.servers {
            let text = server.address.metrics();
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
        let [p50, p99] = self.time(&format!("bench-{writers}"), servers.into_iter().enumerate(), writers).await;
        let rate = PODS as f64 / began.elapsed().as_secs_f64();
        let (after, recounted) = (self.cpu(), counts());
        let cpu = |process: usize| (after[process] - before[process]).as_secs_f64() * 1e3 / PODS as f64;
        let of_ledger = |count: usize| match is_of_ledger {
            true => (recounted[count] - counted[count]).to_string(),
            false => String::new(),
        };
        println!(
            "| {:30} | {writers:7} | {p50:7.1} | {p99:7.1} | {rate:6.0} | {:10.2} | {:17.2} | {:11.2} | {:>6} | {:>9} |",
            self.row.name(),
            cpu(0),
            cpu(1),
            cpu(2),
            of_ledger(0),
            of_ledger(1)
        );
    }

    /// Creates pods, each with its number and a server, so many at once. Returns median and 99th percentile of the times in ms.
    async fn time(&self, name: &str, pods: impl Iterator<Item = (usize, usize)>, at_once: usize) -> [f64; 2] {
        let timed = pods.map(|(number, server)| async move {
            let began = Instant::now();
            let created = self.try_pod(&format!("{name}-{number}"), number, server).await;
            let words = || self.servers.iter().map(|server| server.last_words()).collect::<Vec<_>>().join("\n");
            created.unwrap_or_else(|error| panic!("{error}\n{}", words()));
            began.elapsed()
        });
        let mut times: Vec<Duration> = futures::stream::iter(timed).buffer_unordered(at_once).collect().await;
        times.sort_unstable();
        [50, 99].map(|percent| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3)
    }

    /// Kills a replica and starts it again. Returns how long it took until it was ready, and until its first admission.
    async fn restart(&mut self) -> [Duration; 2] {
        self.servers[0].kill();
        let began = Instant::now();
        self.servers[0].run().await;
        let is_ready = began.elapsed();
        self.try_pod("first", 0, 0).await.unwrap();
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
        let pods = (0..GROWTH_PODS as usize).map(|number| (number * 7, number % 2));
        let [p50, p99] = self.time("growth", pods, 10).await;
        let admission = (own() - before) / GROWTH_PODS;
        println!(
            "| {:31} | {:10} | {:11.1} | {:10.1} | {p50:7.1} | {p99:7.1} | {:10.2} |",
            self.row.name(),
            self.namespaces.len(),
            in_force.as_secs_f64(),
            idle.as_secs_f64() * 1e3,
            admission.as_secs_f64() * 1e3
        );
    }

    /// Every pod was charged, so that nothing was measured beside the point.
    async fn check(&self) {
        let created = PODS * WRITERS.len();
        match self.row {
            Row::NoQuota | Row::AtOnce => {}
            Row::OneWrite => {
                let written = api_in(&self.client, HOME, "v1", "ConfigMap");
                assert!(written.list(&ListParams::default()).await.unwrap().items.len() >= created);
            }
            _ => self.wait_for_used(created).await,
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
