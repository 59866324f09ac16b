//! What a collection from a real Prometheus costs, and whose work it is:
//! `cargo bench --profile native -p headroom-companion --bench prometheus`.
//!
//! Fills a Prometheus with days of usage (`promtool` makes the blocks), lets the real program read all but the last
//! hour, then the last hour. Reports samples a second, the processor time of both sides, and peak memory.
//! `HEADROOM_BENCH_DAYS` and `HEADROOM_BENCH_CONTAINERS` change its size.

#[path = "../tests/sources/servers.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it is the tests' own, who need more servers and may stop where one is not as it should be"
)]
mod servers;

use headroom_core::cluster::usage::find_in_usage;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use servers::{PrometheusServer, Server};

const NAMESPACES: u64 = 10;
const IMAGES: u64 = 40;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let (days, containers) = (setting("HEADROOM_BENCH_DAYS", 3)?, setting("HEADROOM_BENCH_CONTAINERS", 200)?);
    let to = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 60 * 60;
    let begun = Instant::now();
    let history = history(containers, to - days * 86_400, to);
    let server = PrometheusServer { history, ..PrometheusServer::default() }.start();
    println!(
        "{containers} containers in {NAMESPACES} namespaces, {days} days, scraped each minute (filled in {:.0} s)",
        begun.elapsed().as_secs_f64()
    );
    println!(
        "{:16}{:>12}{:>10}{:>14}{:>14}{:>16}{:>10}",
        "", "samples", "seconds", "samples/s", "our cpu s", "store's cpu s", "peak MB"
    );
    let folder = tempfile::tempdir()?;
    let days = days.to_string();
    let read = report("all but an hour", &server, folder.path(), &["--lag", "1h", "--days", &days], 0)?;
    report("the last hour", &server, folder.path(), &["--days", &days], read)?;
    Ok(())
}

fn setting(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => Ok(text.parse()?),
        Err(_) => Ok(default),
    }
}

/// CPU, memory and image of each container, as OpenMetrics text.
fn history(containers: u64, from: u64, to: u64) -> String {
    let place = |number: u64| {
        let (namespace, app) = (number % NAMESPACES, number % IMAGES);
        format!(r#"namespace="team-{namespace}",pod="app-{app}-{number}",container="main""#)
    };
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % 1000
    };
    let mut text = String::new();
    let _ = writeln!(text, "# TYPE container_cpu_usage_seconds counter");
    for number in 0..containers {
        let mut seconds = 0.0;
        for time in (from..=to).step_by(60) {
            let _ = writeln!(text, "container_cpu_usage_seconds_total{{{}}} {seconds:.3} {time}", place(number));
            seconds += (5 << (number % 8)) as f64 * 60.0 * (500 + next()) as f64 / 1e6;
        }
    }
    let _ = writeln!(text, "# TYPE container_memory_working_set_bytes gauge");
    for number in 0..containers {
        for time in (from..=to).step_by(60) {
            let bytes = (20 + number % 400) * 1024 * (900 + next() / 5);
            let _ = writeln!(text, "container_memory_working_set_bytes{{{}}} {bytes} {time}", place(number));
        }
    }
    let _ = writeln!(text, "# TYPE kube_pod_container_info gauge");
    for number in 0..containers {
        for time in (from..=to).step_by(60) {
            let image = number % IMAGES;
            let _ = writeln!(
                text,
                "kube_pod_container_info{{{},image_spec=\"registry.example/app-{image}:1.0\"}} 1 {time}",
                place(number)
            );
        }
    }
    text.push_str("# EOF\n");
    text
}

/// Runs the program; gives how many samples it has read by now, of which `known` were read before.
fn report(what: &str, server: &Server, folder: &Path, more: &[&str], known: u64) -> Result<u64> {
    let before = processor_seconds(server.child.id());
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
        .args(["collect", "prometheus", &server.url(), "--format", "json", "--store"])
        .arg(folder.join("usage.redb"))
        .arg("--output")
        .arg(folder.join("profiles"))
        .args(["--log", "json"])
        .args(more)
        .env("RUST_LOG", "error")
        .stderr(Stdio::inherit())
        .spawn()?;
    let (mut peak, mut ours) = (0, 0.0);
    let time = loop {
        // The kernel keeps both; they only have to be read before the process is gone.
        peak = high_water_mark(child.id()).max(peak);
        ours = processor_seconds(child.id()).max(ours);
        match child.try_wait()? {
            Some(status) if status.success() => break begun.elapsed().as_secs_f64(),
            Some(status) => return Err(format!("collect ended with {status}").into()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let theirs = processor_seconds(server.child.id()) - before;
    let all = samples(folder)?;
    let samples = all - known;
    println!(
        "{what:16}{samples:>12}{time:>10.2}{:>14.0}{ours:>14.2}{theirs:>16.2}{:>10}",
        samples as f64 / time,
        peak >> 10
    );
    Ok(all)
}

/// All samples that the namespaces' histories are made of.
fn samples(folder: &Path) -> Result<u64> {
    let mut samples = 0;
    for file in fs::read_dir(folder.join("profiles/headroom"))? {
        let profile: serde_json::Value = serde_json::from_slice(&fs::read(file?.path())?)?;
        let images = profile.pointer("/spec/images").and_then(serde_json::Value::as_object);
        let own =
            images.into_iter().flat_map(|images| images.values()).filter_map(|image| image.get("own")?.as_object());
        for histories in own.flat_map(|own| own.values()) {
            for resource in ["cpu", "memory"] {
                let usage = histories.pointer(&format!("/all/windows/7d/{resource}")).and_then(|usage| usage.as_str());
                let count = usage.and_then(|usage| find_in_usage(usage, "samples")?.parse::<u64>().ok());
                samples += count.unwrap_or_default();
            }
        }
    }
    Ok(samples)
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
