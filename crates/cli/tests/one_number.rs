//! One history has one number, whoever tells it: what a new pod gets from what was collected, with or without requests of its
//! author, what a running pod is resized to, and what is recommended from what was collected and from a metrics store.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic on unexpected data")]

use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::{Resource, Root};
use headroom_admission::timestamp::Timestamp;
use headroom_collector::profile::{self, Collected, Pooling};
use headroom_collector::store::Store;
use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Admission, evaluate, request};
use headroom_dry_run::settings::ParsedSettings;
use headroom_metrics_stores::{Reach, Sink, Source, SourceError};
use headroom_objects::cluster_reader::Folder;
use headroom_objects::kinds::ApiKind;
use headroom_recommend::engine::Engine;
use headroom_recommend::history::{Histories, read_instant};
use headroom_resizer::decision::{Amounts, Mode, Record, Rules, Used, Workload, decide};
use headroom_resizer::{ContainerFacts, facts, observed};
use headroom_usage::batch::Gathered;
use headroom_usage::sample::{Batch, Sample, SampledContainer, Series, Window};
use headroom_workloads::autoscaler::Autoscalers;
use headroom_workloads::inventory::WorkloadEntry;
use headroom_workloads::owner::PodOwners;
use headroom_workloads::program::ConfigMaps;
use serde_json::{Value, json};

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
/// 2026-11-18T00:00:00Z, from which on the store is read as one step.
const FROM: i64 = 1_385 * STEP;
const STEP: i64 = 15 * DAY;
const NOW: i64 = FROM + 14 * DAY + 12 * HOUR;
const MEBI: u64 = 1 << 20;
/// The seconds between two samples.
const RESOLUTION: i64 = 120;

/// A kind of use: millicores and mebibytes of a pod at a time.
struct Kind {
    name: &'static str,
    pods: usize,
    days: i64,
    used: fn(pod: usize, time: i64) -> (u64, u64),
}

fn day(time: i64) -> i64 {
    (time - FROM) / DAY
}

fn hour(time: i64) -> i64 {
    time.rem_euclid(DAY) / HOUR
}

/// Two weeks of so many pods.
const fn kind(name: &'static str, pods: usize, used: fn(pod: usize, time: i64) -> (u64, u64)) -> Kind {
    Kind { name, pods, days: 14, used }
}

const WEEKLY: fn(usize, i64) -> (u64, u64) = |_, at| if day(at) % 7 == 5 { (2_000, 1_600) } else { (350, 400) };
const NIGHTLY: fn(usize, i64) -> (u64, u64) = |_, at| if hour(at) < 2 { (1_900, 500) } else { (100, 300) };

const KINDS: &[Kind] = &[
    kind("steady", 3, |_, _| (200, 400)),
    kind("single", 1, |_, _| (200, 400)),
    kind("weekly", 3, WEEKLY),
    kind("weekly-single", 1, WEEKLY),
    kind("nightly", 3, NIGHTLY),
    kind("nightly-single", 1, NIGHTLY),
    kind("nightly-short", 3, |_, at| if at.rem_euclid(DAY) < 1800 { (1_900, 500) } else { (100, 300) }),
    kind("weekly-short", 3, |_, at| if day(at) % 7 == 5 && hour(at) < 3 { (1_900, 500) } else { (100, 300) }),
    kind("wave", 3, |_, at| (100 + (at.rem_euclid(DAY) - DAY / 2).unsigned_abs() / 100, 300)),
    kind("hot-pod", 8, |pod, _| (if pod == 3 { 900 } else { 200 }, 1_024)),
    kind("leader", 5, |pod, at| if day(at) % 5 == pod as i64 { (900, 900) } else { (200, 300) }),
    kind("load-test", 3, |_, at| if day(at) == 8 && (9..12).contains(&hour(at)) { (1_500, 6_200) } else { (300, 800) }),
    kind("one-day", 3, |_, at| if day(at) == 12 { (2_000, 1_600) } else { (350, 400) }),
    kind("shard", 8, |pod, _| (200, if pod == 3 { 8_192 } else { 1_024 })),
    kind("growth", 3, |_, at| {
        let days = (at - FROM).unsigned_abs();
        (100 + 15 * days / 86_400, 300 + 40 * days / 86_400)
    }),
    kind("peak", 3, |_, at| if day(at) % 4 == 2 && hour(at) == 4 { (300, 600) } else { (300, 400) }),
    Kind { days: 3, ..kind("short", 3, |_, at| if day(at) == 12 { (600, 900) } else { (200, 400) }) },
];

