//! A recommendation from a metrics store is the request that admission gives to the next pod of the workload.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::advice::flag::Flag;
use crate::advice::risk;
use crate::advice::workload::Workload;
use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Verdict, evaluate};
use headroom_objects::cluster_reader::{CompressedObject, Folder, List};
use headroom_objects::manifest::documents;
use headroom_usage::DAY;
use headroom_usage::observed::{Kill, Observed};

/// 2026-11-22T12:00:00Z
pub const NOW: i64 = 1_795_348_800;
pub const MEBI: u64 = 1 << 20;

mod shapes;

/// The usage of a pod until a time, and for so many seconds.
pub fn usage(pod: u32, until: i64, [cpu_milli, memory_mebi]: [u64; 2], seconds: u64) -> Observed {
    let mut observed = Observed::default();
    observed.pods.add(pod);
    observed.add(Resource::Cpu, until, cpu_milli * 1_000_000, seconds);
    observed.add(Resource::Memory, until, memory_mebi * MEBI, seconds);
    observed
}

/// Days of a pod, with its millicores and mebibytes by their age.
fn days(count: u32, cpu: fn(age: u32) -> u64, memory: fn(age: u32) -> u64) -> Histories {
    let mut histories = Histories::default();
    (0..count).for_each(|age| {
        histories.observe_pod(0, "a", age, 1, &usage(1, NOW, [cpu(age), memory(age)], 86_400));
    });
    histories
}

fn observed(cpu_milli: u64, memory_mebi: u64, kill: Option<u64>) -> Observed {
    // Enough to lower a request.
    let mut observed = usage(1, NOW - 600, [cpu_milli, memory_mebi], 3 * 86_400);
    if let Some(memory) = kill {
        observed.add_kill(Kill { at: NOW - 3_000, memory: memory * MEBI, of: 1 });
    }
    observed
}

fn workload(containers: Value) -> WorkloadEntry {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": containers}}}});
    WorkloadEntry::of_cluster(&object)
}

/// A workload of one container.
fn one(resources: Value) -> WorkloadEntry {
    workload(json!([{"name": "a", "image": "example.com/a:1", "resources": resources}]))
}

/// A Deployment, or a CronJob of such pods.
fn entry_of(kind: &str, containers: Value) -> WorkloadEntry {
    let entry = workload(containers);
    if kind != "CronJob" {
        return entry;
    }
    let object = entry.object.value();
    let template = json!({"spec": {"template": object["spec"]["template"]}});
    WorkloadEntry::of_cluster(&json!({"apiVersion": "batch/v1", "kind": kind, "metadata": object["metadata"],
        "spec": {"schedule": "0 1 * * *", "jobTemplate": template}}))
}

pub fn around(objects: &[Value]) -> Overlay {
    let mut folder = Folder::default();
    objects.iter().for_each(|object| folder.put(object.clone()).unwrap());
    Overlay::new(folder, None)
}

fn limits(item: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": "shop"},
        "spec": {"limits": [item]}})
}

fn advised(workload: &WorkloadEntry, used: &[(&str, Observed)], around: &mut Overlay) -> Workload {
    advised_from(Some(&histories(used)), false, workload, around)
}

/// The usage of containers on one day.
fn histories(used: &[(&str, Observed)]) -> Histories {
    let mut histories = Histories::default();
    used.iter().for_each(|(container, observed)| histories.observe(0, container, 0, observed));
    histories
}

/// The settings with these of estimates, at the time of the tests.
pub fn settings(mut estimates: Value) -> ParsedSettings {
    (estimates["namespace"], estimates["replayTime"]) = (json!("headroom"), json!("2026-11-22T12:00:00Z"));
    ParsedSettings::of(&json!({"estimates": estimates}))
}

pub fn engine<'s>(
    usage: Option<&'s Histories>,
    settings: &'s ParsedSettings,
    autoscalers: &'s Autoscalers,
    configs: &'s ConfigMaps,
) -> Engine<'s> {
    let (now, admission, declined, kept) = (settings.now().unwrap(), None, None, BTreeMap::new());
    Engine { usage, autoscalers, settings, admission, now, lowers_limits: false, declined, configs, kept }
}

/// A cluster with what some containers used, and their images, in UsageProfiles.
fn published<'o>(histories: &Histories, containers: &[(&str, &str)], around: &'o mut Overlay) -> HistoryOverlay<'o> {
    let published = containers.iter().filter_map(|&(name, image)| {
        let history = histories.get(0, name)?.usage.history()?;
        Some(overlay::ContainerHistory { name, image, history, is_asked: false })
    });
    HistoryOverlay::with(around, "shop", Timestamp::from_unix_seconds(NOW).unwrap(), "web", published)
}

fn advised_from(
    usage: Option<&Histories>,
    lowers_limits: bool,
    workload: &WorkloadEntry,
    around: &mut dyn ClusterReader,
) -> Workload {
    advised_with(json!({}), usage, lowers_limits, workload, around)
}

/// The advice by UsageProfiles with the history of the container.
fn advised_by_profiles(
    estimates: Value,
    workload: &WorkloadEntry,
    histories: &Histories,
    objects: &[Value],
) -> Workload {
    let mut around = around(objects);
    let mut cluster = published(histories, &[("a", "example.com/a:1")], &mut around);
    advised_with(estimates, None, false, workload, &mut cluster)
}

