//! The pipeline with a source that is read in time windows: every sample counts exactly once, whatever fails.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use headroom_api_server::clock;
use headroom_collector::read_limits::{Pace, SAMPLE_DELAY};
use headroom_collector::store::Store;
use headroom_fixtures::process::kill_repeatedly;
use headroom_metrics_stores::{Reach, Source};
use headroom_usage::sample::Window;

use crate::support::*;
use tokio_util::sync::CancellationToken;

/// Checks that a store has what a source has up to the last time whose samples are final, as if that is read in one window.
async fn check_same(store: &Store, source: &Scripted) {
    let end = (source.now - SAMPLE_DELAY) / STEP * STEP;
    let (_folder, whole) = new_store();
    let all = Window { from: (NOW - 40 * DAY) / DAY * DAY, to: end };
    let namespaces = source.namespaces(all).await.unwrap();
    fill(&whole, source, &namespaces.iter().map(String::as_str).collect::<Vec<_>>(), all).await;
    assert_eq!(published(store, end), published(&whole, end));
}

async fn check_complete(source: &Scripted, runs: usize) {
    let (_folder, store) = new_store();
    for _ in 0..runs {
        collect(source, &store, &CancellationToken::new()).await.unwrap();
    }
    assert!(store.owed().unwrap().is_empty());
    check_same(&store, &Scripted { now: source.now, ..Scripted::new(three_workloads()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_counts_once() {
    let source = || Scripted::new(three_workloads());
    check_complete(&source(), 1).await;
    check_complete(&source(), 3).await;
    // Reads fail halfway.
    check_complete(&Scripted { hiccups: 3, ..source() }, 1).await;
    // Answers overlap.
    check_complete(&Scripted { sloppy: true, ..source() }, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_source_gets_smaller_queries_and_nothing_is_lost() {
    let source = Scripted { bears: 20 * 60, ..Scripted::new(three_workloads()) };
    check_complete(&source, 1).await;
    let reads = source.reads.lock().unwrap();
    assert!(reads.iter().all(|(_, window)| window.seconds() <= source.bears && window.from % STEP == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_later_an_hour_is_read() {
    let (_folder, store) = new_store();
    let mut source = Scripted::new(three_workloads());
    source.workloads[2].to = NOW + DAY;
    collect(&source, &store, &CancellationToken::new()).await.unwrap();
    source.reads.lock().unwrap().clear();
    source.now += HOUR;
    collect(&source, &store, &CancellationToken::new()).await.unwrap();
    let reads = source.reads.lock().unwrap().clone();
    assert_eq!(reads.iter().map(|(_, window)| window.seconds()).sum::<i64>(), HOUR);
    assert_eq!(reads.iter().map(|(namespace, _)| namespace).collect::<Vec<_>>(), ["lab"; 2]);
    check_same(&store, &source).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_namespace_does_not_block_others_and_is_read_later() {
    let (_folder, store) = new_store();
    let source = Scripted { broken: Mutex::new(["lab"].into()), ..Scripted::new(three_workloads()) };
    let outcome = collect(&source, &store, &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.unread.keys().collect::<Vec<_>>(), ["lab"]);
    assert!(source.reads.lock().unwrap().iter().all(|(namespace, _)| namespace == "shop"));
    let owed: Vec<_> = store.owed().unwrap().into_iter().map(|(namespace, _)| namespace).collect();
    assert_eq!(owed, ["lab"], "expected one merged piece");
    source.broken.lock().unwrap().clear();
    collect(&source, &store, &CancellationToken::new()).await.unwrap();
    check_same(&store, &source).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_refuses_everything_ends_the_run_with_its_error() {
    let (_folder, store) = new_store();
    let source = Scripted { broken: Mutex::new(["lab", "shop"].into()), ..Scripted::new(three_workloads()) };
    let error = collect(&source, &store, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "no such tenant");
    assert!(!store.owed().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_continues_where_it_stopped() {
    let (_folder, store) = new_store();
    let source = Scripted::new(three_workloads());
    for _ in 0..5 {
        let stop = CancellationToken::new();
        let run = collect(&source, &store, &stop);
        let stopped = async {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            stop.cancel();
        };
        let (outcome, ()) = tokio::join!(run, stopped);
        outcome.unwrap();
    }
    collect(&source, &store, &CancellationToken::new()).await.unwrap();
    check_same(&store, &source).await;
}

/// Kills a whole process, with its buffers: this test again, with the folder of a store.
#[test]
fn a_killed_run_loses_and_repeats_nothing() {
    const STORE: &str = "HEADROOM_TEST_STORE";
    if let Some(folder) = std::env::var_os(STORE) {
        let (store, source) = (open(Path::new(&folder)), Scripted::new(three_workloads()));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(collect(&source, &store, &CancellationToken::new())).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    kill_repeatedly(|name| {
        let mut this = Command::new(std::env::current_exe().unwrap());
        this.args(["--exact", "windows::a_killed_run_loses_and_repeats_nothing"]);
        let this = this.env(STORE, folder.path().join(name));
        this.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    });
    let [calm, killed] = ["calm", "killed"].map(|name| published(&open(&folder.path().join(name)), NOW));
    assert!(calm == killed && calm.contains("docker,io/library/nginx"));
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_read_concurrently() {
    let (_folder, store) = new_store();
    let names: Vec<&'static str> = (0..40).map(|number| &*format!("team-{number:02}").leak()).collect();
    let (image, from, to) = ("nginx", NOW - HOUR, NOW + HOUR);
    let workloads = names.iter().map(|namespace| Workload { namespace, pod: "web-0", image, from, to });
    let source = Scripted { reach: Reach::Present, ..Scripted::new(workloads.collect()) };
    collect(&source, &store, &CancellationToken::new()).await.unwrap();
    assert_eq!(namespaces(&store), names);
    assert_eq!(source.under_way.lock().unwrap().1, pace().concurrency as u32);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_images_for_memory_are_read_in_shorter_windows() {
    let (_folder, store) = new_store();
    // Each minute another build.
    let builds = (0..58).map(|minute| {
        let image = &*format!("registry.example/ci/build:{minute}").leak();
        let from = NOW - HOUR + minute * STEP - 2 * STEP;
        Workload { namespace: "ci", pod: "build", image, from, to: from + STEP }
    });
    let source = Scripted { pace: Pace { max_images: 10, ..pace() }, ..Scripted::new(builds.collect()) };
    collect(&source, &store, &CancellationToken::new()).await.unwrap();
    assert!(store.owed().unwrap().is_empty());
    check_same(&store, &source).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn current_usage_is_read_once_per_step() {
    let (_folder, store) = new_store();
    let mut source = Scripted { reach: Reach::Present, ..Scripted::new(three_workloads()) };
    source.workloads[2].to = NOW + DAY;
    for seconds in [0, 10, 59, 60, 61, 180] {
        // Now and then, a wrong time.
        source.now = clock::now() + 40 * DAY;
        let refused = collect(&source, &store, &CancellationToken::new()).await.unwrap_err();
        assert!(refused.to_string().contains("a day ahead"), "{refused}");
        source.now = NOW + seconds;
        collect(&source, &store, &CancellationToken::new()).await.unwrap();
    }
    let reads: Vec<i64> = source.reads.lock().unwrap().iter().map(|(_, window)| window.from - NOW).collect();
    assert_eq!(reads, [0, 60, 180]);
    let text = published(&store, NOW + 240);
    assert!(text.contains(r#""7d":{"pods":1,"namespaces":1,"cpu":{"samples":3,"#), "{text}");
}