/// A source with all of it.
struct World;

#[async_trait::async_trait]
impl Source for World {
    async fn now(&self) -> Result<i64, SourceError> {
        Ok(FROM)
    }

    async fn namespaces(&self, _: Window) -> Result<Vec<String>, SourceError> {
        Ok(vec!["shop".to_owned()])
    }

    async fn read(&self, _: &[&str], _: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        sink(Batch::Usage(usage(Window { from: FROM, to: NOW })));
        Ok(())
    }

    fn step_seconds(&self) -> u32 {
        STEP as u32
    }

    fn reach(&self) -> Reach {
        Reach::Present
    }
}

/// The usage in a window.
fn usage(window: Window) -> Vec<Series> {
    let mut all = Vec::new();
    for Kind { name, pods, days, used } in KINDS {
        for pod in 0..*pods {
            let image = format!("example.com/{name}:1");
            let container = SampledContainer::of(["shop", &format!("{name}-{pod}"), "a", &image]);
            let times = (window.from.max(NOW - days * DAY)..window.to).step_by(RESOLUTION as usize);
            let of = |resource, value: &dyn Fn((u64, u64)) -> u64| Series {
                container: container.clone(),
                resource,
                samples: times
                    .clone()
                    .map(|time| Sample { time, value: value(used(pod, time)), seconds: RESOLUTION as u64 })
                    .collect(),
            };
            all.push(of(Resource::Cpu, &|(cpu, _)| cpu * 1_000_000));
            all.push(of(Resource::Memory, &|(_, memory)| memory * MEBI));
        }
    }
    all
}

fn workload(name: &str, pods: usize, resources: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": pods, "template": {"spec": {"containers": [
            {"name": "a", "image": format!("example.com/{name}:1"), "resources": resources}]}}}})
}

fn pod(name: &str, resources: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{name}-0"), "namespace": "shop"},
        "spec": {"containers": [{"name": "a", "image": format!("example.com/{name}:1"), "resources": resources}]}})
}

fn settings(mode: &str) -> Value {
    let now = Timestamp::from_unix_seconds(NOW).unwrap();
    let mut estimates = json!({"namespace": "headroom", "mode": mode, "replayTime": now.to_string()});
    if mode == "always" {
        estimates["always"] = json!({"namespaces": ["shop"]});
    }
    json!({"estimates": estimates})
}

/// The collected profiles, as a cluster has it.
fn published() -> Overlay {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("usage.redb")).unwrap();
    for from in (FROM..NOW).step_by(6 * HOUR as usize) {
        let (mut gathered, window) = (Gathered::default(), Window { from, to: from + 6 * HOUR });
        gathered.take(Batch::Usage(usage(window)), window);
        store.add_present(window, &gathered, None).unwrap();
    }
    let (at, behind) = (Timestamp::from_unix_seconds(NOW).unwrap(), BTreeMap::new());
    let collected = Collected { at, behind: &behind, restricted: None };
    let share = |root| profile::build(&store, "headroom", root, &collected, &Pooling::default()).unwrap();
    let mut objects = Folder::default();
    Root::all().flat_map(|root| share(root).lay_out()).for_each(|object| objects.put(object.to_value()).unwrap());
    objects.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).unwrap();
    Overlay::new(objects, None)
}

/// `200m 456Mi`
fn text(of: &Value) -> String {
    let amount = |name: &str| of[name].as_str().map(|text| text.parse::<Quantity>().unwrap());
    let (cpu, memory) = (amount("cpu").unwrap(), amount("memory").unwrap());
    format!("{}m {}Mi", cpu.milli_value(), memory.value() >> 20)
}

fn admitted(mode: &str, name: &str, resources: &Value, cluster: &mut Overlay) -> String {
    let pod = request::create(pod(name, resources), &ApiKind::new("v1", "Pod"), "shop");
    let decision = evaluate(pod, &ParsedSettings::of(&settings(mode)), cluster);
    let changed = decision.changed.unwrap_or_else(|| decision.request["object"].clone());
    text(&changed["spec"]["containers"][0]["resources"]["requests"])
}

