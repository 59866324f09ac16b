//! Measures what Headroom costs in clusters of 20 to 5,000 nodes: `make sizing`, which writes the table of the book.
//!
//! The programs are the real ones. What they read is made by a formula (`world`): a metrics store, and an API server with pods of
//! six kilobytes. The store of the collector is filled with 30 days beforehand, and what is measured is the second hour
//! after that. Every figure must grow at most as fast as the cluster does. The largest cluster is where a straight line through
//! the two before leads; how far off such a line would have been at the largest that is measured stands beside it.
//! Times are processor times and memory is the most that was resident, so that other work on the machine changes little.
//! Other sizes than those of the page leave it alone. 5,000 need 20 GB of memory and as much of disk.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
#![expect(clippy::indexing_slicing, reason = "a benchmark may stop where something is not as it made it")]

mod world;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flate2::read::GzDecoder;
use headroom_collector::store::Store;
use headroom_fixtures::process::{Running, peak_kib};
use headroom_fixtures::{api_server, servers, workspace_file};
use headroom_quota_server::tls;
use headroom_usage::batch::Gathered;
use headroom_usage::sample::{Batch, Resource, Sample, SampledContainer, Series, Window};
use headroom_usage::{DAY, day_of};
use tokio::runtime::Runtime;

use self::world::{PODS, Passed, World};
use crate::Result;
use crate::measure::{self, Cost, processor_seconds_of, program};

/// A figure may grow by so much more than the cluster, because measurements vary.
const TOLERANCE: f64 = 1.25;
/// Days of history in the store, and how far apart their samples are.
const DAYS: i64 = 30;
const STEP: i64 = 900;
/// The cluster that is computed from the others.
const LARGEST: u64 = 5_000;
const PAGE: &str = "docs/src/concepts/sizing.md";
const BEGIN: &str = "<!-- sizing: written by make sizing -->\n";
const END: &str = "<!-- end of sizing -->";

/// Without `chosen` sizes, those of the page, which is written.
pub fn run(chosen: Vec<u64>) -> Result<()> {
    let is_for_page = chosen.is_empty();
    let sizes = if is_for_page { vec![20, 100, 1_000] } else { chosen };
    let mut table = Table { sizes, figures: Vec::new() };
    for nodes in table.sizes.clone() {
        let begun = Instant::now();
        for (name, value) in Scene::new(nodes)?.measure()? {
            table.add(name, value);
        }
        eprintln!("{nodes} nodes measured in {:.0} s", begun.elapsed().as_secs_f64());
    }
    let text = table.markdown();
    print!("{text}");
    table.check()?;
    if is_for_page {
        let page = fs::read_to_string(workspace_file(PAGE))?;
        let (before, rest) = page.split_once(BEGIN).ok_or("the page has no place for the table")?;
        let (_, after) = rest.split_once(END).ok_or("the page has no end of the table")?;
        fs::write(workspace_file(PAGE), format!("{before}{BEGIN}\n{text}\n{END}{after}"))?;
    }
    Ok(())
}

