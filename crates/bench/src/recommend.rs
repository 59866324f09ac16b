//! Measures what recommending for a cluster costs, whose work it is, and how good the advice is: `make bench-recommend`.
//!
//! Fills a real Prometheus with days of usage of a cluster whose truth is known (`truth`), scraped each minute, and lets the
//! real program recommend for the workloads, which it reads from files. Reports wall time, processor time and memory of both
//! sides, queries and bytes on the wire, and compares the advice with the truth, also of the next week, beside the rules of
//! KRR and of the VerticalPodAutoscaler. `HEADROOM_BENCH_DAYS`, `HEADROOM_BENCH_WORKLOADS` (plain ones beside the special)
//! and `HEADROOM_BENCH_SEEDS` from `HEADROOM_BENCH_FIRST_SEED` on change its size.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]

mod truth;
mod wire;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::process::Stdio;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headroom_fixtures::process::peak_kib;
use headroom_fixtures::servers::{PrometheusServer, Server};

use self::truth::{Accuracy, Workload};
use self::wire::{Passed, Wire};
use crate::Result;
use crate::measure::{self, processor_seconds_of, program, setting};

/// A recommendation may move so many bytes for each container and day.
const MOST_BYTES: u64 = 5_000_000 / 600 / 14;
/// More queries than this before the first usage is read are too many.
const MOST_PROBING: usize = 9;

pub fn run() -> Result<()> {
    let (days, plain) = (setting("HEADROOM_BENCH_DAYS", 14)?, setting("HEADROOM_BENCH_WORKLOADS", 600)?);
    let to = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 300 * 300;
    let mut rules: [(&str, Accuracy); 4] =
        ["headroom", "flags for KRR", "krr simple", "vpa"].map(|name| (name, Accuracy::default()));
    let mut flags = truth::Flags::new();
    let first = setting("HEADROOM_BENCH_FIRST_SEED", 1)?;
    for seed in first..first + setting("HEADROOM_BENCH_SEEDS", 3)? {
        let is_first = seed == first;
        let workloads = truth::world(seed, days as usize * truth::DAY, if is_first { plain as usize } else { 0 });
        let (ours, like_krr) = of_world(&workloads, days, to)?;
        for of in workloads.iter().filter(|of| of.shape != "app") {
            let (advice, _) = ours.get(&of.name).cloned().unwrap_or_default();
            let (chosen, _) = like_krr.get(&of.name).cloned().unwrap_or_default();
            let all = [advice, chosen, of.krr(), of.vpa()];
            if all.iter().all(|(cpu, memory)| cpu.is_some() && memory.is_some()) {
                rules.iter_mut().zip(all).for_each(|((_, accuracy), advice)| accuracy.add(of, advice));
            }
        }
        let found = workloads.iter().map(|of| (of, ours.get(&of.name).map_or("", |(_, flags)| flags)));
        truth::count_flags(found, &mut flags);
    }
    println!(
        "\n{:24}{:>9}{:>10}{:>11}{:>12}{:>11}{:>10}{:>10}",
        "", "advised", "starved", "next week", "below peak", "next week", "cores", "GiB"
    );
    rules.iter().for_each(|(name, accuracy)| accuracy.print(name));
    println!("\n{:24}{:>9}{:>10}{:>11}", "flag", "right", "wrong", "missing");
    for (flag, [right, wrong, missing]) in &flags {
        println!(
            "{:24}{:>9}{:>10}{:>11}  {}",
            flag.trim(),
            right.len(),
            wrong.len(),
            missing.len(),
            [wrong.as_slice(), missing].concat().join(", ")
        );
    }
    let [(_, own), ..] = &rules;
    // In the small worlds of the tests, two workloads are already more than 1%.
    if own.starved.len() > (own.advised / 100).max(2) {
        return Err("the busiest pod of more than 1% of the workloads is starved".into());
    }
    if !own.below_peak.is_empty() {
        return Err(format!("less memory than the peak is recommended for {}", own.below_peak.join(", ")).into());
    }
    Ok(())
}

/// The advice and the flags for each workload.
type Advised = BTreeMap<String, (truth::Advice, String)>;