fn recommended(usage: Option<&Histories>, kind: &Kind, cluster: &mut Overlay) -> String {
    let parsed = ParsedSettings::of(&settings("ifNotSet"));
    let (autoscalers, configs) = (&Autoscalers::default(), &ConfigMaps::default());
    let now = Timestamp::from_unix_seconds(NOW).unwrap();
    let engine = Engine {
        usage,
        autoscalers,
        settings: &parsed,
        admission: None,
        now,
        lowers_limits: false,
        declined: None,
        configs,
        kept: BTreeMap::new(),
    };
    let entry = WorkloadEntry::of_cluster(&workload(kind.name, kind.pods, &json!({})));
    let number = KINDS.iter().position(|of| of.name == kind.name).unwrap();
    let row = engine.recommend(number, &entry, cluster, &mut Vec::new()).unwrap().unwrap();
    let of = |resource| row.containers[0].resource(resource).unwrap().recommended.as_ref().map(Quantity::to_string);
    text(&json!({"cpu": of(Resource::Cpu), "memory": of(Resource::Memory)}))
}

fn resized(kind: &Kind, cluster: &mut Overlay) -> String {
    let admission = Admission::of_settings(&settings("ifNotSet"));
    let facts =
        facts::of_template(&workload(kind.name, kind.pods, &json!({})), 0, &admission, cluster).unwrap()["a"].clone();
    let more = |amount: Option<u64>| amount.unwrap() * 14 / 10;
    let (cpu, memory) = (more(facts.wanted.cpu), more(facts.wanted.memory));
    let mut pod = pod(kind.name, &json!({"requests": {"cpu": format!("{cpu}m"), "memory": memory.to_string()}}));
    pod["metadata"]["uid"] = json!("1");
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let amounts = Amounts { cpu: Some(1), memory: Some(1) };
    let used = Some(Used { at: NOW, amounts, mean_cpu: Some(1), stalled_percent: None });
    let pod = observed(&pod, Mode::On, &|_| ContainerFacts { days: 30, used, ..facts.clone() });
    let workload = Workload { pods: vec![pod], is_rolling_out: false, objective_is_met: None };
    let decision = decide(&workload, &Record::default(), NOW, &Rules::default(), 1, &mut |_, _| Ok(()));
    let to = decision.resizes[0].containers[0].to.requests;
    format!("{}m {}Mi", to.cpu.unwrap(), to.memory.unwrap() >> 20)
}

#[tokio::test]
async fn one_history_has_one_number() {
    let mut owners = PodOwners::default();
    for (number, kind) in KINDS.iter().enumerate() {
        owners.numbers.insert(headroom_workloads::WorkloadRef::new("shop", "StatefulSet", kind.name), number);
    }
    let histories: Histories = read_instant(&World, Some(&["shop".to_owned()]), owners).await.unwrap();
    let mut cluster = published();
    let mut differ = Vec::new();
    for kind in KINDS {
        let much = json!({"requests": {"cpu": "16", "memory": "64Gi"}});
        let all = [
            admitted("ifNotSet", kind.name, &json!({}), &mut cluster),
            admitted("always", kind.name, &much, &mut cluster),
            resized(kind, &mut cluster),
            recommended(None, kind, &mut cluster),
            recommended(Some(&histories), kind, &mut cluster),
        ];
        // With less than a week of history, the author's request stays.
        let always = if kind.days < 7 { "16000m 65536Mi" } else { &all[0] };
        if all[1] != always || [&all[2], &all[3], &all[4]].iter().any(|one| **one != all[0]) {
            differ.push((kind.name, all));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn no_running_pod_is_lowered_below_what_its_program_is_told() {
    let check = |fields: Value, expected: Option<u64>| {
        let mut object = workload(KINDS[0].name, 1, &json!({"limits": {"memory": "4Gi"}}));
        let container = object["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap();
        container.extend(fields.as_object().unwrap().clone());
        let admission = Admission::of_settings(&settings("ifNotSet"));
        let facts = facts::of_template(&object, 0, &admission, &mut published()).unwrap()["a"].clone();
        assert_eq!(facts.floor.memory.map(|floor| floor >> 20), expected, "{fields}");
    };
    check(json!({}), Some(400));
    check(json!({"args": ["-Xmx3g"]}), Some(3_072));
    check(json!({"env": [{"name": "JAVA_OPTS", "value": "-XX:MaxRAMPercentage=50"}]}), Some(2_048));
    check(json!({"command": ["redis-server", "--maxmemory", "64mb"]}), Some(400));
    // Go collects garbage before its heap reaches this, unless garbage collection is switched off.
    let of_request = json!({"name": "GOMEMLIMIT", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory"}}});
    check(json!({"env": [of_request]}), Some(400));
    check(json!({"env": [of_request, {"name": "GOGC", "value": "off"}]}), None);
}
