//! Every output of one report, which is made of values: a small cluster, and what its containers used.

use std::path::Path;

use expect_test::expect_file;
use headroom_admission::cluster::usage::Resource;
use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Admission, Run};
use headroom_objects::cluster_reader::Folder;
use headroom_objects::manifest;
use headroom_objects::shell::ShellCommand;
use headroom_output::draw::Charset;
use headroom_output::{Page, Paint};
use headroom_usage::observed::Kill;
use serde_json::{Value, json};

use crate::advice::workload::{ContainerAdvice, Workload};
use crate::engine::Engine;
use crate::engine::declined::{Declined, fingerprint};
use crate::engine::tests::{MEBI, NOW, engine, settings, usage};
use crate::history::Histories;
use crate::output::findings::{self, Gate};
use crate::output::table::{self, View};
use crate::output::{csv, markdown};
use crate::report::{Order, Recommendations, ReportSource, Total, rule};
use crate::write::{patches, trial};
use headroom_workloads::WorkloadRef;
use headroom_workloads::inventory::{Inventory, WorkloadEntry};
use headroom_workloads::program::ConfigMaps;

/// Workload, container, millicores, MiB, minutes, and the MiB of an out-of-memory kill.
type Used = (&'static str, &'static str, u64, u64, u64, Option<u64>);

const USED: [Used; 5] = [
    ("deployment/web", "front", 200, 220, 5_760, None),
    ("deployment/web", "worker", 50, 320, 5_760, None),
    ("statefulset/db", "postgres", 20, 250, 5_760, Some(256)),
    ("deployment/canary", "canary", 100, 110, 5_760, Some(128)),
    ("deployment/new", "new", 10, 20, 30, None),
];

/// The recommendations for manifests in the namespace `shop`.
fn report_on(manifests: &str, used: &[Used]) -> Recommendations {
    read_on(manifests, used, None, |_| {}).0
}

/// The same, with what is done to each workload first; and the entries and the cluster to try changes in.
fn read_on(
    manifests: &str,
    used: &[Used],
    declined: Option<&Declined>,
    each: fn(&mut Workload),
) -> (Recommendations, Vec<WorkloadEntry>, Overlay) {
    let manifests = manifest::read_text(Path::new("world.yaml"), manifests).unwrap();
    let mut cluster = Overlay::new(Folder::of(manifests, "shop").unwrap(), None);
    let inventory = Inventory::read(&mut cluster, &[Some("shop")], |problem| problem.to_string()).unwrap();
    let mut histories = Histories::default();
    for (workload, container, cpu, memory, minutes, kill) in used {
        let number = inventory.entries.iter().position(|entry| entry.key.to_string() == *workload).unwrap();
        let mut observed = usage(1, NOW - 600, [*cpu, *memory], minutes * 60);
        kill.iter().for_each(|memory| observed.add_kill(Kill { at: NOW - 3_000, memory: memory * MEBI, of: 1 }));
        histories.observe(number, container, 0, &observed);
    }
    let (settings, configs) = (settings(json!({})), ConfigMaps::default());
    let engine = Engine { declined, ..engine(Some(&histories), &settings, &inventory.autoscalers, &configs) };
    let entries = inventory.entries.iter().enumerate();
    let advised = entries.map(|(number, entry)| engine.recommend(number, entry, &mut cluster, &mut Vec::new()));
    let mut workloads: Vec<Workload> = advised.map(|workload| workload.unwrap().unwrap()).collect();
    let of_front = workloads.iter_mut().flat_map(|of| &mut of.containers).filter(|container| container.name == "front");
    of_front.for_each(|container| (container.throttled_percent, container.restarts) = (Some(25), 3));
    workloads.iter_mut().for_each(each);
    let source = ReportSource { name: "the test".to_owned(), step_seconds: Some(300), ..ReportSource::default() };
    let (source, prices) = ((source, rule::of(&settings, true)), "23,3".parse().unwrap());
    let report = Recommendations::new(source, workloads, Vec::new(), prices, Order::Waste);
    (report, inventory.entries, cluster)
}

fn report() -> Recommendations {
    report_on(include_str!("tests/world.yaml"), &USED)
}

