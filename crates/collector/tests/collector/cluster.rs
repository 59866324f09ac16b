//! Writing to a cluster, against an in-memory API server: the requests, and the errors if it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headroom_admission::timestamp::Timestamp;
use headroom_api_server::lease::RenewedLease;
use headroom_collector::collect_loop::{Feed, Rounds};
use headroom_collector::metrics::CollectorMetrics;
use headroom_collector::profile::Pooling;
use headroom_collector::publish::cluster::ProfileCluster;
use headroom_collector::publish::folder::Folder;
use headroom_collector::publish::{Destination, PublishError, Published, Publisher};
use headroom_collector::store::Store;
use headroom_fixtures::api_server::status;
use headroom_output::progress::Progress;
use headroom_usage::sample::{Resource, Sample, Window};

use crate::api_server::{ApiServer, NGINX_IN_SHOP, NGINX_ROOT, QUARTERS};
use crate::support::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

impl ApiServer {
    pub async fn start(self: &Arc<Self>) -> ProfileCluster {
        ProfileCluster::new(self.client().await, false, &pace())
    }
}

pub async fn rounds(server: &Arc<ApiServer>, folder: &Path, source: Scripted) -> Rounds {
    Rounds {
        feed: Feed::Source(Box::new(source)),
        source_name: "prometheus at http://p:9090".to_owned(),
        adopt: false,
        store: open(folder),
        destination: Destination::Cluster(Box::new(server.start().await)),
        lease: None,
        namespace: "headroom".to_owned(),
        pooling: Pooling { quorum: 1, ..Pooling::default() },
        tenant_label: None,
        pace: pace(),
        metrics: CollectorMetrics::default().into(),
        progress: Progress::hidden(),
        stop: CancellationToken::new(),
    }
}

pub async fn store() -> (tempfile::TempDir, Store) {
    let (folder, store) = new_store();
    let (source, all) = (Scripted::new(three_workloads()), Window { from: NOW - 30 * DAY, to: NOW });
    fill(&store, &source, &["shop", "lab"], all).await;
    (folder, store)
}

pub async fn publish(store: &Store, cluster: ProfileCluster, as_of: i64) -> Result<Published, PublishError> {
    publish_to(store, &Destination::Cluster(Box::new(cluster)), as_of, None, false).await
}