/// The advice by these settings of estimates.
fn advised_with(
    estimates: Value,
    usage: Option<&Histories>,
    lowers_limits: bool,
    workload: &WorkloadEntry,
    around: &mut dyn ClusterReader,
) -> Workload {
    let (settings, autoscalers, configs) = (settings(estimates), Autoscalers::default(), ConfigMaps::default());
    let engine = Engine { lowers_limits, ..engine(usage, &settings, &autoscalers, &configs) };
    engine.recommend(0, workload, around, &mut Vec::new()).unwrap().unwrap()
}

/// The requests that admission gives to a pod of the workload that names none itself, with the same history published and
/// the recommended limits.
fn admitted(
    workload: &WorkloadEntry,
    row: &Workload,
    used: &[(&str, Observed)],
    around: &mut Overlay,
) -> Option<Vec<Value>> {
    let mut pod = headroom_workloads::pod_of(&workload.object.value()).unwrap();
    for (container, row) in pod["spec"]["containers"].as_array_mut().unwrap().iter_mut().zip(&row.containers) {
        let mut limits = container["resources"]["limits"].clone();
        if let Some(limit) = row.resource(Resource::Memory).and_then(|memory| memory.recommended_limit.clone()) {
            limits["memory"] = json!(limit.to_string());
        }
        container["resources"] = json!({});
        // The API server would make requests of them, which are not ours to see here.
        if limits.is_object() {
            container["resources"] = json!({"limits": limits});
        }
    }
    let names: Vec<_> = row.containers.iter().map(|row| (row.name.as_str(), row.image.as_str())).collect();
    let mut overlay = published(&histories(used), &names, around);
    let kind = ApiKind::new("v1", "Pod");
    let evaluation = evaluate(review::create(pod, &kind, "shop"), &settings(json!({})), &mut overlay);
    if evaluation.verdict == Verdict::Rejected {
        return None;
    }
    let changed = evaluation.changed.unwrap_or(evaluation.request["object"].clone());
    let containers = changed["spec"]["containers"].as_array().unwrap();
    Some(containers.iter().map(|container| container["resources"]["requests"].clone()).collect())
}

fn recommended(row: &Workload) -> Vec<Value> {
    let of = |container: &ContainerAdvice| {
        let text = |resource| container.resource(resource).unwrap().recommended.as_ref().map(ToString::to_string);
        json!({"cpu": text(Resource::Cpu), "memory": text(Resource::Memory)})
    };
    row.containers.iter().map(of).collect()
}

/// Equal as amounts, whatever their suffixes.
fn same(a: &[Value], b: &[Value]) -> bool {
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| ["cpu", "memory"].iter().all(|name| amount(&a[name]) == amount(&b[name])))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Two containers, with images of their own or with one.
    #[test]
    fn the_next_pod_gets_what_the_scan_recommends(
        cpu in 0..4_000_u64,
        memory in 1..4_000_u64,
        kill in proptest::option::of(64..2_000_u64),
        other in 1..500_u64,
        image in prop_oneof![Just("example.com/a:1"), Just("example.com/b:1")],
        bounds in prop_oneof![
            Just(json!({"type": "Container"})),
            Just(json!({"type": "Container", "min": {"cpu": "200m", "memory": "300Mi"}})),
            Just(json!({"type": "Container", "max": {"cpu": "2", "memory": "2Gi"}})),
            Just(json!({"type": "Pod", "max": {"cpu": "3"}})),
        ],
    ) {
        let workload = workload(json!([
            {"name": "a", "image": "example.com/a:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            {"name": "b", "image": image, "resources": {}},
        ]));
        let used = [("a", observed(cpu, memory, kill)), ("b", observed(other, other, None))];
        let mut around = around(&[limits(bounds)]);
        let row = advised(&workload, &used, &mut around);
        if let Some(admitted) = admitted(&workload, &row, &used, &mut around) {
            let recommended = recommended(&row);
            prop_assert!(same(&recommended, &admitted), "{recommended:?} {admitted:?}");
        }
    }
}

#[test]
fn containers_with_one_image_get_advice_of_their_own() {
    let workload = workload(json!([
        {"name": "web", "image": "example.com/app:1"},
        {"name": "worker", "image": "example.com/app:1"},
        {"name": "cron", "image": "example.com/app:2"},
    ]));
    let used = [("web", observed(100, 100, None)), ("worker", observed(2_000, 1_000, None))];
    let row = advised(&workload, &used, &mut around(&[]));
    let cpu: Vec<_> =
        row.containers.iter().map(|row| row.resource(Resource::Cpu).unwrap().recommended.clone()).collect();
    assert!(cpu[0] < cpu[1], "{cpu:?}");
    assert_eq!(cpu[2], None, "{cpu:?}");
}

#[test]
fn memory_that_is_always_zero_is_not_measured() {
    let mut row = advised(&one(json!({})), &[("a", observed(100, 0, None))], &mut around(&[]));
    let container = row.containers.remove(0);
    assert!(container.resource(Resource::Cpu).unwrap().recommended.is_some());
    assert_eq!(
        container.resource(Resource::Memory).unwrap().explained(),
        "no recommendation: each sample of its memory is 0: what measures it does not work"
    );
}

