//! Kills the collector repeatedly during its work: no sample is lost or counted twice.
//!
//! Without the usual test harness, because this program is also its own child: a whole process must be killed, with its
//! buffers.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic on unexpected data")]

#[path = "../../collector/tests/collector/api_server.rs"]
#[expect(dead_code, reason = "this program needs a part of it")]
mod api_server;
#[path = "../../collector/tests/collector/support.rs"]
#[expect(dead_code, reason = "this program needs a part of it")]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api_server::ApiServer;
use headroom_fixtures::api_server::kubeconfig;
use serde_json::Value;
use support::*;
use tokio_util::sync::CancellationToken;

const IMAGES: usize = 1_000;
/// Fewer if most of the time is spent waiting for each other.
const SHARED_IMAGES: usize = 300;
const CHILD_STORE: &str = "HEADROOM_TEST_CHILD_STORE";
const KILLS: u32 = 15;

fn main() {
    if let Some(store) = std::env::var_os(CHILD_STORE) {
        return read_windows(Path::new(&store));
    }
    let tests: [(&str, fn()); 4] = [
        ("killed_while_reading_windows", killed_while_reading_windows),
        ("killed_while_importing_a_file", killed_while_importing_a_file),
        ("a_full_disk_is_named_and_overcome", a_full_disk_is_named_and_overcome),
        ("two_collectors_killed_while_they_publish", two_collectors_killed_while_they_publish),
    ];
    // Like the usual harness, for runners that first request a list and then run each test by its name.
    if std::env::args().any(|arg| arg == "--list") {
        let is_ordinary = !std::env::args().any(|arg| arg == "--ignored");
        tests.iter().filter(|_| is_ordinary).for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, test) in tests {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}

fn read_windows(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = open(folder);
    runtime.block_on(collect(&Scripted::new(three_workloads()), &store, &CancellationToken::new())).unwrap();
}

fn killed_while_reading_windows() {
    let folder = tempfile::tempdir().unwrap();
    kill_while(|name| {
        let this = std::env::current_exe().unwrap();
        Command::new(this).env(CHILD_STORE, folder.path().join(name)).stderr(Stdio::null()).spawn().unwrap()
    });
    let [calm, killed] = ["calm", "killed"].map(|name| published(&open(&folder.path().join(name)), NOW));
    assert!(calm == killed && calm.contains("docker,io/library/nginx"));
}

fn killed_while_importing_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("usage.csv");
    write_csv(&csv, IMAGES);
    kill_while(|name| import(&csv, &folder.path().join(name)).spawn().unwrap());
    assert!(read_folder(&folder.path().join("killed")) == read_folder(&folder.path().join("calm")));
}

