//! The round trip: the collector publishes, and the built policy estimates from the result.
//!
//! Estimates are compared with percentiles of the sorted samples, so an error in any step (source, store, sketch,
//! profile, masks, reading) is found.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
#![expect(clippy::unwrap_used, reason = "a test may panic on unexpected data")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, atomic::AtomicBool};

use headroom_collector::collect_loop::{Feed, Rounds};
use headroom_collector::metrics::CollectorMetrics;
use headroom_collector::profile::Pooling;
use headroom_collector::publish::Destination;
use headroom_collector::publish::folder::Folder;
use headroom_collector::read_limits::Pace;
use headroom_collector::store::Store;
use headroom_core::amount::Quantity;
use headroom_report::progress::Progress;
use headroom_testkit::admission::AdmissionRequest;
use headroom_testkit::built;
use headroom_testkit::cluster::Cluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// 2026-11-20T00:00:00Z
const BEGIN: u64 = 1_795_132_800;
const MINUTES: u64 = 600;

struct Series {
    namespace: &'static str,
    pod: &'static str,
    image: &'static str,
    seed: u64,
}

/// One image in its own namespace; another in three namespaces, so that a fourth can use its pool.
const SERIES: [Series; 6] = [
    Series { namespace: "shop", pod: "web-0", image: "nginx:1.27", seed: 1 },
    Series { namespace: "shop", pod: "cache-0", image: "example.com/cache:3", seed: 2 },
    Series { namespace: "shop", pod: "cache-1", image: "example.com/cache:3", seed: 3 },
    Series { namespace: "blog", pod: "cache-0", image: "example.com/cache:3", seed: 4 },
    Series { namespace: "blog", pod: "cache-1", image: "example.com/cache:3", seed: 5 },
    Series { namespace: "mail", pod: "cache-0", image: "example.com/cache:3", seed: 6 },
];

impl Series {
    /// Millicores and mebibytes for each minute.
    fn samples(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut state = self.seed;
        (0..MINUTES).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (20 + (state >> 33) % 400, 50 + (state >> 41) % 300)
        })
    }
}

/// The 90th percentile of an image's samples in a namespace; of three namespaces that agree, the least.
fn exact(image: &str) -> (u64, u64) {
    let least = |amount: fn((u64, u64)) -> u64| {
        let of_namespace = |namespace: &str| {
            let is_its = |series: &&Series| series.image == image && series.namespace == namespace;
            let mut values: Vec<u64> = SERIES.iter().filter(is_its).flat_map(Series::samples).map(amount).collect();
            values.sort_unstable();
            values.get((values.len() * 9 / 10).saturating_sub(1)).copied()
        };
        ["shop", "blog", "mail"].into_iter().filter_map(of_namespace).min().unwrap()
    };
    (least(|(cpu, _)| cpu), least(|(_, memory)| memory))
}

/// Collects the samples, and writes the profiles into the folder.
async fn collect(folder: &Path) -> Cluster {
    let mut csv = String::from("time,namespace,pod,container,image,cpu,memory\n");
    for series in &SERIES {
        for (minute, (cpu, memory)) in (0..).zip(series.samples()) {
            let Series { namespace, pod, image, .. } = series;
            let time = BEGIN + minute * 60;
            writeln!(csv, "{time},{namespace},{pod},main,{image},{cpu}m,{memory}Mi").unwrap();
        }
    }
    fs::write(folder.join("usage.csv"), csv).unwrap();
    let rounds = Rounds {
        feed: Feed::Files { paths: vec![folder.join("usage.csv")], step_seconds: 60, buffer: 1 << 20 },
        source_name: "files".to_owned(),
        allow_source_change: false,
        store: Store::open(&folder.join("usage.redb")).unwrap(),
        destination: Destination::Folder(Folder { path: folder.join("profiles") }),
        lease: None,
        namespace: "headroom".to_owned(),
        tenant_label: None,
        pooling: Pooling::default(),
        rewrite_interval: 6 * 3600,
        replace_other_stores: false,
        pace: Pace::default(),
        as_of: Some("2026-11-21T00:00:00Z".parse().unwrap()),
        metrics: Arc::new(CollectorMetrics::default()),
        progress: Progress::hidden(),
        stop: CancellationToken::new(),
        identified: AtomicBool::new(false),
    };
    rounds.once().await.unwrap();
    let mut files = Vec::new();
    for namespace in fs::read_dir(folder.join("profiles")).unwrap() {
        let profiles = fs::read_dir(namespace.unwrap().path()).unwrap();
        files.extend(profiles.map(|profile| profile.unwrap().path()));
    }
    assert_eq!(files.len(), 64, "expected every root");
    Cluster::from_files(files).unwrap()
}

fn pod(namespace: &str, image: &str) -> AdmissionRequest {
    AdmissionRequest::from_value(json!({
        "uid": "5c0f1b8e", "operation": "CREATE", "namespace": namespace, "name": "new",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "ann"},
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": namespace},
            "spec": {"containers": [{"name": "main", "image": image}]}},
    }))
    .unwrap()
}

/// Sketches have an error of at most 1 %, and estimates are rounded up to a millicore or a mebibyte.
#[track_caller]
fn check_near(found: &Value, (exact, percent): (u64, u64), unit: &Quantity) {
    let found: Quantity = found.as_str().unwrap().parse().unwrap();
    let exact = unit.times_count(exact).scaled(percent, 100);
    let most = exact.scaled(101, 100).rounded_up_to_multiple_of(unit);
    assert!(exact.scaled(99, 100) <= found && found <= most, "{found} is not close to {exact}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_estimates_from_collected_usage() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = collect(folder.path()).await;
    let (host, access) = built::policy().unwrap();
    let settings = json!({"estimates": {
        "namespace": "headroom", "replayTime": "2026-11-21T01:00:00Z", "percentile": 90, "margin": {"cpu": 0, "memory": 0},
    }});
    // A day of history adds 5 % and 10 %; in the pool twice as much, and then 20 % for five pods.
    for (namespace, image, whose, samples, percents) in [
        ("shop", "nginx:1.27", "in this namespace", MINUTES, [105, 110]),
        ("fresh", "example.com/cache:3", "in all namespaces", 5 * MINUTES, [132, 144]),
    ] {
        let request = pod(namespace, image);
        let response = host.validate(&request, &settings, &access, &mut cluster);
        assert!(response.allowed, "{response:?}");
        let object = response.patched(request.object.as_ref().unwrap()).unwrap();
        let requests = &object["spec"]["containers"][0]["resources"]["requests"];
        let (cpu, memory) = exact(image);
        check_near(&requests["cpu"], (cpu, percents[0]), &Quantity::from_milli(1));
        check_near(&requests["memory"], (memory, percents[1]), &Quantity::from_bytes(1 << 20));
        assert_eq!(object["spec"]["containers"][0]["resources"].as_object().unwrap().len(), 1, "a limit was added");
        let annotation = object["metadata"]["annotations"]["headroom.dev/resources"].as_str().unwrap();
        let evidence = format!("p90 of 7d {image} {whose}, {samples} samples, 1h old");
        assert!(annotation.contains(&evidence), "{annotation}");
    }
}