#[test]
fn memory_covers_every_peak_of_its_history_unless_a_bound_forbids_it() {
    let mut usage = observed(100, 400, None);
    usage.add(Resource::Memory, NOW - 600, 400 * MEBI, 80_000);
    usage.add(Resource::Memory, NOW - 600, 900 * MEBI, 60);
    let used = [("a", usage)];
    let memory = |range: Value| {
        let container = advised(&one(json!({})), &used, &mut around(&[limits(range)])).containers.remove(0);
        let memory = container.resource(Resource::Memory).unwrap();
        let reason = memory.explained().split("; ").last().unwrap().to_owned();
        (memory.recommended.as_ref().unwrap().to_string(), container.is_below_peak(), reason)
    };
    let (amount, is_below, reason) = memory(json!({"type": "Container"}));
    assert_eq!((amount.as_str(), is_below), ("990Mi", false), "{reason}");
    let (amount, is_below, reason) = memory(json!({"type": "Container", "max": {"memory": "800Mi"}}));
    assert_eq!((amount.as_str(), is_below), ("800Mi", true));
    assert!(reason.ends_with("to the max of LimitRange limits"), "{reason}");
}

#[test]
fn a_pod_that_must_request_more_than_it_uses_gets_the_rest_in_its_largest_container() {
    let workload = workload(json!([
        {"name": "main", "image": "example.com/a:1"},
        {"name": "sidecar", "image": "example.com/b:1", "resources": {"requests": {"cpu": "100m"}}},
    ]));
    let used = [("main", observed(60, 100, None)), ("sidecar", observed(20, 100, None))];
    let row = advised(&workload, &used, &mut around(&[limits(json!({"type": "Pod", "min": {"cpu": "500m"}}))]));
    let cpu = |container: &ContainerAdvice| container.resource(Resource::Cpu).unwrap().recommended.clone().unwrap();
    let [main, sidecar] = [&row.containers[0], &row.containers[1]];
    assert_eq!(cpu(main).plus(&cpu(sidecar)).to_string(), "500m");
    let reason = main.resource(Resource::Cpu).unwrap().explained();
    assert!(reason.ends_with("for the pod min of LimitRange limits") && cpu(main) > cpu(sidecar), "{reason}");
}

#[test]
fn no_risk_is_fixed_by_less_than_is_used_or_by_parts_of_whole_cpus_and_a_bound_is_named() {
    let check = |cpu, memory, resources: Value, bounds: Value, expected: &str| {
        let used = [("a", observed(cpu, memory, None))];
        let row = advised(&one(resources), &used, &mut around(&[limits(bounds)]));
        let risks = risk::of_all(std::slice::from_ref(&row));
        assert!(risks.iter().any(|risk| risk.fix == expected), "{risks:?}");
    };
    let max = json!({"type": "Container", "max": {"memory": "512Mi"}});
    let bound = "raise the max of LimitRange limits (512Mi) to at least 1207Mi";
    check(100, 939, json!({"requests": {"cpu": "1", "memory": "256Mi"}}), max.clone(), bound);
    check(100, 939, json!({"requests": {"cpu": "1", "memory": "512Mi"}}), max, bound);
    let roomy = json!({"type": "Container", "max": {"memory": "2Gi"}});
    let raise = "raise the memory request to 1207Mi";
    check(100, 939, json!({"requests": {"cpu": "1", "memory": "512Mi"}}), roomy, raise);
    let both = json!({"cpu": "4", "memory": "1Gi"});
    let whole = json!({"requests": both, "limits": both});
    let together = "if it needs more, raise CPU request and limit together, to whole CPUs";
    check(4_100, 100, whole, json!({"type": "Container"}), together);
}

/// The advice for a container with a limit of 2Gi that ran for two weeks, with its millicores and mebibytes by the age of the day.
fn advised_over_days(cpu: fn(age: u32) -> u64, memory: fn(age: u32) -> u64) -> ContainerAdvice {
    let workload = one(json!({"limits": {"memory": "2Gi"}}));
    advised_from(Some(&days(15, cpu, memory)), false, &workload, &mut around(&[])).containers.remove(0)
}

#[test]
fn steady_growth_is_covered_for_a_week_and_told_with_the_day_of_the_limit() {
    let container = advised_over_days(|age| 300 - 10 * u64::from(age), |age| 1_500 - 100 * u64::from(age));
    let cpu = container.resource(Resource::Cpu).unwrap().recommended.as_ref().unwrap().milli_value();
    assert!((375..=385).contains(&cpu), "{cpu}");
    let grows: Vec<String> = container.grows.iter().map(ToString::to_string).collect();
    assert_eq!(
        grows,
        [
            "cpu grows 10m a day, reaches its request on 2026-12-01",
            "memory grows 100Mi a day, reaches its request on 2026-11-28, its limit on 2026-11-28"
        ]
    );
    // Two steps are no growth, nor is a sawtooth.
    for memory in [|age| if age < 6 { 800 } else { 300 }, |age| 800 - 100 * u64::from(age % 4)] {
        assert_eq!(advised_over_days(|_| 100, memory).grows, []);
    }
}

/// The recommended request and limit.
fn memory_of(container: &ContainerAdvice) -> [Option<String>; 2] {
    let advice = container.resource(Resource::Memory).unwrap();
    [&advice.recommended, &advice.recommended_limit].map(|amount| amount.as_ref().map(ToString::to_string))
}

