//! The program as it runs in a cluster: probes, metrics, signals, and the arguments that the manifests give it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::*;

fn get(address: &str, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).ok()?;
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn it_collects_answers_probes_and_ends_well_when_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("usage.csv");
    let header = "time,namespace,pod,container,image,cpu,memory\n";
    fs::write(&csv, format!("{header}{},shop,web-0,web,nginx,1,1Gi\n", NOW - DAY)).unwrap();
    // Free now; nobody else is likely to take it before the program does.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
        .args(["collect", "--every", "1s", "--as-of", "2026-11-21T00:00:00Z", "--listen", &address, "--output"])
        .arg(folder.path().join("profiles"))
        .arg("--store")
        .arg(folder.path().join("usage.redb"))
        .arg("files")
        .arg(&csv)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let answer = |path: &str, expected: &str| {
        let begun = Instant::now();
        loop {
            let answer = get(&address, path).unwrap_or_default();
            if answer.contains(expected) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{path} says {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    answer("/healthz", "200 OK");
    answer("/metrics", "\nheadroom_collector_samples_total 2\n");
    answer("/metrics", "\nheadroom_collector_profiles_total{result=\"written\"} 2\n");
    // What the file has more is read in the next round.
    let mut file = fs::File::options().append(true).open(&csv).unwrap();
    writeln!(file, "{},shop,web-1,web,nginx,2,2Gi", NOW - DAY).unwrap();
    answer("/metrics", "\nheadroom_collector_samples_total 4\n");
    answer("/metrics", "\nheadroom_collector_profiles_total{result=\"written\"} 4\n");
    assert!(fs::read_to_string(folder.path().join("profiles/shop/usage.yaml")).unwrap().contains(" peak=2Gi "));

    assert!(Command::new("kill").arg(program.id().to_string()).status().unwrap().success());
    assert!(program.wait().unwrap().success());
    let mut log = String::new();
    program.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["level"] == "INFO", "{line}");
    }
    assert!(log.contains(r#""message":"told to stop""#));
}

#[test]
fn a_moment_given_by_hand_destroys_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let csv = folder.join("usage.csv");
    let header = "time,namespace,pod,container,image,cpu,memory\n";
    fs::write(&csv, format!("{header}{},shop,web-0,web,nginx,1,1Gi\n", NOW - DAY)).unwrap();
    let collect = |more: &[&str], output: &str| {
        Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
            .arg("collect")
            .args(more)
            .arg("--store")
            .arg(folder.join("usage.redb"))
            .arg("--output")
            .arg(folder.join(output))
            .arg("files")
            .arg(&csv)
            .output()
            .unwrap()
    };
    let read = |output: &str| fs::read_to_string(folder.join(output).join("shop/usage.yaml"));
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(collect(&[], "profiles").status.success());
    let before = read("profiles").unwrap();
    for as_of in ["2006-11-21T00:00:00Z", "2062-11-21T00:00:00Z"] {
        let done = collect(&["--as-of", as_of], "elsewhere");
        assert!(done.status.success(), "{}", said(&done));
        let done = collect(&[], "profiles");
        assert!(done.status.success(), "{}", said(&done));
        assert_eq!(read("profiles").unwrap(), before, "after --as-of {as_of}");
    }
    fs::remove_dir_all(folder.join("profiles")).unwrap();
    assert!(collect(&[], "profiles").status.success());
    assert_eq!(read("profiles").unwrap(), before, "the store has all that it had");
    let refused = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
        .args(["collect", "--as-of", "2062-11-21T00:00:00Z", "files"])
        .arg(&csv)
        .output()
        .unwrap();
    assert!(said(&refused).contains("--as-of 2062-11-21T00:00:00Z is in the future"), "{}", said(&refused));
}
