//! A new store when an older one has published profiles: it deletes only its own profiles, and never replaces a history
//! by a shorter one.

use headroom_collector::metrics::Metrics;
use headroom_collector::profile::Pooling;
use headroom_collector::publish::folder::Folder;
use headroom_collector::publish::manifest::Format;
use headroom_collector::publish::{Destination, Published, Publisher};
use headroom_collector::store::Store;
use headroom_core::cluster::usage::{Root, find_in_usage};
use headroom_core::timestamp::Timestamp;
use headroom_sources::{Reach, Source};
use headroom_usage::batch::Gathered;
use headroom_usage::sample::Window;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api_server::{ApiServer, store_of};
use crate::cluster::{publish, store};
use crate::support::*;

/// Reads these namespaces of a source into a store.
async fn fill(store: &Store, source: &Scripted, namespaces: &[&str], window: Window) {
    let mut gathered = Gathered::default();
    for namespace in namespaces {
        source.read(namespace, window, &mut |batch| gathered.take(batch, window)).await.unwrap();
    }
    store.add_present(window, &gathered, None).unwrap();
}

/// The last hour of the three workloads, and the present.
fn last_hour() -> (Scripted, Window) {
    let mut source = Scripted::new(three_workloads());
    for workload in &mut source.workloads {
        workload.to = NOW + 40 * DAY;
    }
    (source, Window { from: NOW, to: NOW + HOUR })
}

/// The samples of all tags of an image, in a namespace or in the `pool`.
fn samples(server: &ApiServer, namespace: &str, image: &str, window: &str) -> u64 {
    let profiles = server.profiles.lock().unwrap();
    let histories = histories(profiles.values(), image, namespace);
    let usage = histories["all"]["windows"][window]["cpu"].as_str().unwrap();
    find_in_usage(usage, "samples").unwrap().parse().unwrap()
}

/// The published history of `shop`.
fn of_shop(server: &ApiServer) -> Value {
    histories(server.profiles.lock().unwrap().values(), NGINX, "shop")
}

const NGINX: &str = "docker.io/library/nginx";
const JOB: &str = "registry.example/lab/job";