#[test]
fn what_a_container_is_told_by_its_state_and_arguments() {
    let check = |resources: Value,
                 memory: fn(u32) -> u64,
                 of: &dyn Fn(&mut WorkloadEntry),
                 expected: [Option<&str>; 2],
                 flag: &str| {
        let mut workload = workload(json!([{"name": "a", "image": "example.com/a:1", "resources": resources,
            "args": ["-Xmx1g"]}]));
        of(&mut workload);
        let histories = days(14, |_| 100, memory);
        let row = advised_from(Some(&histories), true, &workload, &mut around(&[]));
        let flags: Vec<String> = row.flags(&row.containers[0]).iter().map(ToString::to_string).collect();
        assert_eq!(memory_of(&row.containers[0]), expected.map(|amount| amount.map(str::to_owned)), "{flags:?}");
        assert_eq!(flags.join(", "), flag);
    };
    let requests = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    let both = json!({"requests": {"cpu": "100m", "memory": "4Gi"}, "limits": {"memory": "4Gi"}});
    // A heap that it may still fill: lowering request or limit below it would kill.
    check(both.clone(), |_| 500, &|_| {}, [Some("1Gi"), None], "reads -Xmx1g");
    check(requests("100m", "700Mi"), |_| 500, &|_| {}, [Some("700Mi"), None], "reads -Xmx1g");
    check(requests("100m", "4Gi"), |_| 1_500, &|_| {}, [Some("1666Mi"), None], "");
    // Page cache fills whatever limit there is.
    check(both.clone(), |_| 4_080, &|_| {}, [Some("4Gi"), None], "at its limit");
    // A leak is not given less.
    let leak = "memory grows 50Mi a day, reaches its request on 2027-01-23, its limit on 2027-01-23";
    check(both.clone(), |age| 1_000 - 50 * u64::from(age), &|_| {}, [None, None], leak);
    check(
        requests("100m", "256Mi"),
        |age| 1_000 - 50 * u64::from(age),
        &|_| {},
        [Some("1116Mi"), None],
        "memory grows 50Mi a day, reaches its request on 2026-11-25",
    );
    // Usage of starts is none, unless other pods of it run.
    let crashes = |pods: u64| {
        move |of: &mut WorkloadEntry| {
            of.running.pods = pods;
            of.running.crash_loops.insert("a".to_owned(), 1);
        }
    };
    check(requests("100m", "4Gi"), |_| 1_500, &crashes(1), [None, None], "crash loop");
    check(requests("100m", "4Gi"), |_| 1_500, &crashes(2), [Some("1666Mi"), None], "");
    let guaranteed = json!({"limits": {"cpu": "500m", "memory": "2Gi"}});
    check(guaranteed, |_| 1_500, &|_| {}, [Some("1666Mi"), None], "qos");
}

#[test]
fn pods_that_run_but_would_be_rejected_are_named() {
    let requests = json!({"cpu": "100m", "memory": "100Mi"});
    let mut workload = one(json!({"requests": requests, "limits": {"cpu": "2", "memory": "100Mi"}}));
    workload.exists = true;
    let bounds = limits(json!({"type": "Container", "min": {"cpu": "200m"}, "max": {"cpu": "1"}}));
    let row = advised(&workload, &[("a", observed(50, 80, None))], &mut around(&[bounds]));
    assert_eq!(recommended(&row), [json!({"cpu": null, "memory": "168Mi"})]);
    assert!(row.shared_flags.contains(&Flag::Rejected), "{:?}", row.shared_flags);
    assert_eq!(
        row.notes,
        [
            "container a: cpu estimate dropped: maximum cpu usage per Container is 1, but limit is 2 (LimitRange limits)",
            "its pods would be rejected if they were created again: minimum cpu usage per Container is 200m, but request is 100m (LimitRange limits); \
          and 1 more"
        ]
    );
}

#[test]
fn a_container_that_runs_unseen_for_a_day_gets_no_advice() {
    let check = |place: &str, is_running: bool, unseen_days: i64, age: u64, flag: Option<Flag>| {
        let mut object = workload(json!([{"name": "b", "image": "example.com/b:1"}])).object.value();
        object["spec"]["template"]["spec"][place] = json!([{"name": "a", "image": "example.com/a:1"}]);
        let mut workload = WorkloadEntry::of_cluster(&object);
        workload.running.pods = u64::from(is_running);
        let mut histories = Histories::default();
        histories.to = NOW;
        for day in unseen_days..14 {
            histories.observe_pod(0, "a", day as u32, 1, &usage(1, NOW - day * DAY - 60, [100, 100], 86_400));
        }
        let row = advised_from(Some(&histories), false, &workload, &mut around(&[]));
        let container = row.containers.iter().find(|of| of.name == "a").unwrap();
        let cpu = container.resource(Resource::Cpu).unwrap();
        assert_eq!(cpu.recommended.is_none(), flag.is_some(), "{}", cpu.explained());
        assert_eq!(row.flags(container).into_iter().find(|flag| matches!(flag, Flag::Stale(_))), flag);
        let text = cpu.explained();
        match flag {
            Some(_) => {
                assert_eq!(text, format!("no recommendation: its usage was last seen {unseen_days} d ago, but it runs"))
            }
            None => assert_eq!(serde_json::to_value(&cpu.reason).unwrap()["history"]["ageSeconds"], age, "{text}"),
        }
        let timeline = container.timeline.as_ref().unwrap();
        assert_eq!((timeline.from, timeline.cpu.len()), (1_794_182_400, 14));
        assert_eq!(timeline.cpu.iter().filter(|peak| peak.is_none()).count() as i64, unseen_days);
        // Thousandths of a core and KiB, at most by what a bucket of usage is wide.
        let drawn = |peaks: &[Option<u64>]| peaks.iter().flatten().next().copied().unwrap();
        let (cpu, memory) = (drawn(&timeline.cpu), drawn(&timeline.memory));
        assert!((100..=105).contains(&cpu) && (100 << 10..=105 << 10).contains(&memory), "{cpu} {memory}");
    };
    check("containers", true, 0, 60, None);
    check("containers", true, 10, 0, Some(Flag::Stale(10)));
    // What does not run, such as a Deployment without replicas, has its last usage.
    check("containers", false, 10, 10 * DAY as u64 + 60, None);
    // An init container has ended.
    check("initContainers", true, 10, 10 * DAY as u64 + 60, None);
}