#[test]
fn who_else_decides_is_flagged_and_patches_suit_the_kind() {
    let all = ["rollout/canary", "pod/etcd", "deployment/sized", "deployment/scaled"];
    let report = report_on(include_str!("tests/others.yaml"), &all.map(|of| (of, "a", 100, 100, 5_760, None)));
    let mut told: Vec<String> =
        report.containers().map(|(of, container)| format!("{}: {}", of.key, container.flag_text())).collect();
    told.sort();
    let expected = [
        "deployment/scaled: keda",
        "deployment/sized: blocked now, vpa",
        "deployment/sized: no usage data, blocked now",
        "pod/etcd: static pod",
        "rollout/canary: rollout",
    ];
    assert_eq!(told, expected);
    let notes = report.all_notes().join("\n");
    assert!(
        notes.contains("sized: blocked now: exceeded quota")
            && notes.contains("sized (updateMode Recreate) sets the requests of container a in new pods"),
        "{notes}"
    );
    assert_eq!(report.left_out(), ["left out: shop pod/etcd: static pod: change its manifest on node node-0"]);
    let patches: Vec<patches::Patch> = report.changes().iter().flat_map(|change| change.patches()).collect();
    let rollout = patches.iter().find(|patch| patch.kind.kind == "Rollout").unwrap();
    let at = "/spec/template/spec/containers/1";
    let add = |path: &str, value: &str| json!({"op": "add", "path": format!("{at}/resources/requests/{path}"), "value": value});
    let test = json!({"op": "test", "path": format!("{at}/name"), "value": "a"});
    assert_eq!(rollout.body, json!([test, add("cpu", "142m"), add("memory", "192Mi")]));
    let before =
        json!({"spec": {"template": {"spec": {"containers": [{}, {"resources": {"requests": {"cpu": "1"}}}]}}}});
    let back = json!([test, {"op": "remove", "path": format!("{at}/resources/requests/memory")},
        {"op": "replace", "path": format!("{at}/resources/requests/cpu"), "value": "1"}]);
    assert_eq!(rollout.put_back(&before), back);
    assert!(
        rollout
            .command(ShellCommand::of("kubectl"), &rollout.body)
            .to_string()
            .starts_with("kubectl patch rollout.v1alpha1.argoproj.io/canary --namespace shop --type json --patch '[")
    );
}

#[test]
fn a_change_of_a_workload_that_is_read_by_another_object_can_be_declined() {
    let canary = WorkloadRef::new("shop", "Rollout", "canary");
    let line = format!("{} 2026-11-27", fingerprint(&canary, "a", "cpu", false));
    let declined = Declined::read(&line).unwrap();
    let used = [("rollout/canary", "a", 100, 100, 5_760, None)];
    let (report, ..) = read_on(include_str!("tests/others.yaml"), &used, Some(&declined), |_| {});
    let patches: Vec<patches::Patch> = report.changes().iter().flat_map(|change| change.patches()).collect();
    let [rollout] = patches.as_slice() else { panic!("{patches:?}") };
    let changed: Vec<&str> = rollout.body.as_array().unwrap().iter().filter_map(|of| of["path"].as_str()).collect();
    let at = "/spec/template/spec/containers/1";
    assert_eq!(changed, [format!("{at}/name"), format!("{at}/resources/requests/memory")]);
}

/// Injected containers, the largest init container, pod-level requests, running pods of another size than their template, and an
/// operator's StatefulSet.
#[test]
fn the_pods_that_run_are_sized_and_what_others_decide_is_not_patched() {
    let used = |of: &'static str, container, memory| -> Used { (of, container, 300, memory, 5_760, None) };
    let report = report_on(
        include_str!("tests/runs.yaml"),
        &[
            used("deployment/mesh", "a", 300),
            used("deployment/mesh", "istio-proxy", 384),
            used("deployment/migrates", "a", 300),
            used("deployment/migrates", "ship", 945),
            used("deployment/together", "a", 300),
            ("deployment/small", "a", 300, 380, 5_760, Some(398)),
            used("deployment/small", "b", 60),
            used("statefulset/resized", "a", 1_200),
            used("statefulset/prometheus-k8s", "a", 2_000),
            used("statefulset/prometheus-k8s", "config-reloader", 20),
            used("statefulset/held", "a", 300),
            used("replicaset/bare", "a", 300),
            used("rollout/refers", "a", 1_000),
        ],
    );
    let row = |(of, container): (&Workload, &ContainerAdvice)| {
        let saved = of.saved_by(container, Resource::Cpu).map_or_else(|| "-".to_owned(), |saved| saved.to_string());
        format!("{} {}: saves {saved}; {}", of.with_deciders(), container.name, container.flag_text())
    };
    let mut lines: Vec<String> = report.containers().map(row).collect();
    lines.extend(report.risks.iter().map(ToString::to_string).chain(report.scaled()));
    lines.extend(report.left_out_of_values().into_iter().chain(report.beside_changes()).chain(report.all_notes()));
    let Total { cpu, cost_a_month, .. } = &report.total;
    let cost = cost_a_month.map(|cost| cost.to_string());
    lines.push(format!("cpu {} requested, {} saved, {cost:?} a month", cpu.requested, cpu.saved));
    expect_file!["tests/expected/runs.txt"].assert_eq(&(lines.join("\n") + "\n"));
}

