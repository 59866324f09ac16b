//! The program as in a cluster: probes, metrics, signals, and the arguments in the manifests.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headroom_admission::cluster::usage::profile_layout::key_of;
use headroom_admission::cluster::usage::{ProfileName, Root};
use headroom_fixtures::process::peak_kib;
use headroom_fixtures::servers::{free_port, request};

use crate::{DAY, NOW, collect};

/// Collects from the file of a folder, and answers at a port.
fn start(folder: &Path, every: &str, stderr: Stdio) -> (Child, u16) {
    let port = free_port();
    let mut program = collect(folder);
    program.args(["--every", every, &format!("--listen=127.0.0.1:{port}"), "files"]).arg(folder.join("usage.csv"));
    (program.stderr(stderr).spawn().unwrap(), port)
}

fn wait_for(port: u16, path: &str, expected: &str) {
    let begun = Instant::now();
    loop {
        let answer = request(port, "GET", path, b"").unwrap_or_default();
        if answer.0 == 200 && answer.1.contains(expected) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{path} responds {answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn it_collects_answers_probes_and_stops_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("usage.csv");
    let header = "time,namespace,pod,container,image,cpu,memory\n";
    fs::write(&csv, format!("{header}{},shop,web-0,web,nginx,1,1Gi\n", NOW - DAY)).unwrap();
    let (mut program, port) = start(folder.path(), "1s", Stdio::piped());
    let answer = |path: &str, expected: &str| wait_for(port, path, expected);
    answer("/healthz", "");
    answer("/metrics", "\nheadroom_collector_samples_total 2\n");
    answer("/metrics", "\nheadroom_collector_profiles_total{result=\"written\"} 256\n");
    // New lines of the file are read in the next round.
    let mut file = fs::File::options().append(true).open(&csv).unwrap();
    writeln!(file, "{},shop,web-1,web,nginx,2,2Gi", NOW - DAY).unwrap();
    answer("/metrics", "\nheadroom_collector_samples_total 4\n");
    answer("/metrics", "\nheadroom_collector_profiles_total{result=\"written\"} 257\n");
    assert!(fs::read_to_string(folder.path().join("profiles/headroom/usage-26.c.yaml")).unwrap().contains("peak: 2Gi"));

    assert!(Command::new("kill").arg(program.id().to_string()).status().unwrap().success());
    assert!(program.wait().unwrap().success());
    let log = std::io::read_to_string(program.stderr.take().unwrap()).unwrap();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["level"] == "INFO", "{line}");
    }
    assert!(log.contains(r#""message":"received a stop signal""#));
}

#[test]
fn a_repository_with_many_tags_needs_little_memory() {
    const TAGS: usize = 25_000;
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("usage.csv");
    let mut text = String::from("time,namespace,pod,container,image,cpu,memory\n");
    // Like a CI system: each build has its own tag and runs for some minutes.
    for tag in 0..TAGS {
        for minute in 0..3 {
            let time = NOW - 20 * DAY + tag as i64 * 60 + minute * 60;
            let amount = 1 + (tag * 31 + minute as usize * 7) % 2000;
            text += &format!("{time},ci,build-{tag},main,registry.example/ci/build:{tag},0.{amount:04},{amount}Mi\n");
        }
    }
    fs::write(&csv, text).unwrap();
    let (mut program, port) = start(folder.path(), "1h", Stdio::null());
    wait_for(port, "/metrics", "headroom_collector_runs_total{result=\"done\"} 1\n");
    let peak = peak_kib(program.id()).unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    const IMAGE: &str = "registry.example/ci/build";
    let file = format!("profiles/headroom/{}.yaml", ProfileName::of(Root::of(IMAGE), "ci"));
    let text = fs::read_to_string(folder.path().join(file)).unwrap();
    let profile: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let histories = &profile["spec"]["images"][key_of(IMAGE)]["own"]["ci"];
    let tags: Vec<_> = histories["tags"].as_object().unwrap().keys().collect();
    assert!((3..=8).contains(&tags.len()), "{tags:?}");
    let newest: Vec<_> = (TAGS - tags.len()..TAGS).map(|tag| tag.to_string()).collect();
    assert_eq!(tags, newest.iter().collect::<Vec<_>>());
    assert_eq!(profile["spec"]["summary"]["droppedTags"], TAGS - tags.len());
    assert_eq!(histories["all"]["windows"]["30d"]["cpu"]["samples"], 75_000, "{histories}");
    assert!(peak < 100 << 10, "{} MB", peak >> 10);
}
