//! Kills the collector repeatedly during its work: no sample is lost or counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headroom_fixtures::api_server::{ApiServer, Outcome, kubeconfig};
use headroom_fixtures::process::{KILLS, kill_repeatedly};
use headroom_usage::profile::layout::paths;
use serde_json::{Value, json};

use crate::{DAY, NOW};

const IMAGES: usize = 1_000;
/// Fewer if most of the time is spent waiting for each other.
const SHARED_IMAGES: usize = 300;
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/headroom/leases/headroom-collector";
const PROFILES: &str = "/apis/headroom.dev/v1alpha1/namespaces/headroom/usageprofiles";

#[test]
fn a_killed_import_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("csv");
    write_csv(&csv, IMAGES);
    kill_repeatedly(|name| import(&csv, &folder.path().join(name)).spawn().unwrap());
    assert!(read_folder(&folder.path().join("killed")) == read_folder(&folder.path().join("calm")));
}

#[test]
fn a_full_disk_is_named_and_overcome() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("csv");
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

/// The store and the holder of the Lease at each write.
type Writes = Arc<Mutex<Vec<[String; 2]>>>;

/// An API server that records the store and the holder of the Lease at each write of a profile.
fn recording_server() -> (Arc<ApiServer>, Writes) {
    let (server, writes) = (ApiServer::new(), Writes::default());
    let metadata = json!({"name": "kube-system", "uid": "1", "creationTimestamp": "2026-01-02T03:04:05Z"});
    server.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    server.serve("headroom.dev/v1alpha1", "UsageProfile", true);
    let (within, written) = (Arc::downgrade(&server), Arc::clone(&writes));
    server.on_request(move |request| {
        if let Some(server) = within.upgrade().filter(|_| request.method == "PATCH") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let store = text(&request.body["metadata"]["annotations"]["headroom.dev/store"]);
            written.lock().unwrap().push([store, holder(&server)]);
        }
        Outcome::Serve
    });
    (server, writes)
}

fn holder(server: &ApiServer) -> String {
    let holder = server.get(LEASE).map(|lease| lease["spec"]["holderIdentity"].clone()).unwrap_or_default();
    holder.as_str().unwrap_or_default().to_owned()
}

/// Two collectors, each with its own store, write the profiles of one cluster; one of them sees only a tenth of the
/// usage. Each may replace what the other wrote. They are killed at any point, but never write at the same time, and the
/// final profiles are those of the collector that sees everything.
#[test]
fn two_collectors_killed_while_they_publish_never_write_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ((server, writes), (calm, _)) = (recording_server(), recording_server());
    let [url, url_of_calm] = [&server, &calm].map(ApiServer::listen);
    let contexts = [("server", url.as_str(), "default"), ("calm", &url_of_calm, "default")];
    fs::write(folder.join("kubeconfig"), kubeconfig(&contexts)).unwrap();
    write_csv(&folder.join("all"), SHARED_IMAGES);
    write_csv(&folder.join("some"), SHARED_IMAGES / 10);
    let start = |context: &str, store: &str, csv: &str| -> Child {
        Command::new(env!("CARGO_BIN_EXE_headroom-controller"))
            .args(["collect", "--adopt", "--context", context, "--store"])
            .arg(folder.join(store))
            .arg("files")
            .args(files_of(&folder.join(csv)))
            .env("HOSTNAME", store)
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    // As if the Lease of one that was killed had run out.
    let expire = |killed: &str| {
        if holder(&server).starts_with(killed) {
            server.edit(LEASE, &json!({"spec": {"holderIdentity": ""}}));
        }
    };
    let begun = Instant::now();
    assert!(start("calm", "calm.redb", "all").wait().unwrap().success());
    let whole = begun.elapsed();

    // So that much of the time is spent on writing.
    server.delay(2..=2);
    for kill in 0..KILLS {
        let mut all = start("server", "all.redb", "all");
        let mut some = start("server", "some.redb", "some");
        std::thread::sleep(whole * (kill * 7 % KILLS + 1) * 3 / KILLS);
        let mut both = [(&mut all, "all.redb"), (&mut some, "some.redb")];
        if kill % 2 == 1 {
            both.reverse();
        }
        let [(first, killed), (second, other)] = both;
        first.kill().unwrap();
        first.wait().unwrap();
        if kill % 4 == 0 {
            expire(killed);
        }
        std::thread::sleep(whole + if kill % 4 == 0 { Duration::from_secs(2) } else { Duration::ZERO });
        second.kill().unwrap();
        second.wait().unwrap();
        expire(killed);
        expire(other);
    }
    for (store, csv) in [("some.redb", "some"), ("all.redb", "all")] {
        assert!(start("server", store, csv).wait().unwrap().success());
    }

    let writes = writes.lock().unwrap();
    let stores: BTreeSet<_> = writes.iter().map(|[store, _]| store.as_str()).collect();
    assert_eq!(stores.len(), 2, "expected both to have written");
    for [store, holder] in writes.iter() {
        assert!(holder.ends_with(&format!("_{store}")), "{store} {holder}");
    }
    assert!(histories(&server) == histories(&calm));
    assert!(holder(&server).is_empty());
}

fn import(csv: &Path, output: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom-controller"));
    command.args(["collect", "--store"]).arg(output.with_extension("redb"));
    command.arg("--output").arg(output).arg("files").args(files_of(csv));
    command.stderr(Stdio::null()).stdout(Stdio::null());
    command
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A line for each of ten minutes and of many images, in many files, each of which is committed.
fn write_csv(folder: &Path, images: usize) {
    fs::create_dir(folder).unwrap();
    for (number, images) in (0..images).collect::<Vec<_>>().chunks(20).enumerate() {
        let mut text = String::from("time,namespace,pod,container,image,cpu,memory\n");
        for image in images {
            for minute in 0..10 {
                let time = NOW - DAY + minute as i64 * 60;
                let name = format!("team-{},app-{image},main,shop/app-{}:1.{image}", image % 7, image % 500);
                text += &format!("{time},{name},0.{:03},{}Mi\n", (image * 7 + minute * 13) % 1000, 1 + image % 900);
            }
        }
        fs::write(folder.join(format!("{number:03}.csv")), text).unwrap();
    }
}

/// The histories of the objects that a reader finds: the roots, and the pages that they list.
fn histories(server: &ApiServer) -> BTreeMap<String, String> {
    let named = |profile: Value| (profile["metadata"]["name"].as_str().unwrap().to_owned(), profile);
    let all: BTreeMap<String, Value> = server.list(PROFILES).into_iter().map(named).collect();
    let pages = |(name, root): (&String, &Value)| {
        let pages = paths(root["spec"]["header"]["pages"].as_str().unwrap_or_default());
        pages.into_iter().map(|path| format!("{name}-{path}")).collect::<Vec<_>>()
    };
    let listed: BTreeSet<String> = all.iter().flat_map(pages).collect();
    let is_read = |name: &str| name.matches('-').count() == 1 || listed.contains(name);
    all.iter().filter(|(name, _)| is_read(name)).flat_map(|(name, profile)| by_owner(name, profile)).collect()
}

/// The histories in the files of a folder.
fn read_folder(folder: &Path) -> BTreeMap<String, String> {
    let mut histories = BTreeMap::new();
    for entry in fs::read_dir(folder.join("headroom")).unwrap() {
        let path = entry.unwrap().path();
        // A killed collector leaves an unfinished file.
        if path.extension().is_none() {
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
        let own = fields(&image["own"]).into_iter();
        found.extend(own.map(|(owner, own)| (format!("{place} {owner}"), own.to_string())));
    }
    found
}