pub async fn publish_to(
    store: &Store,
    destination: &Destination,
    as_of: i64,
    lease: Option<&RenewedLease>,
    replace_other_stores: bool,
) -> Result<Published, PublishError> {
    let metrics = CollectorMetrics::default();
    let publisher = Publisher {
        store,
        destination,
        namespace: "headroom",
        pooling: &Pooling { quorum: 1, ..Pooling::default() },
        restricted: None,
        replace_other_stores,
        lease,
        metrics: &metrics,
    };
    publisher.publish(Timestamp::from_unix_seconds(as_of).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_applied_only_if_changed() {
    let (_folder, store) = store().await;
    let server = ApiServer::new("1");
    let first = publish(&store, server.start().await, NOW).await.unwrap();
    let profiles = server.profiles();
    assert_eq!(
        (first.written, first.unchanged, profiles.len()),
        (QUARTERS as u64, 0, QUARTERS),
        "expected every quarter"
    );
    let apply = server.requests().into_iter().find(|request| request.method == "PATCH").unwrap();
    assert_eq!(apply.parameter("fieldManager"), Some("headroom-collector"));
    let nginx = profiles.iter().find(|profile| profile["metadata"]["name"] == NGINX_IN_SHOP).unwrap();
    let metadata = &nginx["metadata"];
    let labels = json!({"app.kubernetes.io/managed-by": "headroom-collector", "headroom.dev/root": NGINX_ROOT});
    assert_eq!(metadata["labels"], labels);
    assert_eq!(metadata["annotations"], json!({"headroom.dev/store": store.id()}));

    let again = publish(&store, server.start().await, NOW + HOUR).await.unwrap();
    assert_eq!((again.written, again.unchanged), (0, first.written));
    assert_eq!(server.count("PATCH"), profiles.len());
    let later = publish(&store, server.start().await, NOW + 7 * HOUR).await.unwrap();
    assert_eq!(later.written, first.written, "unchanged profiles are rewritten after the refresh interval");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_errors_are_retried() {
    let (_folder, store) = store().await;
    let server = ApiServer::new("1");
    let is_second = AtomicBool::new(false);
    server.fail(move |_| is_second.fetch_not(Ordering::Relaxed).then(|| status(503, "etcd has no leader")));
    let published = publish(&store, server.start().await, NOW).await.unwrap();
    assert!(published.failed.is_empty() && published.written > 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_refusal_of_one_object_affects_no_other() {
    let (_folder, store) = store().await;
    for (code, message, expected) in [
        (403, "admission webhook \"guard.example\" denied the request: no", "usageprofile `headroom/usage-26.c` is "),
        (500, "Internal error occurred: failed calling webhook", "cannot patch usageprofiles: Internal error"),
    ] {
        let server = ApiServer::new("1");
        server.refuse(NGINX_IN_SHOP, code, message);
        let published = publish(&store, server.start().await, NOW).await.unwrap();
        assert_eq!(server.profiles().len(), QUARTERS - 1);
        let failed: Vec<_> = published.failed.iter().map(|(name, error)| (name.as_str(), error)).collect();
        assert!(
            matches!(failed[..], [(NGINX_IN_SHOP, error)] if error.to_string().starts_with(expected)),
            "{failed:?}"
        );
    }
}

/// A store in which one image runs in many namespaces.
fn spread(namespaces: usize) -> (tempfile::TempDir, Store) {
    let (folder, store) = new_store();
    add_spread(&store, 0..namespaces, NOW);
    (folder, store)
}

fn add_spread(store: &Store, namespaces: std::ops::Range<usize>, now: i64) {
    let samples = vec![Sample { time: now - HOUR, value: 1, seconds: 60 }];
    let of = |number| used(&format!("team-{number}"), "web-0", "nginx", Resource::Cpu, samples.clone());
    add(store, Window { from: now - DAY, to: now }, namespaces.map(of));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_grows_into_pages_and_shrinks_again() {
    // At each write, the server checks that nothing lists a missing page.
    let server = ApiServer::new("1");
    let (_folder, store) = spread(3);
    publish(&store, server.start().await, NOW).await.unwrap();
    assert_eq!(server.profiles().len(), QUARTERS);
    add_spread(&store, 3..200, NOW + DAY);
    let grown = publish(&store, server.start().await, NOW + DAY).await.unwrap();
    let pages = server.profiles().len() - QUARTERS;
    assert!(pages > 10 && grown.deleted == 0, "{pages}");
    let is_known = |namespace: &str| !histories(&server.profiles(), "docker.io/library/nginx", namespace).is_null();
    assert!(is_known("team-0") && is_known("team-199"));
    for profile in server.profiles() {
        assert!(profile.to_string().len() < 12_900, "{}", profile["metadata"]);
    }
    // Most images end; pages that were listed until now are kept for a round.
    add_spread(&store, 0..2, NOW + 40 * DAY);
    store.expire(((NOW + 40 * DAY) / DAY) as u32).unwrap();
    let shrunk = publish(&store, server.start().await, NOW + 40 * DAY).await.unwrap();
    assert_eq!((shrunk.deleted, server.profiles().len()), (0, QUARTERS + pages));
    let after = publish(&store, server.start().await, NOW + 40 * DAY + HOUR).await.unwrap();
    assert_eq!((after.deleted, server.profiles().len()), (pages as u64, QUARTERS), "quarters must not be deleted");
    assert!(is_known("team-0") && !is_known("team-199"));
}

#[tokio::test(flavor = "multi_thread")]
async fn if_a_page_is_refused_the_quarters_of_its_root_are_unchanged() {
    let server = ApiServer::new("1");
    let (_folder, store) = spread(3);
    publish(&store, server.start().await, NOW).await.unwrap();
    let quarters = || {
        let mut quarters = server.histories();
        quarters.retain(|name, _| name.matches('-').count() == 1);
        quarters
    };
    let before = quarters();
    add_spread(&store, 3..200, NOW + DAY);
    server.refuse("usage-26.a-", 403, "no pages");
    let published = publish(&store, server.start().await, NOW + DAY).await.unwrap();
    assert!(!published.failed.is_empty() && published.written > 0);
    assert_eq!(quarters(), before);
    server.fail(|_| None);
    publish(&store, server.start().await, NOW + DAY).await.unwrap();
    assert_ne!(quarters()[NGINX_IN_SHOP], before[NGINX_IN_SHOP]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_layout_stays_until_all_of_the_new_one_is_there() {
    let server = ApiServer::new("1");
    let (folder, store) = spread(3);
    let older = ["usage-26", "usage-26-0", "usage-26-1"];
    let put = |store: &str| {
        let all = json!({"days": 9, "lastSeen": "2026-11-20T00:00:00Z", "oomKills": [], "windows": {}});
        for name in older {
            let spec = json!({
                "header": {"format": 3, "collectedAt": "2026-11-20T00:00:00Z", "pages": (name == older[0]).then_some("/##")},
                "images": (name == older[1]).then(|| json!({"docker,io/library/nginx": {"own": {"team-0": {"all": all}}}})),
            });
            let labels = json!({"app.kubernetes.io/managed-by": "headroom-collector", "headroom.dev/root": NGINX_ROOT});
            let metadata = json!({
                "name": name, "namespace": "headroom", "annotations": {"headroom.dev/store": store}, "labels": labels,
            });
            let kind = ("headroom.dev/v1alpha1", "UsageProfile");
            server.put(json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": spec}));
        }
    };
    let left = || older.map(|name| server.histories().contains_key(name));
    // Another store wrote the older layout, and knew more, as before its volume was lost. It stays until this store knows as much.
    put("another");
    let overloaded = Scripted { bears: 0, ..Scripted::new(three_workloads()) };
    rounds(&server, &folder.path().join("new"), overloaded).await.once().await.unwrap_err();
    assert_eq!((left(), server.profiles().len()), ([true; 3], QUARTERS - 4 + 3));
    let refused = publish(&store, server.start().await, NOW).await.unwrap();
    assert_eq!((refused.failed.len(), refused.deleted, left()), (1, 0, [true; 3]));
    assert!(!server.histories().contains_key(NGINX_IN_SHOP));
    // This store wrote the older layout itself.
    put(store.id());
    for (deleted, expected) in [(0, [true; 3]), (1, [false; 3]), (2, [false; 3])] {
        let published = publish(&store, server.start().await, NOW).await.unwrap();
        assert_eq!((published.failed.len(), published.deleted, left()), (0, deleted, expected));
    }
    assert_eq!(server.profiles().len(), QUARTERS);
    assert!(server.histories()[NGINX_IN_SHOP].contains("team-2"));
}

/// The files below a folder, by path, without the newline at their end: a file that lost nothing else is whole.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), std::fs::read(path).unwrap().trim_ascii_end().to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_are_written_again() {
    let (_folder, store) = spread(200);
    let output = tempfile::tempdir().unwrap();
    let destination = Destination::Folder(Folder { path: output.path().to_owned() });
    publish_to(&store, &destination, NOW, None, false).await.unwrap();
    let good = files(&output.path().join("headroom"));
    let names: Vec<&PathBuf> = good.keys().collect();
    let mut random = fastrand::Rng::with_seed(47);
    for trial in 0..60 {
        let path = names[random.usize(..names.len())];
        let mut bytes = std::fs::read(path).unwrap();
        match trial % 3 {
            0 => bytes.truncate(random.usize(..=bytes.len())),
            1 => bytes = random.alphanumeric().to_string().repeat(random.usize(..5000)).into(),
            _ => {
                let from = random.usize(..=bytes.len());
                bytes[from..].iter_mut().for_each(|byte| *byte = random.u8(..));
            }
        }
        std::fs::write(path, bytes).unwrap();
    }
    publish_to(&store, &destination, NOW, None, false).await.unwrap();
    assert!(files(&output.path().join("headroom")) == good);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_api_server_ends_the_round() {
    let (_folder, store) = spread(100);
    let server = ApiServer::new("1");
    server.fail(|_| Some(status(503, "etcd has no leader")));
    let error = publish(&store, server.start().await, NOW).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot list usageprofiles: etcd has no leader");
    assert!(server.count("GET") < 50, "{}", server.count("GET"));
    // So does a refusal that concerns all profiles, at the first of them.
    let server = ApiServer::new("1");
    server.refuse("", 403, "usageprofiles.headroom.dev \"usage-00.a\" is forbidden: User \"eve\" cannot patch them");
    let error = publish(&store, server.start().await, NOW).await.unwrap_err().to_string();
    assert!(error.starts_with("not allowed to patch usageprofiles"), "{error}");
}

/// The lists of all quarters after a round.
async fn restricted(server: &Arc<ApiServer>) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    rounds(server, folder.path(), Scripted::new(three_workloads())).await.once().await.unwrap();
    listed(server).iter().map(Value::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_namespaces_that_may_ask_for_fewer_estimates_are_listed() {
    let server = ApiServer::new("1");
    let chosen = |text: &str| json!({"headroom.dev/estimates": text});
    let namespaces = [
        json!({"name": "shop", "labels": {"team": "a"}}),
        json!({"name": "lab", "labels": chosen("never")}),
        json!({"name": "batch", "annotations": chosen("of")}),
    ];
    server.put_all("Namespace", namespaces);
    assert_eq!(restricted(&server).await, ["", "batch lab"].map(|names| format!("{names:?}")).into());
    let tenants = server.start().await.tenants("team").await.unwrap();
    assert_eq!(tenants, [("shop".to_owned(), "a".to_owned())].into());
}

/// The list of restricted namespaces of each quarter that is there.
fn listed(server: &ApiServer) -> Vec<Value> {
    server.profiles().iter().map(|quarter| quarter["spec"]["header"]["restrictedNamespaces"].clone()).collect()
}

fn with_lab(server: &ApiServer) -> usize {
    listed(server).iter().filter(|names| *names == "lab").count()
}

/// A policy looks for the older layout at every request where a quarter is missing.
#[tokio::test(flavor = "multi_thread")]
async fn quarters_are_written_before_the_first_usage_was_read() {
    let server = ApiServer::new("1");
    server.put_all("Namespace", [json!({"name": "lab", "labels": {"headroom.dev/estimates": "never"}})]);
    let folder = tempfile::tempdir().unwrap();
    let overloaded = Scripted { bears: 0, ..Scripted::new(three_workloads()) };
    rounds(&server, folder.path(), overloaded).await.once().await.unwrap_err();
    assert_eq!((listed(&server).len(), with_lab(&server)), (QUARTERS, QUARTERS / 4));
    // They are no obstacle to histories.
    rounds(&server, folder.path(), Scripted::new(three_workloads())).await.once().await.unwrap();
    assert!(server.histories()[NGINX_IN_SHOP].contains("nginx"));
    // Collected histories stay unchanged.
    let collected = server.histories();
    rounds(&server, folder.path(), Scripted { bears: 0, ..Scripted::new(three_workloads()) }).await.once().await.ok();
    assert_eq!(server.histories(), collected);
}

pub async fn wait_for(server: &ApiServer, what: &str, is_there: &dyn Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !is_there() {
        assert!(Instant::now() < deadline, "{what}: {:?}", listed(server));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_store_is_replaced_and_filled_again() {
    let server = ApiServer::new("1");
    let folder = tempfile::tempdir().unwrap();
    crate::store::damage_row(&folder.path().join("usage.redb"));
    let mut rounds = rounds(&server, folder.path(), Scripted::new(three_workloads())).await;
    rounds.adopt = true;
    let (stop, metrics) = (rounds.stop.clone(), rounds.metrics.clone());
    let running = rounds.start(Duration::from_secs(3600));
    let is_published = || server.histories().get(NGINX_IN_SHOP).is_some_and(|text| text.contains("nginx"));
    wait_for(&server, "a publication", &is_published).await;
    assert!(metrics.to_string().contains("headroom_collector_stores_damaged_total 1\n"));
    assert!(folder.path().join("usage.redb.damaged").exists());
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_turns_estimates_off_is_listed_before_the_next_round() {
    let server = ApiServer::new("1");
    let folder = tempfile::tempdir().unwrap();
    let source = Scripted::new(three_workloads());
    let is_away = source.is_away.clone();
    let rounds = rounds(&server, folder.path(), source).await;
    let stop = rounds.stop.clone();
    let running = rounds.start(Duration::from_secs(3600));
    // Each of the two images has its pool in all quarters.
    let is_published = || server.histories().values().filter(|text| text.contains("own")).count() == 8;
    wait_for(&server, "a publication", &is_published).await;
    let histories = server.histories();
    is_away.store(true, Ordering::Relaxed);
    server.put_all("Namespace", [json!({"name": "lab", "labels": {"headroom.dev/estimates": "never"}})]);
    wait_for(&server, "the label", &|| with_lab(&server) == QUARTERS / 4).await;
    assert!(server.histories() == histories, "histories changed");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_restricted_namespaces_and_unknown_ones_are_not_listed() {
    let server = ApiServer::new("1");
    let of = |number| json!({"name": format!("team-{number}"), "labels": {"headroom.dev/estimates": "never"}});
    server.put_all("Namespace", (0..1_000).map(of));
    assert_eq!(restricted(&server).await, [r#""*""#.to_owned()].into());
    let server = ApiServer::new("1");
    server.fail(|request| (request.path == "/api/v1/namespaces").then(|| status(403, "namespaces is forbidden")));
    assert_eq!(restricted(&server).await, ["null".to_owned()].into());
}