/// Lets the program recommend for a world, by default and by the flags of `migrate.md` for people of KRR.
fn of_world(workloads: &[Workload], days: u64, to: u64) -> Result<(Advised, Advised)> {
    let begun = Instant::now();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("history.om");
    truth::history(&mut BufWriter::with_capacity(1 << 20, File::create(&file)?), workloads, to - days * 86_400)?;
    let server = PrometheusServer { file: Some(file.clone()), ..PrometheusServer::default() }.start();
    fs::remove_file(&file)?;
    let world = folder.path().join("world");
    fs::create_dir(&world)?;
    fs::write(world.join("objects.yaml"), truth::objects(workloads))?;
    let settings = folder.path().join("settings.yaml");
    let now = jiff::Timestamp::from_second(i64::try_from(to)?)?;
    fs::write(&settings, format!("estimates: {{replayTime: \"{now}\"}}"))?;
    println!(
        "{} workloads with {} pods, {days} days, scraped each minute (filled in {:.0} s)",
        workloads.len(),
        workloads.iter().map(|of| of.pods.len()).sum::<usize>(),
        begun.elapsed().as_secs_f64()
    );
    println!(
        "{:24}{:>10}{:>12}{:>14}{:>10}{:>16}{:>9}{:>9}{:>8}",
        "", "seconds", "our cpu s", "store's cpu s", "peak MB", "store's peak MB", "queries", "probing", "MB"
    );
    let bench =
        Bench { server: &server, wire: Wire::before(server.port)?, folder: folder.path(), days: days.to_string() };
    let (passed, ours) = bench.report("default", &[])?;
    let (_, like_krr) = bench.report("flags for KRR", &KRR_FLAGS)?;
    check(&passed, workloads, days)?;
    Ok((ours, like_krr))
}

const KRR_FLAGS: [&str; 4] = ["--cpu", "p95+0%", "--memory", "peak+15%"];

impl Accuracy {
    fn print(&self, name: &str) {
        let Self { advised, starved, starved_next, below_peak, below_peak_next, cores, gibibytes } = self;
        println!(
            "{name:24}{advised:>9}{:>10}{:>11}{:>12}{below_peak_next:>11}{cores:>10.1}{gibibytes:>10.1}",
            starved.len(),
            starved_next.len(),
            below_peak.len(),
        );
        for (what, names) in [("starved", starved), ("starved next week", starved_next), ("below peak", below_peak)] {
            let shown = names.iter().take(12).map(String::as_str).collect::<Vec<_>>().join(", ");
            if !names.is_empty() {
                println!("  {what}: {shown}{}", if names.len() > 12 { ", ..." } else { "" });
            }
        }
    }
}

/// Checks that hold at any size of the bench.
fn check(passed: &Passed, workloads: &[Workload], days: u64) -> Result<()> {
    let pods: usize = workloads.iter().map(|of| of.pods.len()).sum();
    let most = MOST_BYTES * pods as u64 * days + 200_000;
    if passed.bytes > most {
        return Err(format!("{} bytes on the wire, more than {most}", passed.bytes).into());
    }
    if passed.before_usage() > MOST_PROBING {
        return Err(format!("{} queries before the first usage", passed.before_usage()).into());
    }
    Ok(())
}

struct Bench<'a> {
    server: &'a Server,
    wire: Wire,
    folder: &'a Path,
    days: String,
}

impl Bench<'_> {
    /// Runs the program once, and tells what that cost; returns what it advised.
    fn report(&self, what: &str, more: &[&str]) -> Result<(Passed, Advised)> {
        let store = self.server.child.0.id();
        let before = processor_seconds_of(store);
        self.wire.take();
        let mut command = program("kubectl-headroom");
        command
            .args(["recommend", "-A", "-o", "json", "--days", &self.days, "--cluster-dir"])
            .arg(self.folder.join("world"))
            .arg("--settings")
            .arg(self.folder.join("settings.yaml"))
            .args(["--prometheus", &format!("http://127.0.0.1:{}", self.wire.port)])
            .args(more)
            .env("KUBECONFIG", "/dev/null")
            .stdout(File::create(self.folder.join("report.json"))?)
            .stderr(Stdio::inherit());
        let cost = measure::run(&mut command)?;
        let passed = self.wire.take();
        let of_store = processor_seconds_of(store) - before;
        println!(
            "{what:24}{:>10.2}{:>12.2}{of_store:>14.2}{:>10}{:>16}{:>9}{:>9}{:>8.2}",
            cost.time.as_secs_f64(),
            cost.processor_seconds,
            cost.peak_kib >> 10,
            peak_kib(store).unwrap_or_default() >> 10,
            passed.queries.len(),
            passed.before_usage(),
            passed.bytes as f64 / 1e6
        );
        let report = serde_json::from_slice(&fs::read(self.folder.join("report.json"))?)?;
        Ok((passed, truth::advice(&report)))
    }
}