#[test]
fn a_memory_limit_falls_only_if_asked_and_while_peaks_do_not_rise() {
    let workload = one(json!({"limits": {"memory": "2Gi"}}));
    let check = |count: u32, lowers_limits, memory: fn(u32) -> u64, expected: Option<&str>| {
        let histories = days(count, |_| 1, memory);
        let usage = Some(&histories);
        let [_, limit] = memory_of(&advised_from(usage, lowers_limits, &workload, &mut around(&[])).containers[0]);
        assert_eq!(limit.as_deref(), expected, "{count} days");
    };
    check(14, false, |_| 1_000, None);
    check(14, true, |_| 1_000, Some("1200Mi"));
    check(3, true, |_| 1_000, None);
    check(14, true, |age| if age < 2 { 1_000 } else { 800 }, None);
    check(14, true, |age| 1_000 - 50 * u64::from(age), None);
    // It rises without being asked, but not by a tenth.
    check(14, false, |_| 1_600, None);
    check(14, false, |_| 2_000, Some("2400Mi"));
    // Nor for what is over.
    check(14, false, |age| if age < 5 { 1_000 } else { 2_000 }, None);
}

#[test]
fn what_is_enough_is_counted_in_time_or_in_runs() {
    let check = |kind: &str, pods: u32, minutes: u64, text: &str, expected: bool| {
        // Two are two weeks apart.
        let days_between = if kind == "CronJob" { 1 } else { 13 * u32::from(pods == 2) };
        let entry = entry_of(kind, json!([{"name": "a", "image": "example.com/a:1"}]));
        let mut histories = Histories::default();
        for pod in 0..pods {
            histories.observe_pod(0, "a", pod * days_between, pod, &usage(pod, NOW, [100, 400], minutes * 60));
        }
        let container = advised_from(Some(&histories), false, &entry, &mut around(&[])).containers.remove(0);
        let evidence = container.evidence.unwrap().to_string();
        assert_eq!((evidence.as_str(), container.is_without_advice()), (text, !expected));
    };
    check("Deployment", 12, 20, "20min, 12 pods", false);
    check("Deployment", 12, 180, "3h, 12 pods, Sun", true);
    check("Deployment", 2, 90, "3h, 2 pods, Mon to Sun", true);
    check("CronJob", 14, 2, "13d, 14 runs", true);
    check("CronJob", 4, 2, "48h, 4 runs, Thu to Sun", true);
    check("CronJob", 1, 2, "2min, 1 run", false);
}

#[test]
fn the_limit_of_a_killed_container_never_falls() {
    let check = |limit: &str, killed_at: u64, is_limit_known: bool, expected: Option<&str>| {
        let workload = one(json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": limit}}));
        let mut histories = histories(&[("a", observed(100, 200, Some(killed_at)))]);
        histories.of_first().lacks_kill_limit = !is_limit_known;
        assert_eq!(histories.lack_kill_limits(), !is_limit_known);
        let row = advised_from(Some(&histories), false, &workload, &mut around(&[]));
        assert_eq!(memory_of(&row.containers[0])[1].as_deref(), expected, "{limit}, killed at {killed_at}Mi");
        let risks = risk::of_all(&[row]);
        let is_at_risk = risks.iter().any(|of| of.risk == risk::RiskKind::OomKilled);
        assert_eq!(is_at_risk, expected.is_some(), "{risks:?}");
    };
    check("512Mi", 512, true, Some("615Mi"));
    // The author has raised it since.
    check("4Gi", 512, true, None);
    // The store knows the usage at the kill only.
    check("1Gi", 201, false, Some("1229Mi"));
}

#[test]
fn a_killed_container_gets_a_higher_limit_from_usage_profiles_too() {
    let workload = one(json!({"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}}));
    let recommended_limit = |kill: Option<u64>| {
        let row = advised_by_profiles(json!({}), &workload, &histories(&[("a", observed(100, 200, kill))]), &[]);
        let [request, limit] = memory_of(&row.containers[0]);
        assert!(request.is_some(), "{row:?}");
        limit
    };
    assert_eq!(recommended_limit(Some(512)).as_deref(), Some("615Mi"));
    assert_eq!(recommended_limit(None), None);
}

#[test]
fn where_estimates_replace_requests_an_autoscaler_keeps_the_authors() {
    let workload = one(json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
    let mut histories = Histories::default();
    (0..14).for_each(|age| histories.observe(0, "a", age, &observed(100, 200, None)));
    let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 9,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 60}}}]}});
    let check = |objects: &[Value], expected: [&str; 2]| {
        let always = json!({"mode": "always", "always": {"namespaces": ["shop"]}});
        let row = advised_by_profiles(always, &workload, &histories, objects);
        let requests = row.containers[0].resources.iter().map(|of| of.request.as_ref().unwrap().from.to_string());
        assert_eq!(requests.collect::<Vec<_>>(), expected);
        assert!(row.containers[0].resources.iter().all(|of| of.recommended.is_some()));
    };
    check(&[], ["estimated at admission"; 2]);
    check(&[autoscaler], ["author", "estimated at admission"]);
}

