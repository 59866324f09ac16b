//! An in-memory source of samples, whose answers and failures a test chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use headroom_admission::cluster::usage::profile_layout::key_of;
use headroom_admission::cluster::usage::{Percentile, Root};
use headroom_admission::timestamp::Timestamp;
use headroom_api_server::retry::Retry;
use headroom_collector::backfill::{BackfillOutcome, BackfillRun, RunError};
use headroom_collector::metrics::CollectorMetrics;
use headroom_collector::profile::{self, Collected, Pooling};
use headroom_collector::read_limits::Pace;
use headroom_collector::store::Store;
use headroom_metrics_stores::cluster_id::ClusterId;
use headroom_metrics_stores::{Reach, Sink, Source, SourceError};
use headroom_output::progress::Progress;
use headroom_usage::batch::Gathered;
use headroom_usage::observed::Observed;
use headroom_usage::sample::{Batch, OomKill, Resource, Sample, SampledContainer, Series, Window};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub const STEP: i64 = 60;
pub const HOUR: i64 = 3600;
pub const DAY: i64 = 86_400;
/// 2026-11-21T00:00:00Z
pub const NOW: i64 = 1_795_219_200;

/// One container's usage, as a function of time.
pub struct Workload {
    pub namespace: &'static str,
    pub pod: &'static str,
    pub image: &'static str,
    pub from: i64,
    pub to: i64,
}

pub struct Scripted {
    pub cluster: ClusterId,
    pub now: i64,
    pub reach: Reach,
    /// The pace at which [`collect`] reads it.
    pub pace: Pace,
    pub workloads: Vec<Workload>,
    /// Longer windows are refused as too much.
    pub bears: i64,
    /// These namespaces cannot be read.
    pub broken: Mutex<BTreeSet<&'static str>>,
    /// The number of reads of each namespace that fail before one succeeds.
    pub hiccups: u32,
    /// Answers include samples of the minutes around the window.
    pub sloppy: bool,
    pub failed: Mutex<BTreeMap<String, u32>>,
    /// The current and the highest number of concurrent reads.
    pub under_way: Mutex<(u32, u32)>,
    pub reads: Mutex<Vec<(String, Window)>>,
    pub step_seconds: u32,
    /// It does not tell its time.
    pub is_away: Arc<AtomicBool>,
}

impl Scripted {
    pub fn new(workloads: Vec<Workload>) -> Self {
        Self {
            cluster: ClusterId::default(),
            now: NOW,
            reach: Reach::Past,
            pace: pace(),
            workloads,
            bears: i64::MAX,
            broken: Mutex::default(),
            hiccups: 0,
            sloppy: false,
            failed: Mutex::default(),
            under_way: Mutex::default(),
            reads: Mutex::default(),
            step_seconds: STEP as u32,
            is_away: Arc::default(),
        }
    }

    /// The usage at a time: different for each workload, and never the same twice in a row.
    fn amount(workload: &Workload, time: i64) -> u64 {
        let seed = workload.pod.bytes().fold(time as u64 / 60, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
        1_000_000 + seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 500_000_000
    }
}

#[async_trait]
impl Source for Scripted {
    async fn cluster(&self) -> Result<ClusterId, SourceError> {
        Ok(self.cluster.clone())
    }

    async fn now(&self) -> Result<i64, SourceError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(SourceError::Temporary("connection refused".to_owned()));
        }
        Ok(self.now)
    }

    async fn namespaces(&self, window: Window) -> Result<Vec<String>, SourceError> {
        if self.bears == 0 {
            return Err(SourceError::Overloaded("too many queries".to_owned()));
        }
        let there = self.workloads.iter().filter(|workload| workload.from < window.to && window.from < workload.to);
        let names: BTreeSet<String> = there.map(|workload| workload.namespace.to_owned()).collect();
        Ok(names.into_iter().collect())
    }

    async fn read(&self, namespaces: &[&str], window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        for &namespace in namespaces {
            {
                let mut under_way = self.under_way.lock().unwrap();
                under_way.0 += 1;
                under_way.1 = under_way.1.max(under_way.0);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            self.under_way.lock().unwrap().0 -= 1;
            if window.seconds() > self.bears {
                return Err(SourceError::Overloaded("query would load too many samples".to_owned()));
            }
            if self.broken.lock().unwrap().contains(namespace) {
                return Err(SourceError::Permanent("no such tenant".to_owned()));
            }
            let margin = if self.sloppy { STEP } else { 0 };
            for workload in self.workloads.iter().filter(|workload| workload.namespace == namespace) {
                let (from, to) = (workload.from.max(window.from - margin), workload.to.min(window.to + margin));
                let times = (from..to).filter(|time| time % STEP == 0);
                let samples: Vec<Sample> = times
                    .map(|time| Sample { time, value: Self::amount(workload, time), seconds: STEP as u64 })
                    .collect();
                let container = SampledContainer::of([namespace, workload.pod, "main", workload.image]);
                let series = |resource| Series { container: container.clone(), resource, samples: samples.clone() };
                sink(Batch::Usage(vec![series(Resource::Cpu)]));
                // Samples before a failure must not count.
                let failures = self.failed.lock().unwrap().get(namespace).copied().unwrap_or(0);
                if failures < self.hiccups {
                    *self.failed.lock().unwrap().entry(namespace.to_owned()).or_default() += 1;
                    return Err(SourceError::Temporary("connection reset".to_owned()));
                }
                sink(Batch::Usage(vec![series(Resource::Memory)]));
                let at = workload.to - STEP;
                if window.contains(at) || self.sloppy {
                    sink(Batch::OomKills(vec![OomKill { container: container.clone(), at, memory: 64 << 20 }]));
                }
            }
            self.reads.lock().unwrap().push((namespace.to_owned(), window));
        }
        Ok(())
    }

    fn step_seconds(&self) -> u32 {
        self.step_seconds
    }

    fn namespaces_at_once(&self) -> usize {
        2
    }

    fn reach(&self) -> Reach {
        self.reach
    }
}

