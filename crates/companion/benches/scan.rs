//! What a scan of a large cluster costs, and whose work it is: `make bench-scan`.
//!
//! Fills a real Prometheus with days of usage, scraped each minute, and lets the real program scan the workloads, which it
//! reads from files. Reports wall time, the processor time of both sides, and peak memory. `HEADROOM_BENCH_DAYS` and
//! `HEADROOM_BENCH_WORKLOADS` change its size; `HEADROOM_BENCH_HOLD=1` leaves Prometheus running until Enter is pressed,
//! so that another tool can be run on the same data.

#[path = "../tests/sources/servers.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it is the tests' own, who need more servers and may stop where one is not as it should be"
)]
mod servers;

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use servers::{PrometheusServer, Server};

const NAMESPACES: u64 = 20;
const SCRAPE: u64 = 60;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let (days, workloads) = (setting("HEADROOM_BENCH_DAYS", 14)?, setting("HEADROOM_BENCH_WORKLOADS", 1_000)?);
    let to = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / SCRAPE * SCRAPE;
    let begun = Instant::now();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("history.om");
    history(&file, workloads, to - days * 86_400, to)?;
    let server = PrometheusServer { file: Some(file.clone()), ..PrometheusServer::default() }.start();
    fs::remove_file(&file)?;
    let world = folder.path().join("world");
    fs::create_dir(&world)?;
    objects(&world.join("objects.yaml"), workloads)?;
    println!(
        "{workloads} workloads in {NAMESPACES} namespaces, {days} days, scraped each minute (filled in {:.0} s)",
        begun.elapsed().as_secs_f64()
    );
    println!("{:24}{:>10}{:>12}{:>16}{:>10}", "", "seconds", "our cpu s", "store's cpu s", "peak MB");
    let days = days.to_string();
    for (what, more) in [("step 5m (default)", vec![]), ("step 1m", vec!["--step", "1m"])] {
        report(what, &server, &world, &[["--days", &days].as_slice(), &more].concat())?;
    }
    if std::env::var_os("HEADROOM_BENCH_HOLD").is_some() {
        println!("Prometheus is at {} until Enter is pressed", server.url());
        std::io::stdin().read_line(&mut String::new())?;
    }
    Ok(())
}

fn setting(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => Ok(text.parse()?),
        Err(_) => Ok(default),
    }
}

fn pod(number: u64) -> String {
    format!("app-{number}-6d4cf56db6-x7x2k")
}

/// CPU and memory of each container, and what kube-state-metrics tells, as OpenMetrics text.
fn history(file: &Path, workloads: u64, from: u64, to: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let place =
        |number: u64| format!(r#"namespace="team-{}",pod="{}",container="main""#, number % NAMESPACES, pod(number));
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % 1000
    };
    let times = || (from..=to).step_by(SCRAPE as usize);
    writeln!(out, "# TYPE container_cpu_usage_seconds counter")?;
    for number in 0..workloads {
        let (mut milliseconds, labels) = (0, place(number));
        for time in times() {
            writeln!(
                out,
                "container_cpu_usage_seconds_total{{{labels}}} {}.{:03} {time}",
                milliseconds / 1000,
                milliseconds % 1000
            )?;
            milliseconds += (5 << (number % 8)) * SCRAPE * (500 + next()) / 1000;
        }
    }
    writeln!(out, "# TYPE container_memory_working_set_bytes gauge")?;
    for number in 0..workloads {
        let labels = place(number);
        for time in times() {
            let bytes = (20 + number % 400) * 1024 * (900 + next() / 5);
            writeln!(out, "container_memory_working_set_bytes{{{labels}}} {bytes} {time}")?;
        }
    }
    writeln!(out, "# TYPE kube_pod_container_info gauge")?;
    for number in 0..workloads {
        for time in (to - 3_600..=to).step_by(SCRAPE as usize) {
            writeln!(
                out,
                "kube_pod_container_info{{{},image_spec=\"example.com/app-{number}:1\"}} 1 {time}",
                place(number)
            )?;
        }
    }
    writeln!(out, "# TYPE kube_pod_owner gauge")?;
    for number in 0..workloads {
        let namespace = number % NAMESPACES;
        writeln!(
            out,
            r#"kube_pod_owner{{namespace="team-{namespace}",pod="{}",owner_kind="ReplicaSet",owner_name="app-{number}-6d4cf56db6"}} 1 {to}"#,
            pod(number)
        )?;
    }
    writeln!(out, "# TYPE kube_replicaset_owner gauge")?;
    for number in 0..workloads {
        let namespace = number % NAMESPACES;
        writeln!(
            out,
            r#"kube_replicaset_owner{{namespace="team-{namespace}",replicaset="app-{number}-6d4cf56db6",owner_kind="Deployment",owner_name="app-{number}"}} 1 {to}"#
        )?;
    }
    writeln!(out, "# EOF")?;
    Ok(out.flush()?)
}