#[test]
fn requests_do_not_matter_and_bounds_are_told() {
    let check = |resources: Value, of_pod: Value, range: Value, expected: [&str; 2]| {
        let mut object = one(resources).object.value();
        object["spec"]["template"]["spec"]["resources"] = of_pod;
        let used = [("a", observed(120, 200, None))];
        let row = advised(&WorkloadEntry::of_cluster(&object), &used, &mut around(&[limits(range)]));
        let told = row.containers[0].resources.iter().map(|of| {
            let recommended = of.recommended.as_ref().map(Quantity::to_string).unwrap_or_default();
            format!("{recommended} {}", of.explained().split("; ").last().unwrap())
        });
        assert_eq!(told.collect::<Vec<_>>(), expected);
        row.pod_level.len()
    };
    let [cpu, memory] = ["165m +5% for 1 day of history", "313Mi +10% for 1 day of history"];
    let (nothing, anything) = (json!({}), json!({"type": "Container"}));
    check(nothing.clone(), nothing.clone(), anything.clone(), [cpu, memory]);
    check(json!({"requests": {"cpu": "2", "memory": "4Gi"}}), nothing.clone(), anything.clone(), [cpu, memory]);
    let of_pods = json!({"type": "Pod", "max": {"memory": "1Gi"}});
    check(json!({"limits": {"memory": "1Gi"}}), nothing.clone(), of_pods, [cpu, memory]);
    let limit = json!({"limits": {"memory": "290Mi"}});
    check(limit, nothing.clone(), anything.clone(), [cpu, "290Mi lowered from 313Mi to the limit"]);
    let min = json!({"type": "Container", "min": {"cpu": "200m"}});
    check(nothing.clone(), nothing.clone(), min, ["200m raised from 165m to the min of LimitRange limits", memory]);
    let shared = " no recommendation: the pod sets pod-level resources, which its containers share";
    for cpu in [json!("1"), json!(1)] {
        let of_pod = json!({"requests": {"cpu": cpu}});
        assert_eq!(check(nothing.clone(), of_pod, anything.clone(), [shared, memory]), 1);
    }
}

#[test]
fn limits_that_a_limit_range_refuses_are_left_as_they_are() {
    let workload = one(json!({"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}}));
    let used = [("a", observed(100, 500, Some(512)))];
    let mut around = around(&[limits(json!({"type": "Container", "max": {"memory": "512Mi"}}))]);
    let row = advised(&workload, &used, &mut around);
    let breach = "maximum memory usage per Container is 512Mi, but limit is 615Mi (LimitRange limits)";
    assert_eq!(memory_of(&row.containers[0]), [Some("512Mi".to_owned()), None]);
    assert_eq!(row.notes, [format!("memory limits are left as they are: {breach}")]);
    let raise = format!("raise the memory limit to 615Mi, and first what refuses that: {breach}");
    assert_eq!(risk::of_all(&[row])[0].fix, raise);
}

#[test]
fn a_limit_below_the_least_of_a_limit_range_is_raised_to_it() {
    let resources = json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}});
    let least = limits(json!({"type": "Container", "min": {"memory": "400Mi"}}));
    let row = advised(&one(resources), &[("a", observed(50, 60, None))], &mut around(&[least]));
    assert_eq!(memory_of(&row.containers[0]), [Some("400Mi".to_owned()), Some("400Mi".to_owned())], "{:?}", row.notes);
}

#[test]
fn the_class_of_service_is_told_before_and_after() {
    let check = |resources: Value, expected: (&str, &str)| {
        let row = advised(&one(resources), &[("a", observed(100, 100, None))], &mut around(&[]));
        assert_eq!((row.qos, row.qos_after), expected);
    };
    check(json!({}), ("BestEffort", "Burstable"));
    check(
        json!({"limits": {"cpu": "900m", "memory": "1Gi"}, "requests": {"cpu": "900m", "memory": "1Gi"}}),
        ("Guaranteed", "Burstable"),
    );
    check(json!({"requests": {"cpu": "1"}}), ("Burstable", "Burstable"));
    // Values that are close enough are not written, so they change no class and save nothing.
    let both = json!({"cpu": "170m", "memory": "320Mi"});
    let used = [("a", observed(120, 200, None))];
    let row = advised(&one(json!({"limits": both, "requests": both})), &used, &mut around(&[]));
    assert_eq!(recommended(&row), [json!({"cpu": "165m", "memory": "313Mi"})]);
    assert!(
        row.qos_after == "Guaranteed" && [Resource::Cpu, Resource::Memory].iter().all(|of| row.saved(*of).is_zero())
    );
}