#[tokio::test(flavor = "multi_thread")]
async fn a_new_volume_deletes_nothing_and_replaces_no_longer_history() {
    let (_folder, old) = store().await;
    let server = ApiServer::new("1");
    publish(&old, server.start().await, NOW).await.unwrap();
    let (before, shop) = (server.histories(), of_shop(&server));
    let month = samples(&server, "lab", JOB, "30d");

    let folder = tempfile::tempdir().unwrap();
    let young = open(folder.path());
    let (source, hour) = last_hour();
    fill(&young, &source, &["lab"], hour).await;
    let published = publish(&young, server.start().await, NOW + HOUR).await.unwrap();
    assert_eq!(published.deleted, 0);
    assert_eq!(server.names(), before.keys().cloned().collect::<Vec<_>>());
    assert_eq!(of_shop(&server), shop, "the store has no usage of shop");
    assert_eq!(samples(&server, "lab", JOB, "30d"), month);
    assert!(server.histories()["headroom/usage-26"] == before["headroom/usage-26"]);
    assert!(server.profiles.lock().unwrap().values().all(|profile| store_of(profile) == young.id()));

    // The older history is published as long as it has more weight, and ours as soon as that has more.
    let day = |days: i64| Window { from: NOW + HOUR + days * DAY, to: NOW + HOUR + (days + 1) * DAY };
    for days in 0..4 {
        fill(&young, &source, &["lab"], day(days)).await;
        young.expire(((NOW + (days + 1) * DAY) / DAY) as u32).unwrap();
        publish(&young, server.start().await, day(days).to).await.unwrap();
    }
    let ours = |days: u64| 60 + days * 24 * 60;
    assert_eq!(samples(&server, "lab", JOB, "30d"), ours(4));
    for days in 4..35 {
        fill(&young, &source, &["lab"], day(days)).await;
    }
    young.expire(((NOW + 36 * DAY) / DAY) as u32).unwrap();
    assert_eq!(young.adopted("headroom", Root::of(JOB)).unwrap(), Vec::<String>::new(), "too old");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_read_of_the_metrics_api_does_not_replace_a_month() {
    let (_folder, old) = store().await;
    let server = ApiServer::new("1");
    publish(&old, server.start().await, NOW).await.unwrap();
    let before = samples(&server, "lab", JOB, "7d");

    let folder = tempfile::tempdir().unwrap();
    let young = open(folder.path());
    let source = Scripted { reach: Reach::Present, now: NOW, ..last_hour().0 };
    collect(&source, &young, &CancellationToken::new()).await.unwrap();
    publish(&young, server.start().await, NOW + STEP).await.unwrap();
    assert_eq!(samples(&server, "lab", JOB, "7d"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_fewer_namespaces_deletes_nothing_and_the_owner_restores_its_profiles() {
    let (_folder, old) = store().await;
    let server = ApiServer::new("1");
    publish(&old, server.start().await, NOW).await.unwrap();
    let before = server.histories();

    // Like `--matchers 'namespace="shop"'`, for the whole time.
    let folder = tempfile::tempdir().unwrap();
    let laptop = open(folder.path());
    fill(&laptop, &Scripted::new(three_workloads()), &["shop"], Window { from: NOW - 30 * DAY, to: NOW }).await;
    for _ in 0..2 {
        let published = publish(&laptop, server.start().await, NOW).await.unwrap();
        assert_eq!((published.deleted, server.histories()), (0, before.clone()));
    }
    let published = publish(&old, server.start().await, NOW + HOUR).await.unwrap();
    assert_eq!((published.deleted, server.histories()), (0, before));
    assert!(server.profiles.lock().unwrap().values().all(|profile| store_of(profile) == old.id()));
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_histories_of_a_store_are_deleted_and_those_of_another_kept_while_recent() {
    let later = NOW + 40 * DAY;
    let goes_on = Workload { namespace: "new", pod: "web-0", image: "nginx", from: later - DAY, to: later };
    let source = Scripted::new(vec![goes_on]);
    let server = ApiServer::new("1");
    let (_folder, store) = store().await;
    publish(&store, server.start().await, NOW).await.unwrap();
    fill(&store, &source, &["new"], Window { from: later - DAY, to: later }).await;
    store.expire((later / DAY) as u32).unwrap();
    publish(&store, server.start().await, later).await.unwrap();
    let known = |namespace, image| !histories(server.profiles.lock().unwrap().values(), image, namespace).is_null();
    assert!(known("new", NGINX) && !known("shop", NGINX) && !known("lab", JOB));
    assert_eq!(server.names().len(), 64, "roots must not be deleted");

    // The other store's history is kept as long as it is not too old.
    let (_other_folder, other) = crate::cluster::store().await;
    for (days, is_kept) in [(5, true), (40, false)] {
        let server = ApiServer::new("1");
        publish(&other, server.start().await, NOW).await.unwrap();
        publish(&store, server.start().await, NOW + days * DAY).await.unwrap();
        let lab = histories(server.profiles.lock().unwrap().values(), JOB, "lab");
        assert_eq!(!lab.is_null(), is_kept, "{days}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_lags_does_not_look_current() {
    let server = ApiServer::new("1");
    let (_folder, store) = store().await;
    store.plan(Window { from: NOW, to: NOW + HOUR }, &["lab".to_owned()]).unwrap();
    publish(&store, server.start().await, NOW + HOUR).await.unwrap();
    let profiles = server.profiles.lock().unwrap();
    let collected_at = |image, namespace| histories(profiles.values(), image, namespace)["all"]["collectedAt"].take();
    assert_eq!(collected_at(JOB, "lab"), "2026-11-21T00:00:00Z");
    assert_eq!(collected_at(NGINX, "shop"), Value::Null);
    assert_eq!(profiles["headroom/usage-26"]["spec"]["header"]["collectedAt"], "2026-11-21T01:00:00Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_profiles_are_kept() {
    let server = ApiServer::new("1");
    let (_folder, store) = store().await;
    publish(&store, server.start().await, NOW - DAY).await.unwrap();
    let before = server.histories();
    let writes = server.writes.lock().unwrap().len();
    // Like `--as-of` with a wrong year.
    let published = publish(&store, server.start().await, NOW - 400 * DAY).await.unwrap();
    assert_eq!((published.deleted, published.written, server.histories()), (0, 0, before));
    assert_eq!(server.writes.lock().unwrap().len(), writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_profiles_are_treated_like_a_cluster() {
    let (_old_folder, old) = store().await;
    let (young_folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let young = open(young_folder.path());
    let (source, hour) = last_hour();
    fill(&young, &source, &["lab"], hour).await;
    for format in [Format::Yaml, Format::Json] {
        let path = target.path().join(format.name());
        let destination = Destination::Folder(Folder { path: path.clone(), format });
        let publish = async |store: &Store, as_of: i64| -> Published {
            let (refresh, metrics) = (6 * HOUR, Metrics::default());
            let publisher = Publisher {
                store,
                destination: &destination,
                namespace: "headroom",
                pooling: &Pooling { quorum: 1, namespaces: Vec::new() },
                refresh,
                lease: None,
                metrics: &metrics,
            };
            publisher.publish(Timestamp::from_unix_seconds(as_of).unwrap()).await.unwrap()
        };
        let read = |image: &str| -> Value {
            let name = format!("headroom/{}.{}", Root::of(image), format.name());
            serde_saphyr::from_str(&std::fs::read_to_string(path.join(name)).unwrap()).unwrap()
        };
        assert_eq!(publish(&old, NOW).await.written, 64);
        let (shop, lab) = (read(NGINX), read(JOB));
        assert_eq!(publish(&young, NOW + HOUR).await.deleted, 0);
        assert_eq!(read(NGINX)["spec"]["images"], shop["spec"]["images"]);
        assert_eq!(store_of(&read(JOB)), young.id());
        let month = |profile: &Value| histories([profile], JOB, "lab")["all"]["windows"]["30d"].clone();
        assert_eq!(month(&read(JOB)), month(&lab));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_not_written_by_a_collector_are_ignored() {
    let server = ApiServer::new("1");
    let (_folder, old) = store().await;
    publish(&old, server.start().await, NOW).await.unwrap();
    {
        let mut profiles = server.profiles.lock().unwrap();
        let lab = profiles.get_mut(&format!("headroom/{}", Root::of(JOB))).unwrap();
        lab["metadata"]["labels"]["app.kubernetes.io/managed-by"] = serde_json::json!("somebody");
        lab["metadata"]["annotations"] = serde_json::json!({});
    }
    let folder = tempfile::tempdir().unwrap();
    let young = open(folder.path());
    let (source, hour) = last_hour();
    fill(&young, &source, &["lab"], hour).await;
    publish(&young, server.start().await, NOW + HOUR).await.unwrap();
    assert_eq!(samples(&server, "lab", JOB, "30d"), 60);
}
