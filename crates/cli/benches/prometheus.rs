//! What a collection from a real Prometheus costs, and whose work it is:
//! `cargo bench --profile native -p headroom-cli --bench prometheus`.
//!
//! Fills a Prometheus with days of usage (`promtool` makes the blocks), lets the real program read all but the last
//! hour, then the last hour. Reports samples a second, the processor time of both sides, and peak memory.
//! `HEADROOM_BENCH_DAYS` and `HEADROOM_BENCH_CONTAINERS` change its size.

mod measure;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headroom_fixtures::servers::{PrometheusServer, Server};
use measure::{Result, processor_seconds_of, setting};

const NAMESPACES: u64 = 10;
const IMAGES: u64 = 40;

fn main() -> Result<()> {
    if !measure::is_asked_for() {
        return Ok(());
    }
    let (days, containers) = (setting("HEADROOM_BENCH_DAYS", 3)?, setting("HEADROOM_BENCH_CONTAINERS", 200)?);
    let to = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 60 * 60;
    let begun = Instant::now();
    let history = history(containers, to - days * 86_400, to)?;
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

/// CPU, memory and image of each container, as OpenMetrics text.
fn history(containers: u64, from: u64, to: u64) -> Result<String> {
    let place = |number: u64| {
        let (namespace, app) = (number % NAMESPACES, number % IMAGES);
        format!(r#"namespace="team-{namespace}",pod="app-{app}-{number}",container="main""#)
    };
    let times = || (from..=to).step_by(60);
    let mut text = Vec::new();
    usage(&mut text, containers, place, times())?;
    writeln!(text, "# TYPE kube_pod_container_info gauge")?;
    for number in 0..containers {
        for time in times() {
            let (place, image) = (place(number), number % IMAGES);
            writeln!(
                text,
                "kube_pod_container_info{{{place},image_spec=\"registry.example/app-{image}:1.0\"}} 1 {time}"
            )?;
        }
    }
    writeln!(text, "# EOF")?;
    Ok(String::from_utf8(text)?)
}

/// Runs the program; gives how many samples it has read by now, of which `known` were read before.
fn report(what: &str, server: &Server, folder: &Path, more: &[&str], known: u64) -> Result<u64> {
    let before = processor_seconds_of(server.child.id());
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom-controller"));
    command
        .args(["collect", "prometheus", &server.url(), "--format", "json", "--store"])
        .arg(folder.join("usage.redb"))
        .arg("--output")
        .arg(folder.join("profiles"))
        .args(["--log", "json"])
        .args(more)
        .env("RUST_LOG", "error")
        .stderr(Stdio::inherit());
    let cost = measure::run(&mut command)?;
    let theirs = processor_seconds_of(server.child.id()) - before;
    let all = samples(folder)?;
    let samples = all - known;
    let time = cost.time.as_secs_f64();
    println!(
        "{what:16}{samples:>12}{time:>10.2}{:>14.0}{:>14.2}{theirs:>16.2}{:>10}",
        samples as f64 / time,
        cost.processor_seconds,
        cost.peak_kib >> 10
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
                let count = histories.pointer(&format!("/all/windows/7d/{resource}/samples"));
                samples += count.and_then(serde_json::Value::as_u64).unwrap_or_default();
            }
        }
    }
    Ok(samples)
}

/// CPU and memory of so many containers at some times, a minute apart, as OpenMetrics text.
fn usage(
    out: &mut impl Write,
    containers: u64,
    labels: impl Fn(u64) -> String,
    times: impl Iterator<Item = u64> + Clone,
) -> io::Result<()> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % 1000
    };
    writeln!(out, "# TYPE container_cpu_usage_seconds counter")?;
    for number in 0..containers {
        let (mut milliseconds, labels) = (0, labels(number));
        for time in times.clone() {
            let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
            writeln!(out, "container_cpu_usage_seconds_total{{{labels}}} {seconds}.{rest:03} {time}")?;
            milliseconds += (5 << (number % 8)) * 60 * (500 + next()) / 1000;
        }
    }
    writeln!(out, "# TYPE container_memory_working_set_bytes gauge")?;
    for number in 0..containers {
        let labels = labels(number);
        for time in times.clone() {
            let bytes = (20 + number % 400) * 1024 * (900 + next() / 5);
            writeln!(out, "container_memory_working_set_bytes{{{labels}}} {bytes} {time}")?;
        }
    }
    Ok(())
}