/// The workloads with their ReplicaSets and pods, and the rules of their namespaces.
fn objects(file: &Path, workloads: u64) -> Result<()> {
    let mut text = String::new();
    for namespace in 0..NAMESPACES {
        write!(
            text,
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{namespace}}}\n---\n\
             apiVersion: v1\nkind: LimitRange\nmetadata: {{name: limits, namespace: team-{namespace}}}\n\
             spec: {{limits: [{{type: Container, max: {{memory: 8Gi}}}}]}}\n---\n\
             apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: team, namespace: team-{namespace}}}\n\
             spec: {{hard: {{requests.cpu: \"100\"}}}}\n\
             status: {{hard: {{requests.cpu: \"100\"}}, used: {{requests.cpu: \"25\"}}}}\n---\n"
        )?;
    }
    for number in 0..workloads {
        let namespace = number % NAMESPACES;
        let resources = "{requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}";
        write!(
            text,
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: app-{number}, namespace: team-{namespace}}}\n\
             spec: {{replicas: 1, template: {{spec: {{containers: [{{name: main, image: \"example.com/app-{number}:1\", \
             resources: {resources}}}]}}}}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: {}, namespace: team-{namespace}, ownerReferences: [{{apiVersion: \
             apps/v1, kind: ReplicaSet, name: app-{number}-6d4cf56db6, controller: true}}]}}\nstatus: {{phase: Running}}\n---\n",
            pod(number)
        )?;
    }
    Ok(fs::write(file, text)?)
}

fn report(what: &str, server: &Server, world: &Path, more: &[&str]) -> Result<()> {
    let before = processor_seconds(server.child.id());
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
        .args(["scan", "-A", "-o", "json", "--prometheus", &server.url(), "--cluster-dir"])
        .arg(world)
        .args(more)
        .env("KUBECONFIG", "/dev/null")
        .stdout(File::create(world.with_extension("json"))?)
        .stderr(Stdio::inherit())
        .spawn()?;
    let (mut peak, mut ours) = (0, 0.0);
    let time = loop {
        // The kernel keeps both; they only have to be read before the process is gone.
        peak = high_water_mark(child.id()).max(peak);
        ours = processor_seconds(child.id()).max(ours);
        match child.try_wait()? {
            Some(status) if status.success() => break begun.elapsed().as_secs_f64(),
            Some(status) => return Err(format!("scan ended with {status}").into()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let theirs = processor_seconds(server.child.id()) - before;
    println!("{what:24}{time:>10.2}{ours:>12.2}{theirs:>16.2}{:>10}", peak >> 10);
    let found: serde_json::Value = serde_json::from_slice(&fs::read(world.with_extension("json"))?)?;
    let without = found.pointer("/total/withoutAdvice").and_then(serde_json::Value::as_u64);
    if without != Some(0) { Err(format!("{without:?} containers are without advice").into()) } else { Ok(()) }
}

/// User and system time of a process, counted by Linux in hundredths of a second.
fn processor_seconds(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn high_water_mark(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    mark.and_then(|mark| mark.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or_default()
}