fn a_full_disk_is_named_and_overcome() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("usage.csv");
    write_csv(&csv, IMAGES);
    let calm = folder.path().join("calm");
    assert!(import(&csv, &calm).spawn().unwrap().wait().unwrap().success());
    // A file size limit fails like a full disk, in the middle of a write. In units of 1 KiB, or 512 B.
    let full = folder.path().join("full");
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(r#"trap "" XFSZ; ulimit -f 1200; exec "$0" "$@""#);
    let inner = import(&csv, &full);
    limited.arg(inner.get_program()).args(inner.get_args());
    let output = limited.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("error: cannot write the store") && said.contains("make room"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    // With enough space, the next run continues.
    assert!(import(&csv, &full).spawn().unwrap().wait().unwrap().success());
    assert!(read_folder(&full) == read_folder(&calm));
}

/// Two collectors, each with its own store, write the profiles of one cluster; one of them sees only a tenth of the
/// usage. Each may replace what the other wrote. They are killed at any point, but never write at the same time, and the
/// final profiles are those of the collector that sees everything.
fn two_collectors_killed_while_they_publish() {
    const LEASE: Duration = Duration::from_secs(2);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (server, calm) = (ApiServer::new("1"), ApiServer::new("1"));
    let addresses = runtime.block_on(async { [server.listen().await, calm.listen().await] });
    let [url, url_of_calm] = addresses.map(|address| format!("http://{address}"));
    let contexts = [("server", url.as_str(), "default"), ("calm", &url_of_calm, "default")];
    fs::write(folder.join("kubeconfig"), kubeconfig(&contexts)).unwrap();
    write_csv(&folder.join("all.csv"), SHARED_IMAGES);
    write_csv(&folder.join("some.csv"), SHARED_IMAGES / 10);
    let start = |context: &str, store: &str, csv: &str| {
        Command::new(env!("CARGO_BIN_EXE_headroom-controller"))
            .args([
                "collect",
                "--rewrite-interval",
                "1s",
                "--lease",
                "2s",
                "--replace-other-stores",
                "--context",
                context,
                "--store",
            ])
            .arg(folder.join(store))
            .args(["files", "--buffer", "64Ki"])
            .arg(folder.join(csv))
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let begun = Instant::now();
    assert!(start("calm", "calm.redb", "all.csv").wait().unwrap().success());
    let whole = begun.elapsed();

    // So that much of the time is spent on writing.
    *server.delay.lock().unwrap() = Duration::from_millis(2);
    for kill in 0..KILLS {
        let mut all = start("server", "all.redb", "all.csv");
        let mut some = start("server", "some.redb", "some.csv");
        std::thread::sleep(whole * (kill * 7 % KILLS + 1) * 3 / KILLS);
        let (first, second) = if kill % 2 == 0 { (&mut all, &mut some) } else { (&mut some, &mut all) };
        first.kill().unwrap();
        first.wait().unwrap();
        // Now the other one may take the Lease.
        std::thread::sleep(whole + if kill % 4 == 0 { LEASE } else { Duration::ZERO });
        second.kill().unwrap();
        second.wait().unwrap();
    }
    for (store, csv) in [("some.redb", "some.csv"), ("all.redb", "all.csv")] {
        assert!(start("server", store, csv).wait().unwrap().success());
    }

    let writes = server.writes.lock().unwrap();
    let wrote: std::collections::BTreeSet<_> = writes.iter().map(|write| write.store.as_str()).collect();
    assert_eq!(wrote.len(), 2, "expected both to have written");
    for write in writes.iter() {
        assert!(write.holder.ends_with(&format!("_{}", write.store)), "{write:?}");
    }
    let histories = |server: &ApiServer| -> BTreeMap<_, _> {
        server.readable().iter().flat_map(|(name, profile)| by_owner(name, profile)).collect()
    };
    assert!(histories(&server) == histories(&calm));
    assert!(server.holder().is_empty());
}

/// Runs once undisturbed, and once killed repeatedly, at times spread over the duration of the first run.
fn kill_while(start: impl Fn(&str) -> Child) {
    let begun = Instant::now();
    assert!(start("calm").wait().unwrap().success());
    let whole = begun.elapsed();
    for kill in 0..KILLS {
        let mut child = start("killed");
        // Each part of the duration once, not in order.
        std::thread::sleep(whole * (kill * 7 % KILLS) / KILLS);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(start("killed").wait().unwrap().success());
}

fn import(csv: &Path, output: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom-controller"));
    command.args(["collect", "--as-of", "2026-11-21T00:00:00Z", "--store"]).arg(output.with_extension("redb"));
    command
        .arg("--output")
        .arg(output)
        .args(["files", "--buffer", "64Ki"])
        .arg(csv)
        .stderr(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A line for each of ten minutes and of many images, so that sums are committed many times.
fn write_csv(path: &Path, images: usize) {
    let mut text = String::from("time,namespace,pod,container,image,cpu,memory\n");
    for image in 0..images {
        for minute in 0..10 {
            let time = NOW - DAY + minute as i64 * 60;
            let name = format!("team-{},app-{image},main,shop/app-{}:1.{image}", image % 7, image % 500);
            text += &format!("{time},{name},0.{:03},{}Mi\n", (image * 7 + minute * 13) % 1000, 1 + image % 900);
        }
    }
    fs::write(path, text).unwrap();
}

/// The histories in the files of a folder.
fn read_folder(folder: &Path) -> BTreeMap<String, String> {
    let mut histories = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            histories.extend(read_folder(&path));
            continue;
        }
        let profile: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        histories.extend(by_owner(path.file_stem().unwrap().to_str().unwrap(), &profile));
    }
    assert!(!histories.is_empty());
    histories
}

/// The histories in an object by root, repository and owner, because each store spreads them over pages by a key of its own.
fn by_owner(name: &str, profile: &Value) -> Vec<(String, String)> {
    let root: Vec<_> = name.splitn(3, '-').take(2).collect();
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for (repository, image) in fields(&profile["spec"]["images"]) {
        let place = format!("{} {repository}", root.join("-"));
        found.extend(image.get("pool").map(|pool| (place.clone(), pool.to_string())));
        found.extend(
            fields(&image["own"]).into_iter().map(|(owner, own)| (format!("{place} {owner}"), own.to_string())),
        );
    }
    found
}