/// A pod from before the LimitRange takes no room, whatever a new one would get.
#[test]
fn what_runs_without_a_request_takes_no_room() {
    let manifests = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: old, namespace: shop}
spec: {template: {spec: {containers: [{name: a, image: "example.com/a:1"}]}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: old-6d4cf56db6-x7x2k
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: old, controller: true}]
spec: {containers: [{name: a, image: "example.com/a:1"}]}
status: {phase: Running}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: shop}
spec: {limits: [{type: Container, defaultRequest: {cpu: 400m}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota, namespace: shop}
spec: {hard: {requests.cpu: "1"}}
status: {hard: {requests.cpu: "1"}, used: {requests.cpu: "0"}}
"#;
    let report = report_on(manifests, &[("deployment/old", "a", 300, 300, 5_760, None)]);
    let shown = table(&report, true);
    let cpu = report.containers().next().and_then(|(_, of)| of.resource(Resource::Cpu)).unwrap();
    let request = cpu.request.as_ref().map(ToString::to_string);
    assert_eq!(request.as_deref(), Some("(0)"), "{shown}");
    let risks: Vec<String> = report.risks.iter().map(ToString::to_string).collect();
    assert!(matches!(risks.as_slice(), [risk] if risk.contains("no cpu or memory request")), "{shown}");
    assert_eq!(report.total.cpu.requested.to_string(), "0");
    let quota = report.quotas.iter().find(|of| of.level.key.name == "requests.cpu").unwrap();
    assert_eq!(quota.used_after, *cpu.recommended.as_ref().unwrap(), "{shown}");
}

fn table(report: &Recommendations, is_wide: bool) -> String {
    let view = View { is_wide, charset: Charset::Unicode, paint: Paint::OFF };
    table::page(report, view).text(None, Paint::OFF)
}

const GATE: Gate = Gate { off_by_percent: Some(30), risk: true, blocked: false };

/// Each output by its name.
fn outputs(report: &Recommendations) -> Vec<(&'static str, String)> {
    let text = |page: anyhow::Result<Page>| page.unwrap().text(None, Paint::OFF);
    let changes = report.changes();
    let commented = |page| Ok(patches::commented(&report.beside_changes(), page));
    vec![
        ("table.txt", table(report, false)),
        ("wide.txt", table(report, true)),
        ("report.json", text(Page::json(report))),
        ("report.csv", csv::text(report)),
        ("report.md", markdown::text(report)),
        ("failures.txt", findings::of(report, GATE).iter().map(|failure| format!("{failure}\n")).collect()),
        ("kustomize.yaml", text(patches::kustomize(&changes).and_then(commented))),
        ("values.yaml", text(Page::yaml(&patches::helm(&changes, patches::VALUES_PATH).unwrap()))),
    ]
}

#[test]
fn every_output_is_made_of_one_report() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/expected");
    for (name, text) in outputs(&report()) {
        assert_eq!(text.contains('\r'), name == "report.csv", "{name} ends its lines as its format says");
        // A file of expectations is read with each \r\n as \n.
        expect_file![folder.join(name)].assert_eq(&text.replace("\r\n", "\n"));
    }
}

#[test]
fn a_partial_reading_is_named_in_every_output_with_room_for_notes() {
    let mut report = report();
    report.source.is_partial = true;
    report.notes.push("not read: memory".to_owned());
    assert!(table(&report, false).lines().next().unwrap().contains("not everything could be read"));
    for (name, text) in outputs(&report) {
        let has_notes = ["table.txt", "wide.txt", "report.json", "report.md"].contains(&name);
        assert_eq!(text.contains("not read: memory"), has_notes, "{name}: {text}");
    }
}

