//! A new store when an older one has published profiles: it replaces them only if nothing is lost, or if the user says so.

use headroom_admission::cluster::usage::{ProfileName, Root};
use headroom_collector::publish::ownership::store_of;
use headroom_collector::publish::{Destination, Published};
use headroom_collector::store::Store;
use headroom_usage::sample::Window;
use serde_json::{Value, json};

use crate::api_server::{ApiServer, PROFILES};
use crate::cluster::{publish, publish_to, store};
use crate::support::*;

/// A store with the three workloads, and a cluster with its profiles.
async fn published_store() -> (tempfile::TempDir, Store, std::sync::Arc<ApiServer>) {
    let ((folder, old), server) = (store().await, ApiServer::new("1"));
    publish(&old, server.start().await, NOW).await.unwrap();
    (folder, old, server)
}

/// The last hour of the three workloads, and the present.
fn last_hour() -> (Scripted, Window) {
    let mut source = Scripted::new(three_workloads());
    for workload in &mut source.workloads {
        workload.to = NOW + 40 * DAY;
    }
    (source, Window { from: NOW, to: NOW + HOUR })
}

/// A new store with the last hour of the namespace `lab`.
async fn young_store() -> (tempfile::TempDir, Store) {
    let ((folder, young), (source, hour)) = (new_store(), last_hour());
    fill(&young, &source, &["lab"], hour).await;
    (folder, young)
}

/// The samples of all tags of an image, in a namespace or in the `pool`.
fn samples(server: &ApiServer, namespace: &str, image: &str, window: &str) -> u64 {
    let histories = histories(&server.profiles(), image, namespace);
    histories["all"]["windows"][window]["cpu"]["samples"].as_u64().unwrap()
}

fn of_shop(server: &ApiServer) -> Value {
    histories(&server.profiles(), NGINX, "shop")
}

const NGINX: &str = "docker.io/library/nginx";
const JOB: &str = "registry.example/lab/job";

/// The collector's messages about roots that it left unwritten.
fn kept(published: &Published) -> Vec<String> {
    published.failed.iter().map(|(name, error)| format!("{name}: {error}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_store_replaces_no_longer_history_until_it_knows_as_much() {
    let (_folder, old, server) = published_store().await;
    let (before, shop) = (server.histories(), of_shop(&server));

    let (_folder, young) = young_store().await;
    let published = publish(&young, server.start().await, NOW + HOUR).await.unwrap();
    let root = Root::of(JOB).to_string();
    let expected = format!(
        "{root}: it was written from another store ({}), which knows more: {JOB} in namespace lab has 2 days of \
         history, and this store has 1; wait until this store knows as much, collect with that store, or replace what \
         it knows with --adopt",
        old.id()
    );
    assert!(kept(&published).contains(&expected), "{:?}", kept(&published));
    assert_eq!((published.deleted, of_shop(&server)), (0, shop));
    let quarter = ProfileName::of(Root::of(JOB), "lab").to_string();
    assert_eq!(server.histories()[&quarter], before[&quarter]);

    // The source is read again, as after a lost volume.
    let (_folder, again) = new_store();
    let month = Window { from: NOW - 30 * DAY, to: NOW + HOUR };
    fill(&again, &Scripted::new(three_workloads()), &["shop", "lab"], month).await;
    let published = publish(&again, server.start().await, NOW + HOUR).await.unwrap();
    assert_eq!((kept(&published), published.deleted), (Vec::new(), 0));
    assert!(server.profiles().iter().all(|profile| store_of(profile) == Some(again.id())));
    assert_eq!(samples(&server, "lab", JOB, "30d"), 2 * 24 * 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_of_another_store_counts_only_for_the_days_that_are_left_of_it() {
    let (_folder, _, server) = published_store().await;
    let (_folder, young) = new_store();
    let (source, _) = last_hour();
    // Like the metrics API, which has no past.
    for day in 0..12 {
        let window = Window { from: NOW + day * DAY, to: NOW + (day + 1) * DAY };
        fill(&young, &source, &["lab", "shop"], window).await;
        let published = publish(&young, server.start().await, window.to).await.unwrap();
        let is_kept = kept(&published).iter().any(|kept| kept.contains(NGINX));
        assert_eq!(is_kept, day < 9, "{day}: {:?}", kept(&published));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_so_replaces_what_another_store_knows() {
    let (_folder, _, server) = published_store().await;
    let (_folder, young) = young_store().await;
    let cluster = Destination::Cluster(Box::new(server.start().await));
    let published = publish_to(&young, &cluster, NOW + HOUR, None, true).await.unwrap();
    assert_eq!(kept(&published), Vec::<String>::new());
    assert_eq!(samples(&server, "lab", JOB, "30d"), 60);
    assert!(server.profiles().iter().all(|profile| store_of(profile) == Some(young.id())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_fewer_namespaces_replaces_nothing_of_the_others() {
    let (_folder, old, server) = published_store().await;
    let before = server.histories();

    // Like the matchers `namespace="shop"`, for the whole time.
    let (_folder, laptop) = new_store();
    fill(&laptop, &Scripted::new(three_workloads()), &["shop"], Window { from: NOW - 30 * DAY, to: NOW }).await;
    for _ in 0..2 {
        let published = publish(&laptop, server.start().await, NOW).await.unwrap();
        assert_eq!((published.deleted, server.histories()), (0, before.clone()));
    }
    let published = publish(&old, server.start().await, NOW + HOUR).await.unwrap();
    assert_eq!((published.deleted, server.histories()), (0, before));
    assert!(server.profiles().iter().all(|profile| store_of(profile) == Some(old.id())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_lags_does_not_look_current() {
    let server = ApiServer::new("1");
    let (_folder, store) = store().await;
    store.plan(Window { from: NOW, to: NOW + HOUR }, &["lab".to_owned()]).unwrap();
    publish(&store, server.start().await, NOW + HOUR).await.unwrap();
    let profiles = server.profiles();
    let collected_at = |image, namespace| histories(&profiles, image, namespace)["all"]["collectedAt"].take();
    assert_eq!(collected_at(JOB, "lab"), "2026-11-21T00:00:00Z");
    assert_eq!(collected_at(NGINX, "shop"), Value::Null);
    assert_eq!(profiles[0]["spec"]["header"]["collectedAt"], "2026-11-21T01:00:00Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_profiles_are_kept() {
    let server = ApiServer::new("1");
    let (_folder, store) = store().await;
    publish(&store, server.start().await, NOW - DAY).await.unwrap();
    let before = server.histories();
    let writes = server.writes();
    // Like a clock with a wrong year.
    let published = publish(&store, server.start().await, NOW - 400 * DAY).await.unwrap();
    assert_eq!((published.deleted, published.written, server.histories()), (0, 0, before));
    assert_eq!(server.writes(), writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_not_written_by_a_collector_are_ignored() {
    let (_folder, _, server) = published_store().await;
    let by_somebody = json!({"labels": {"app.kubernetes.io/managed-by": "somebody"}, "annotations": null});
    let profile = format!("{PROFILES}/{}", ProfileName::of(Root::of(JOB), "lab"));
    server.edit(&profile, &json!({"metadata": by_somebody}));
    let (_folder, young) = young_store().await;
    publish(&young, server.start().await, NOW + HOUR).await.unwrap();
    assert_eq!(samples(&server, "lab", JOB, "30d"), 60);
}