/// Counts evaluations: each lists the LimitRanges once.
struct Counting(Overlay, usize);

impl ClusterReader for Counting {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        self.1 += usize::from(list.1 == "LimitRange");
        self.0.list(list)
    }
}

#[test]
fn no_question_about_a_workload_is_asked_twice() {
    let limited = |cpu: &str, memory: &str, limit: &str| {
        one(json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": limit}}))
    };
    let (unmeasured, measured) = (Histories::default(), histories(&[("a", observed(100, 100, None))]));
    let read = Some(&measured);
    let check = |usage, workload: &WorkloadEntry, objects: &[Value], expected: usize| {
        let mut cluster = Counting(around(objects), 0);
        advised_from(usage, false, workload, &mut cluster);
        assert_eq!(cluster.1, expected, "{}", workload.object.value());
    };
    let roomy = limited("1", "1Gi", "2Gi");
    // As it stands, and with what is recommended.
    check(None, &roomy, &[], 1);
    check(Some(&unmeasured), &roomy, &[], 2);
    check(read, &roomy, &[], 3);
    // Also without the limit that cuts a request, and with the new one.
    check(read, &limited("1", "64Mi", "64Mi"), &[], 5);
    // And with the author's again, where a LimitRange refuses the new one.
    let refuses = limits(json!({"type": "Container", "max": {"memory": "64Mi"}}));
    check(read, &limited("1", "64Mi", "64Mi"), &[refuses], 6);
}

/// Services that may not be read.
struct Guarded(Overlay, Option<bool>);

impl ClusterReader for Guarded {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        match self.1 {
            Some(true) => Err(ReadError::Failed(format!("{} is forbidden", list.1))),
            _ => self.0.list(list),
        }
    }
}