#[test]
fn no_sums_are_shown_without_any_recommendation() {
    let deployment = |name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "example.com/app",
                "resources": {"requests": {"cpu": "250m"}}}]}}}})
    };
    let both: Vec<Value> = vec![deployment("a"), deployment("b")];
    let text = table(&report_on(&json!({"kind": "List", "apiVersion": "v1", "items": both}).to_string(), &[]), false);
    assert!(text.contains("no usage data for 2 of 2 containers") && !text.contains("TOTAL"), "{text}");
}

/// The part of a report that depends on trials, whatever its order.
fn told_of_trials(report: &Recommendations) -> Value {
    let mut rows: Vec<String> =
        report.containers().map(|(of, container)| format!("{} {}", of.key, container.flag_text())).collect();
    rows.sort();
    let changes: Vec<String> = report.changes().iter().map(|change| change.workload.key.to_string()).collect();
    let (total, quotas) = (&report.total, report.quotas.iter().map(ToString::to_string).collect::<Vec<_>>());
    json!({"rows": rows, "blocked": report.blocked(), "changes": changes, "total": total, "quotas": quotas})
}

#[test]
fn what_was_not_tried_is_in_no_sum_and_no_patch_and_is_tried_later_as_at_once() {
    let world = include_str!("tests/world.yaml");
    let (mut at_once, entries, cluster) = read_on(world, &USED, None, |_| {});
    let mut run = Run::new(cluster, Admission::assumed(), "shop");
    trial::check(&mut at_once, &entries, &mut run, |_| true);
    let (mut later, _, _) = read_on(world, &USED, None, trial::put_off);
    let told = told_of_trials(&later);
    let untried = later.workloads.iter().filter(|of| of.is_untried).count();
    assert!(untried > 2 && told["rows"].to_string().matches("not tried yet").count() >= untried, "{told}");
    let nothing = json!({"requested": "0", "recommended": "0", "saved": "0"});
    assert_eq!((&told["total"]["cpu"], &told["changes"], &told["quotas"]), (&nothing, &json!([]), &json!([])));
    assert!(later.workloads.iter().all(|of| !of.saved(Resource::Cpu).is_positive()));
    let before = later.clone();
    trial::check(&mut later, &entries, &mut run, |namespace| namespace != "shop");
    assert_eq!(told_of_trials(&later), told);
    trial::check(&mut later, &entries, &mut run, |namespace| namespace == "shop");
    assert_eq!(told_of_trials(&later), told_of_trials(&at_once));
    // The next reading finds the same changes, but for one.
    let mut next = before;
    next.workloads.iter_mut().find(|of| of.key.name == "db").unwrap().containers[0].resources[0].recommended = None;
    trial::take_over(&mut next, trial::found(&later));
    let left: Vec<&str> = next.workloads.iter().filter(|of| of.is_untried).map(|of| of.key.name.as_str()).collect();
    assert_eq!((left, next.blocked()), (vec!["db"], at_once.blocked()));
}

#[test]
fn the_largest_savings_are_tried_first_and_then_what_was_tried_the_longest_ago() {
    let report = report();
    let of = |namespace: &str, workload: &str| {
        let found = report.workloads.iter().find(|of| of.key.to_string() == workload).unwrap();
        let mut moved = found.clone();
        moved.key.namespace = namespace.to_owned();
        moved
    };
    let (saves, needs) = ("deployment/web", "deployment/canary");
    let workloads = vec![of("a", needs), of("b", saves), of("b", needs), of("c", saves), of("c", saves)];
    let source = (report.source.clone(), Vec::new());
    let report = Recommendations::new(source, workloads, Vec::new(), report.prices.clone(), Order::Name);
    let check = |tried: &[(&str, u64)], most: usize, expected: &[&str]| {
        let tried = tried.iter().map(|(namespace, at)| ((*namespace).to_owned(), *at)).collect();
        assert_eq!(Vec::from_iter(trial::next(&report, &tried, most)), expected, "{tried:?} {most}");
    };
    check(&[], 0, &[]);
    check(&[], 2, &["c"]);
    check(&[], 3, &["b", "c"]);
    check(&[("c", 1)], 1, &["b"]);
    check(&[("c", 1), ("b", 2), ("a", 3)], 3, &["b", "c"]);
    check(&[("c", 3), ("b", 2), ("a", 1)], 1, &["a"]);
    check(&[], usize::MAX, &["a", "b", "c"]);
}