pub fn three_workloads() -> Vec<Workload> {
    vec![
        Workload { namespace: "shop", pod: "web-0", image: "nginx:1.27", from: NOW - 3 * DAY, to: NOW - HOUR },
        Workload { namespace: "shop", pod: "web-1", image: "nginx:1.28", from: NOW - 20 * DAY, to: NOW - 2 * DAY },
        Workload { namespace: "lab", pod: "job-0", image: "registry.example/lab/job:5", from: NOW - 2 * DAY, to: NOW },
    ]
}

pub fn pace() -> Pace {
    let retry = Retry { attempts: 4, first_wait: Duration::from_millis(1), longest_wait: Duration::from_millis(2) };
    Pace { retry, ..Pace::default() }
}

/// The usage of a container that is called `web`.
pub fn used(namespace: &str, pod: &str, image: &str, resource: Resource, samples: Vec<Sample>) -> Batch {
    Batch::Usage(vec![Series { container: SampledContainer::of([namespace, pod, "web", image]), resource, samples }])
}

pub fn gathered(window: Window, batches: impl IntoIterator<Item = Batch>) -> Gathered {
    let mut gathered = Gathered::default();
    batches.into_iter().for_each(|batch| gathered.take(batch, window));
    gathered
}

pub fn add(store: &Store, window: Window, batches: impl IntoIterator<Item = Batch>) {
    store.add_present(window, &gathered(window, batches), None).unwrap();
}

pub async fn fill(store: &Store, source: &Scripted, namespaces: &[&str], window: Window) {
    let mut batches = Vec::new();
    source.read(namespaces, window, &mut |batch| batches.push(batch)).await.unwrap();
    add(store, window, batches);
}

pub async fn collect(source: &Scripted, store: &Store, stop: &CancellationToken) -> Result<BackfillOutcome, RunError> {
    let (metrics, progress) = (CollectorMetrics::default(), Progress::hidden());
    let run = BackfillRun { source, store, pace: &source.pace, metrics: &metrics, progress: &progress, stop };
    match source.reach {
        Reach::Past => run.catch_up().await,
        Reach::Present => run.look().await,
    }
}

/// All profiles as text: equal if and only if the same samples were counted.
pub fn published(store: &Store, as_of: i64) -> String {
    let texts = texts(store, as_of, &Pooling { quorum: 1, ..Pooling::default() });
    texts.into_iter().filter(|text| text.contains(r#""images":{"#)).map(|text| text + "\n").collect()
}

pub fn objects(store: &Store, as_of: i64, pooling: &Pooling) -> Vec<Value> {
    texts(store, as_of, pooling).iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

fn texts(store: &Store, as_of: i64, pooling: &Pooling) -> Vec<String> {
    let (at, behind) = (Timestamp::from_unix_seconds(as_of).unwrap(), BTreeMap::new());
    let collected = Collected { at, behind: &behind, restricted: None };
    let share = |root| profile::build(store, "headroom", root, &collected, pooling).unwrap();
    Root::all().flat_map(|root| share(root).lay_out()).map(|object| serde_json::to_string(&object).unwrap()).collect()
}

/// The histories of an image in some objects, in a namespace or in the `pool`, with each tag and workload expanded.
pub fn histories<'o>(objects: impl IntoIterator<Item = &'o Value>, repository: &str, of: &str) -> Value {
    let key = key_of(repository);
    for object in objects {
        let image = &object["spec"]["images"][&key];
        let found = if of == "pool" { &image["pool"] } else { &image["own"][of] };
        if found.is_null() {
            continue;
        }
        let mut found = found.clone();
        let same = found["all"]["same"].take();
        for key in same.as_array().into_iter().flatten().map(|key| key.as_str().unwrap()) {
            found[if key.contains('/') { "workloads" } else { "tags" }][key] = found["all"].clone();
        }
        return found;
    }
    Value::Null
}

/// A figure of a published usage: `samples`, `peak`, or a percentile such as `99.9`.
pub fn figure(usage: &Value, name: &str) -> String {
    let percentile = name.parse::<Percentile>().ok().and_then(Percentile::place);
    let found = percentile.map_or_else(|| &usage[name], |place| &usage["percentiles"][place]);
    found.as_str().map_or_else(|| found.to_string(), str::to_owned)
}

pub fn namespaces(store: &Store) -> Vec<String> {
    let mut namespaces = BTreeSet::new();
    for root in Root::all() {
        store.visit_root(root, Observed::read_last_seen, |place, _| _ = namespaces.insert(place.namespace)).unwrap();
    }
    namespaces.into_iter().collect()
}

/// An empty store in a folder of its own.
pub fn new_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    (folder, store)
}

pub fn open(folder: &Path) -> Store {
    Store::open(&folder.join("usage.redb")).unwrap()
}