/// A workload with more fields of its container and its pod, and its advice.
fn peer(of: &Value, used: Observed, around: &mut Overlay) -> (Workload, WorkloadEntry) {
    let mut workload = workload(json!([]));
    let mut object = workload.object.value();
    let add = |to: &mut Value, more: &Value| {
        to.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    };
    let mut container = json!({"name": "a", "image": "example.com/a:1",
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": of["limits"]}});
    add(&mut container, &of["container"]);
    add(&mut object["spec"]["template"]["spec"], &of["pod"]);
    object["spec"]["template"]["spec"]["containers"] = json!([container]);
    object["spec"]["template"]["metadata"] = json!({"labels": of["labels"]});
    workload.object = CompressedObject::from(&object);
    workload.running.priority = of["priority"].as_i64();
    workload.key.name = of["name"].as_str().unwrap_or("web").to_owned();
    workload.key.kind = of["kind"].as_str().unwrap_or("Deployment").to_owned();
    (advised(&workload, &[("a", used)], around), workload)
}

#[test]
fn what_is_kept_on_purpose_or_read_by_its_program_is_not_lowered_without_a_word() {
    let cases = documents::parse(include_str!("tests/kept.yaml")).unwrap();
    for case in cases["workloads"].as_array().unwrap() {
        let used = if case["is_idle"] == true { observed(2, 1, None) } else { observed(100, 1_000, None) };
        let (row, _) = peer(case, used, &mut around(&[cases["class"].clone()]));
        let mut gives = recommended(&row)[0].clone();
        let flags = row.flags(&row.containers[0]).into_iter().filter(|flag| !matches!(flag, Flag::Thin(_)));
        gives["flags"] = json!(flags.map(|flag| flag.to_string()).collect::<Vec<_>>().join(", "));
        gives["saves"] = json!(row.saved(Resource::Cpu).is_positive());
        if let Some(note) = row.notes.iter().find(|note| note.starts_with("container a: ")) {
            gives["note"] = json!(note);
        }
        assert_eq!(gives, case["gives"], "{case}");
    }
    for case in cases["peers"].as_array().unwrap() {
        let mut around = around(case["services"].as_array().unwrap());
        let peers = case["of"].as_array().unwrap().iter();
        let peers = peers.map(|of| peer(of, observed(of["cpu"].as_u64().unwrap(), 100, None), &mut around));
        let (mut workloads, entries): (Vec<Workload>, Vec<WorkloadEntry>) = peers.unzip();
        workloads.iter_mut().enumerate().for_each(|(number, of)| of.entry = number);
        let mut notes = Vec::new();
        let found = kept::by_peers(&workloads, &entries, &mut Guarded(around, case["forbidden"].as_bool()), &mut notes);
        let found = found.iter().map(|(number, kept)| format!("{number} is {kept}"));
        let found: Vec<String> = found.chain(notes.iter().map(ToString::to_string)).collect();
        assert_eq!(json!(found), case["gives"], "{case}");
    }
}

#[test]
fn what_would_request_more_than_any_node_has_is_flagged() {
    let flagged = |nodes: &[Value], pod: &Value, kind: &str, (cpu, memory)| {
        let mut around = around(nodes);
        let of = json!({"labels": {}, "limits": {}, "pod": pod});
        let (row, entry) = peer(&of, observed(cpu, memory, None), &mut around);
        let mut rows = [row];
        rows[0].key.kind = kind.to_owned();
        nodes::flag_beyond_nodes(&mut rows, &[entry], &mut around);
        let flags = rows[0].flags(&rows[0].containers[0]).into_iter();
        let found: Vec<String> =
            flags.filter(|flag| matches!(flag, Flag::BeyondNodes(_))).map(|of| of.to_string()).collect();
        found
    };
    let node = |name: &str, memory: Value, spec: Value| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"arch": name}}, "spec": spec,
            "status": {"allocatable": memory}})
    };
    let check = |(cpu, memory), allocatable: Value, expected: &[&str]| {
        let found = flagged(&[node("n", allocatable, json!({}))], &json!({}), "Deployment", (cpu, memory));
        assert_eq!(found, expected, "{cpu} {memory}");
    };
    let large = (3_000, 15_000);
    check(large, json!({"cpu": "4", "memory": "16Gi"}), &["no node has memory 18221Mi, at most 16Gi"]);
    check(large, json!({"cpu": "3", "memory": "64Gi"}), &["no node has cpu 3492m, at most 3"]);
    check(large, json!({"cpu": "8", "memory": "64Gi"}), &[]);
    check(large, json!({}), &[]);
    // It requests more than any node has today, and would less.
    check((100, 1_000), json!({"cpu": "1", "memory": "1Gi"}), &[]);
    // Nodes count that its pods may use, and each of them for a DaemonSet.
    let mut nodes = [("small", "6Gi"), ("cordoned", "64Gi"), ("gpu", "128Gi"), ("large", "32Gi")]
        .map(|(name, memory)| node(name, json!({"memory": memory}), json!({})));
    nodes[1]["spec"] = json!({"unschedulable": true});
    nodes[2]["spec"] = json!({"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]});
    let check = |kind: &str, pod: Value, expected: &str| {
        let found = flagged(&nodes, &pod, kind, large).join("; ");
        assert_eq!(found.strip_suffix("Gi").unwrap_or(&found), expected, "{kind} {pod}");
    };
    let required = |expressions: Value| {
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    };
    let [no, not_every] = ["no node has memory 18221Mi, at most 6", "not every node has memory 18221Mi, one has 6"];
    let not = |arch: &str| json!({"key": "arch", "operator": "NotIn", "values": [arch]});
    check("Deployment", json!({}), "");
    check("Deployment", json!({"nodeSelector": {"arch": "small"}}), no);
    check("Deployment", required(json!([not("large")])), no);
    check("Deployment", required(json!([{"key": "cores", "operator": "Gt", "values": ["9"]}])), "");
    for (toleration, expected) in [
        (json!({"key": "gpu", "value": "a"}), ""),
        (json!({"key": "gpu", "value": "b"}), no),
        (json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), no),
        (json!({"operator": "Exists"}), ""),
    ] {
        let mut pod = required(json!([not("large")]));
        pod["tolerations"] = json!([toleration]);
        check("Deployment", pod, expected);
    }
    check("DaemonSet", json!({}), not_every);
    check("DaemonSet", required(json!([not("small")])), "");
    check("DaemonSet", json!({"nodeSelector": {"arch": "gpu"}}), "");
}

#[test]
fn many_peers_and_services_cost_no_product() {
    let services = (0..200).map(|number| {
        let metadata = json!({"name": format!("s{number}"), "namespace": "shop"});
        let selector = json!({"app": "web", "color": "none"});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": selector}})
    });
    let mut around = around(&services.collect::<Vec<_>>());
    let mut of = |cpu: u64| {
        let container = json!({"env": [{"name": "LOAD", "value": cpu.to_string()}]});
        let of = json!({"labels": {"app": "web", "color": "blue"}, "limits": {}, "container": container});
        peer(&of, observed(cpu, 100, None), &mut around)
    };
    let (idle, busy) = (of(1), of(900));
    // A Service for each pair: a hundred million.
    let all = (0..1_400).map(|number| if number % 2 == 0 { &idle } else { &busy }).enumerate();
    let (workloads, entries): (Vec<Workload>, Vec<WorkloadEntry>) =
        all.map(|(entry, (workload, of))| (Workload { entry, ..workload.clone() }, of.clone())).unzip();
    let found = kept::by_peers(&workloads, &entries, &mut around, &mut Vec::new());
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn killed_children_are_kills_without_a_restart() {
    let workload = one(json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}));
    let mut histories = histories(&[("a", observed(100, 400, None))]);
    histories.of_first().kernel_kills = 12;
    let row = advised_from(Some(&histories), false, &workload, &mut around(&[]));
    let container = &row.containers[0];
    assert_eq!(row.flags(container).first(), Some(&Flag::OomKills(12)));
    assert!(container.resource(Resource::Memory).unwrap().recommended_limit > Some("1Gi".parse().unwrap()));
    let risks: Vec<String> = risk::of_all(&[row]).iter().map(ToString::to_string).collect();
    let expected = "shop deployment/web a: OOM-killed 12 times at 1Gi, child processes and not the container; raise the memory limit to";
    assert!(risks[0].starts_with(expected), "{risks:?}");
}