type Figures = Vec<(&'static str, f64)>;

/// A cluster, and the servers that stand for it.
struct Scene {
    world: Arc<World>,
    folder: tempfile::TempDir,
    metrics: u16,
    _runtime: Runtime,
    /// The end of the history in the store.
    end: i64,
}

impl Scene {
    fn new(nodes: u64) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
        let (world, folder) = (World::new(nodes), tempfile::tempdir()?);
        let metrics = world.serve_metrics(&runtime)?;
        let api = format!("http://127.0.0.1:{}", world.serve_api(&runtime)?);
        fs::write(folder.path().join("kubeconfig"), api_server::kubeconfig(&[("bench", &api, "default")]))?;
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
        // So that the hours that follow are read in one window each, and are over.
        let end = (now.div_euclid(6 * 3600) - 1) * 6 * 3600;
        Ok(Self { world, folder, metrics, _runtime: runtime, end })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str) -> Command {
        let mut command = program(name);
        command.env("KUBECONFIG", self.file("kubeconfig")).env("RUST_LOG", "error");
        command
    }

    fn measure(&self) -> Result<Figures> {
        let mut figures =
            vec![("namespaces", self.world.namespaces as f64), ("pods", (self.world.namespaces * PODS) as f64)];
        self.fill_store("usage.redb")?;
        self.collect("usage.redb", self.end + 3600, &[])?;
        self.world.take();
        let cost = self.collect("usage.redb", self.end + 7200, &[])?;
        figures.extend(self.of_collector(&cost, self.world.take())?);
        figures.extend(self.of_policy_server());
        figures.extend(self.of_ledger()?);
        figures.extend(self.of_resizer()?);
        figures.extend(self.of_snapshot()?);
        figures.extend(self.of_page()?);
        figures.extend(self.first_run()?);
        Ok(figures)
    }

    /// The history before the first hour that is read.
    fn fill_store(&self, name: &str) -> Result<()> {
        let store = Store::open(&self.file(name))?;
        let first = day_of(self.end - DAYS * DAY);
        for day in first..=day_of(self.end - 1) {
            let window = Window { from: i64::from(day) * DAY, to: self.end.min(i64::from(day + 1) * DAY) };
            let mut gathered = Gathered::default();
            for namespace in 0..self.world.namespaces {
                for container in self.world.containers(namespace, window.from, window.from + 1) {
                    let times = (window.from..window.to).step_by(STEP as usize).filter(|time| container.runs_at(*time));
                    let usage: Vec<_> =
                        times.map(|time| (time, self.world.usage(namespace, &container, time))).collect();
                    let name = world::namespace(namespace);
                    let place = SampledContainer::of([&name, &container.pod, "main", &container.image]);
                    let of = |resource, samples| Series { container: place.clone(), resource, samples };
                    let sample = |time: &i64, value: u64| Sample { time: *time, value, seconds: STEP as u64 };
                    let cpu = usage.iter().map(|(time, (micros, _))| sample(time, micros * 1000));
                    let memory = usage.iter().map(|(time, (_, bytes))| sample(time, *bytes));
                    let series = vec![of(Resource::Cpu, cpu.collect()), of(Resource::Memory, memory.collect())];
                    gathered.take(Batch::Usage(series), window);
                }
            }
            store.add_present(window, &gathered, None)?;
        }
        Ok(())
    }

    /// Reads what is new by the clock of the metrics store, and publishes.
    fn collect(&self, store: &str, now: i64, more: &[&str]) -> Result<Cost> {
        self.world.now.store(now + 120, Ordering::Relaxed);
        let mut command = self.program("headroom-controller");
        command.args(["collect", "prometheus", &format!("http://127.0.0.1:{}", self.metrics), "--store"]);
        measure::run(command.arg(self.file(store)).args(more).stderr(Stdio::inherit()))
    }

    /// The cost of reading as many days as the first run reads, by that of one.
    fn first_run(&self) -> Result<[(&'static str, f64); 4]> {
        self.world.take();
        let cost = self.collect("first.redb", self.end.div_euclid(DAY) * DAY, &["--days", "1"])?;
        let read = self.world.take();
        let megabytes = |of_day: u64| (of_day * DAYS as u64) as f64 / 1e6;
        Ok([
            ("first run, modelled: queries", (read.queries * DAYS as u64) as f64),
            ("first run, modelled: MB from the metrics store, compressed", megabytes(read.query_bytes)),
            ("first run, modelled: MB of it unpacked", megabytes(read.unpacked_bytes)),
            ("first run, modelled: CPU, h", cost.processor_seconds / 3600.0 * DAYS as f64),
        ])
    }

    fn of_collector(&self, cost: &Cost, hour: Passed) -> Result<Figures> {
        let (objects, bytes) = self.world.stored("/apis/headroom.dev/v1alpha1/namespaces/headroom/usageprofiles/");
        Ok(vec![
            ("collector: CPU, s/h", cost.processor_seconds),
            ("collector: memory, MiB", cost.peak_kib as f64 / 1024.0),
            ("collector: disk, MB", fs::metadata(self.file("usage.redb"))?.len() as f64 / 1e6),
            ("metrics store: queries/h", hour.queries as f64),
            ("metrics store: MB/h, compressed", hour.query_bytes as f64 / 1e6),
            ("API server: reads/h", hour.reads as f64),
            ("API server: MB read/h", hour.read_bytes as f64 / 1e6),
            ("API server: objects written/h", hour.writes as f64),
            ("API server: MB written/h", hour.written_bytes as f64 / 1e6),
            ("etcd: objects of history", objects as f64),
            ("etcd: MB of history", bytes as f64 / 1e6),
        ])
    }

    /// Size of the lists that the policy server caches once each namespace has seen a pod.
    fn of_policy_server(&self) -> Figures {
        let lists = ["/api/v1/limitranges", "/api/v1/resourcequotas"];
        let objects = lists.iter().filter_map(|list| self.world.made(list));
        let bytes: usize = objects.flat_map(|(count, object)| (0..count).map(move |number| object(number).len())).sum();
        vec![
            ("policy server: watches", (lists.len() as u64 * self.world.namespaces) as f64),
            ("policy server: MB of JSON kept", bytes as f64 / 1e6),
        ]
    }

    /// A replica that leads, until it has counted all pods.
    fn of_ledger(&self) -> Result<Figures> {
        let made = tls::make(&["127.0.0.1".to_owned()], self.end, 2)?;
        fs::write(self.file("tls.crt"), made.certificate)?;
        fs::write(self.file("tls.key"), made.key)?;
        let (reviews, status) = (servers::free_port(), servers::free_port());
        let mut command = self.program("headroom-controller");
        command.args(["enforce-quotas", "--no-configure"]).arg("--tls").arg(self.file("."));
        command.args([format!("--listen=127.0.0.1:{reviews}"), format!("--listen-status=127.0.0.1:{status}")]);
        let running = Running(command.stderr(Stdio::inherit()).spawn()?);
        let counted = format!("headroom_ledger_objects {}\n", self.world.namespaces * PODS);
        let begun = Instant::now();
        while !servers::request(status, "GET", "/metrics", b"").is_ok_and(|(_, text)| text.contains(&counted)) {
            if begun.elapsed() > Duration::from_secs(600) {
                return Err("the ledger has not counted all pods in ten minutes".into());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let (objects, bytes) = self.world.stored("/apis/headroom.dev/v1alpha1/namespaces/headroom/quotaledgers/");
        Ok(vec![
            ("ledger: CPU to count all pods, s", processor_seconds_of(running.0.id())),
            ("ledger: memory, MiB", peak_kib(running.0.id()).unwrap_or_default() as f64 / 1024.0),
            ("ledger: objects", objects as f64),
            ("ledger: MB in etcd", bytes as f64 / 1e6),
        ])
    }

    /// The second pass over the cluster, which finds nothing remembered but what was said.
    fn of_resizer(&self) -> Result<Figures> {
        let port = servers::free_port();
        self.world.take();
        let mut command = self.program("headroom-controller");
        // Two passes must not end in the same second, by which they are told apart.
        command.args(["resize", "--every", "3s", "--listen-status", &format!("127.0.0.1:{port}")]);
        let running = Running(command.stderr(Stdio::inherit()).spawn()?);
        let ended = || {
            let (_, text) = servers::request(port, "GET", "/metrics", b"").ok()?;
            let line =
                text.lines().find_map(|line| line.strip_prefix("headroom_resize_last_pass_timestamp_seconds "))?;
            line.parse::<u64>().ok().filter(|at| *at > 0)
        };
        let begun = Instant::now();
        let wait = |before: Option<u64>| loop {
            match ended() {
                Some(at) if Some(at) != before => return Ok(Some(at)),
                _ if begun.elapsed() > Duration::from_secs(1800) => return Err("two passes take half an hour"),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let first = wait(None)?;
        let (before, first_pass) = (processor_seconds_of(running.0.id()), self.world.take());
        wait(first)?;
        let (processor_seconds, pass) = (processor_seconds_of(running.0.id()) - before, self.world.take());
        let [from, to] = pass.between.ok_or("a pass reads nothing")?;
        Ok(vec![
            ("resizer: s of a pass", (to - from).as_secs_f64()),
            ("resizer: CPU of a pass, s", processor_seconds),
            ("resizer: memory, MiB", peak_kib(running.0.id()).unwrap_or_default() as f64 / 1024.0),
            ("resizer: reads of a pass", pass.reads as f64),
            ("resizer: MB read of a pass", pass.read_bytes as f64 / 1e6),
            ("resizer: Events of the first pass", first_pass.writes as f64),
        ])
    }

    fn of_snapshot(&self) -> Result<Figures> {
        let mut command = self.program("kubectl-headroom");
        let file = self.file("snapshot.json");
        self.world.take();
        let cost = measure::run(command.args(["snapshot", "-A", "-o"]).arg(&file).stdout(Stdio::null()))?;
        let bytes = fs::metadata(&file)?.len();
        fs::remove_file(file)?;
        Ok(vec![
            ("snapshot: CPU, s", cost.processor_seconds),
            ("snapshot: memory, MiB", cost.peak_kib as f64 / 1024.0),
            ("snapshot: MB read from the API server", self.world.take().read_bytes as f64 / 1e6),
            ("snapshot: MB", bytes as f64 / 1e6),
        ])
    }

    /// The server of the page, until a browser has read the cluster once.
    fn of_page(&self) -> Result<Figures> {
        let site = self.file("site");
        fs::create_dir(&site)?;
        fs::write(site.join("index.html"), "<html lang=\"en\">")?;
        let mut command = self.program("kubectl-headroom");
        command.args(["ui", "-A"]).env("HEADROOM_PAGE", site).stdout(Stdio::piped());
        let mut running = Running(command.spawn()?);
        let mut said = String::new();
        BufReader::new(running.0.stdout.take().ok_or("no output")?).read_line(&mut said)?;
        let url = said.split(' ').find_map(|word| word.strip_prefix("http://")).ok_or("no address")?;
        let begun = Instant::now();
        // As the page does, both at once.
        let (first_rows, cluster) = std::thread::scope(|scope| {
            let rows = scope.spawn(|| get(&format!("{url}rows.json")).ok().map(|_| begun.elapsed()));
            let cluster = get(&format!("{url}cluster.json"));
            (rows.join().ok().flatten().ok_or("no rows"), cluster)
        });
        let (compressed, answer) = cluster?;
        let of_first = processor_seconds_of(running.0.id());
        self.world.take();
        // Tabs that ask sooner get the same answer.
        std::thread::sleep(Duration::from_secs(11));
        get(&format!("{url}cluster.json"))?;
        let minute = self.world.take();
        Ok(vec![
            ("ui: reads of the API server/h", (minute.reads * 60) as f64),
            ("ui: MB read from the API server/h", (minute.read_bytes * 60) as f64 / 1e6),
            ("ui: s until the first rows", first_rows?.as_secs_f64()),
            ("ui: CPU of the first reading, s", of_first),
            ("ui: CPU of a later one, s", processor_seconds_of(running.0.id()) - of_first),
            ("ui: memory, MiB", peak_kib(running.0.id()).unwrap_or_default() as f64 / 1024.0),
            ("ui: MB to the browser, compressed", compressed as f64 / 1e6),
            ("ui: MB in the browser", answer as f64 / 1e6),
        ])
    }
}

/// The length of a good answer, as it is sent and as it is read.
fn get(url: &str) -> Result<(u64, u64)> {
    let (address, path) = url.split_once('/').ok_or("no path")?;
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let (mut stream, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head)? > 0 {}
    if !head.contains(" 200 ") {
        return Err(format!("the page answers {head}").into());
    }
    let mut sent = Vec::new();
    stream.read_to_end(&mut sent)?;
    let read = io::copy(&mut GzDecoder::new(sent.as_slice()), &mut io::sink())?;
    Ok((sent.len() as u64, read))
}

struct Table {
    /// In nodes.
    sizes: Vec<u64>,
    /// One value for each size.
    figures: Vec<(&'static str, Vec<f64>)>,
}

impl Table {
    fn add(&mut self, name: &'static str, value: f64) {
        match self.figures.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => self.figures.push((name, vec![value])),
        }
    }

    /// Where a straight line through two neighbouring sizes is at another one.
    fn on_line(&self, values: &[f64], first: usize, nodes: u64) -> Option<f64> {
        let at = |place: usize| Some((*self.sizes.get(place)? as f64, *values.get(place)?));
        let ((from, before), (to, after)) = (at(first)?, at(first + 1)?);
        Some(before + (after - before) / (to - from) * (nodes as f64 - from))
    }

    /// With the largest cluster by the last two sizes, and without the smallest, which `check` needs.
    fn markdown(&self) -> String {
        let mut text = String::from("| nodes |");
        self.sizes.iter().skip(1).for_each(|nodes| _ = write!(text, " {} |", shown(*nodes as f64)));
        _ = write!(text, " {} (model) |\n|---|", shown(LARGEST as f64));
        self.sizes.iter().for_each(|_| text.push_str("--:|"));
        text.push('\n');
        for (name, values) in &self.figures {
            _ = write!(text, "| {name} |");
            values.iter().skip(1).for_each(|value| _ = write!(text, " {} |", shown(*value)));
            let largest = self.sizes.len().checked_sub(2).and_then(|place| self.on_line(values, place, LARGEST));
            // A line that falls says only that the cluster does not matter.
            let largest = largest.map(|line| values.iter().copied().fold(line, f64::max));
            _ = writeln!(text, " {} |", largest.map(shown).unwrap_or_default());
        }
        text
    }

    /// Nothing grows faster than the cluster.
    fn check(&self) -> Result<()> {
        let mut faster = Vec::new();
        for (name, values) in &self.figures {
            for (sizes, values) in self.sizes.windows(2).zip(values.windows(2)) {
                let ([small, large], [before, after]) = (sizes, values) else { continue };
                // Small figures are mostly of things that every cluster has, and of rounding.
                // The file of the store doubles when it is full.
                let steps = if name.contains("disk") { 2.0 } else { 1.0 };
                if *after > 10.0 && after / before > steps * TOLERANCE * *large as f64 / *small as f64 {
                    faster.push(format!("{name}: {before} at {small} nodes, {after} at {large}"));
                }
            }
        }
        if faster.is_empty() {
            Ok(())
        } else {
            Err(format!("grows faster than the cluster: {}", faster.join("; ")).into())
        }
    }
}

/// With three digits or more, and commas between thousands.
fn shown(value: f64) -> String {
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let groups: Vec<&str> =
        whole.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",") + rest
}
