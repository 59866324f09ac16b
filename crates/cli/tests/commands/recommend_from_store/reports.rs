//! Runs of the program on a real Prometheus. The outputs themselves are tested in `headroom_recommend`, on values.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headroom_fixtures::http::{FakeServer, Reply, answer, method_and_target};
use headroom_fixtures::open_metrics::OpenMetrics;
use headroom_fixtures::servers;
use serde_json::Value;

use super::{cluster, here, prometheus, recommend};
use crate::support::{Said, folder, headroom, program, snapshot};

const HOUR: i64 = 3_600;

#[track_caller]
fn check(name: &str, arguments: &str, url: &str) {
    let Said { code, out, err } = recommend(&format!("{arguments} --prometheus {url}"));
    let said = format!("$ kubectl headroom recommend {arguments}\n# exit code {code}\n{out}{err}");
    snapshot(&format!("recommend_from_store/{name}"), &said.replace(url, "http://prometheus:9090"));
}

/// A proxy before a store, which answers some requests itself.
fn proxy(port: u16, answers: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> FakeServer {
    FakeServer::start_raw(move |request| {
        let (method, target) = method_and_target(request);
        answers(target).unwrap_or_else(|| {
            let (code, text) = servers::request(port, method, target, b"").unwrap();
            answer(code, &text)
        })
    })
}

#[test]
fn a_cluster_is_reported_and_gated() {
    let server = prometheus(cluster::history(true));
    let url = server.url();
    let check = |name: &str, arguments: &str| check(name, &format!("-n shop --cluster-dir world {arguments}"), &url);
    check("table.txt", "");
    check("json.txt", "deployment/web -o json");
    check("risks.txt", "--fail-on risk -o markdown statefulset/db");
    check("fine.txt", "-l app=db --fail-on 2000% -o markdown");
    check("missing.txt", "deployment/wbe");
}

#[test]
fn why_reads_the_store_that_is_named() {
    let server = prometheus(cluster::history(true));
    let arguments = "why deployment/web -n shop --cluster-dir world --settings moment.yaml --prometheus";
    let Said { code, out, .. } = headroom(&here(), &format!("{arguments} {}", server.url()));
    assert!(code == 1 && out.contains("warning: container front: throttled in 25% of its CPU periods"), "{out}");
}

#[test]
fn without_kube_state_metrics_workloads_are_derived_from_pod_names() {
    let server = prometheus(cluster::history(false));
    check("no-state.txt", "-n shop --cluster-dir world", &server.url());
}

#[test]
fn swapped_memory_and_killed_children_count() {
    let labels = r#"namespace="shop",pod="web-6d4cf56db6-x7x2k",container="worker""#;
    let (mut history, times) = (cluster::history(false), (cluster::NOW - 86_400..=cluster::NOW).step_by(60));
    history.add("container_memory_swap", labels, times.clone().map(|time| (time, 900 << 20)));
    let kills = times.map(|time| (time, (time - cluster::NOW + 86_400) / 21_600));
    history.add("container_oom_events_total", labels, kills);
    let server = prometheus(history);
    let said = recommend(&format!("deployment/web -n shop --cluster-dir world -o json --prometheus {}", server.url()));
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let containers = report["workloads"][0]["containers"].as_array().unwrap();
    let worker = containers.iter().find(|of| of["name"] == "worker").unwrap();
    // 320Mi resident at most, and three kills before the end.
    assert_eq!(
        (&worker["resources"][1]["used"]["peak"], &worker["oomKills"]),
        (&"1220Mi".into(), &3.into()),
        "{worker}"
    );
}

#[test]
fn a_standby_that_is_asked_for_alone_is_known_by_its_busy_peer() {
    let mut history = OpenMetrics::default();
    for (pod, cores) in [("a-0", 0.8), ("b-0", 0.01)] {
        let place = format!(r#"namespace="shop",pod="{pod}",container="db""#);
        let seconds = (0..=86_400).step_by(60).map(|second| (cluster::NOW - 86_400 + second, second));
        let cpu = seconds.clone().map(|(time, second)| (time, cores * second as f64));
        history.add("container_cpu_usage_seconds_total", &place, cpu);
        history.add("container_memory_working_set_bytes", &place, seconds.map(|(time, _)| (time, 2e8)));
    }
    let server = prometheus(history);
    let said = recommend(&format!("statefulset/b -n shop --cluster-dir standby -o json --prometheus {}", server.url()));
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["workloads"].as_array().unwrap().len(), 1, "{said:?}");
    let container = &report["workloads"][0]["containers"][0];
    assert_eq!(container["flags"][1], "standby of statefulset/a");
    let why = "it may take over from statefulset/a, so its request is not lowered: size both alike";
    assert_eq!(
        (&container["resources"][0]["unknown"], report["total"]["cpu"]["saved"].as_str()),
        (&why.into(), Some("0"))
    );
}

#[test]
fn the_error_for_a_store_without_usage_has_advice() {
    let mut history = OpenMetrics::default();
    history.add("up", "", [(1_795_219_200, 1)]);
    let server = prometheus(history);
    check("no-usage.txt", "-n shop --cluster-dir world", &server.url());
    let Said { code, err, .. } = recommend("-n shop --cluster-dir world --prometheus http://127.0.0.1:9");
    assert_eq!(code, 2);
    assert!(err.contains("cannot reach `http://127.0.0.1:9"), "{err}");
}

#[test]
fn a_part_that_cannot_be_read_is_named_and_exits_with_2() {
    let store = prometheus(cluster::history(true));
    let server = proxy(store.port, |target| {
        (target.contains("/query_range") && target.contains("container_memory_working_set_bytes"))
            .then(|| answer(422, r#"{"status":"error","errorType":"execution","error":"out of order"}"#))
    });
    // The notes of this format are printed on standard error.
    let arguments = format!("-n shop --cluster-dir world -o kustomize --prometheus {}", server.url());
    let Said { code, err, .. } = recommend(&arguments);
    assert_eq!((code, err.contains("not read: memory")), (2, true), "{err}");
    assert!(err.contains("not everything could be read"), "{err}");
}

/// A store without `quantile_over_time`, and one for which the percentiles of a day are too much.
#[test]
fn a_store_that_makes_no_percentiles_is_read_sample_by_sample() {
    let store = prometheus(cluster::history(true));
    let containers = |url: &str| {
        let said = recommend(&format!("-n shop --cluster-dir world -o json --prometheus {url}"));
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
        let report: Value = serde_json::from_str(&said.out).unwrap();
        let workloads = report["workloads"].as_array().unwrap().iter();
        workloads.flat_map(|workload| workload["containers"].as_array().unwrap().clone()).collect::<Vec<Value>>()
    };
    let amount = |resource: &Value| {
        let text = resource["recommended"].as_str();
        text.map(|text| text.parse::<headroom_admission::amount::Quantity>().unwrap().milli_value() as f64)
    };
    let expected = containers(&store.url());
    // An unknown function is asked for only by those queries that are on their way together; too much is asked for each day
    // and resource.
    let unknown = (400, r#"unknown function with name \"quantile_over_time\""#, 5);
    for (status, problem, most_refused) in [unknown, (422, "too many samples", 31)] {
        let body = format!(r#"{{"status":"error","errorType":"bad_data","error":"{problem}"}}"#);
        let server =
            proxy(store.port, move |target| target.contains("quantile_over_time").then(|| answer(status, &body)));
        let found = containers(&server.url());
        let refused = server.asked_for("").iter().filter(|head| head.contains("quantile_over_time")).count();
        assert!((1..=most_refused).contains(&refused), "{status}: {refused}");
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let whose = |of: &Value| [&of["name"], &of["evidence"]["days"], &of["evidence"]["pods"]].map(Value::clone);
            assert_eq!(whose(found), whose(expected), "{status}");
            for index in 0..2 {
                let [found, expected] = [found, expected].map(|of| &of["resources"][index]);
                let (Some(amount_found), Some(amount_expected)) = (amount(found), amount(expected)) else {
                    assert_eq!(found["unknown"], expected["unknown"]);
                    continue;
                };
                // Percentiles between two that the store makes are interpolated, and all are rounded up.
                let off = (amount_found - amount_expected).abs();
                assert!(off <= (amount_expected * 0.02).max(1.0), "{status}: {found} beside {expected}");
            }
        }
    }
}

#[test]
fn an_interrupt_before_any_usage_was_read_is_an_error() {
    let server = FakeServer::start_raw(|_| Reply::Stall(Vec::new()));
    let mut command = program(&here());
    command.args(["recommend", "-n", "shop", "--cluster-dir", "world", "--prometheus", &server.url()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while server.asked_for("").is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    assert!(said.err.ends_with("interrupted before any usage was read\n"), "{}", said.err);
}

/// A proxy that answers the first request with 503.
#[test]
fn a_store_that_has_one_bad_moment_is_read_all_the_same() {
    let store = prometheus(cluster::history(true));
    let had_bad_moment = AtomicBool::new(false);
    let server = proxy(store.port, move |_| (!had_bad_moment.swap(true, Ordering::Relaxed)).then(|| answer(503, "")));
    let said = recommend(&format!("-n shop --cluster-dir world -o json --prometheus {}", server.url()));
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
}

#[test]
fn workloads_are_selected_by_manifest_namespace_and_name() {
    let server = prometheus(cluster::history(true));
    let of = |more: &str| recommend(&format!("--cluster-dir world --prometheus {} -o csv {more}", server.url()));
    assert_eq!(of("-n shop -f world/shop.yaml -l app=db").out, of("-n shop statefulset/db").out);
    assert_eq!(of("-n sh*p").out, of("-n shop").out);
    let rule = "-n shop statefulset/db --memory peak+0% --cpu p95+300m -o wide";
    let said = recommend(&format!("--cluster-dir world --prometheus {} {rule}", server.url()));
    assert!(said.out.contains("memory: peak of 30d workload db") && said.out.contains("0.10 -> 0.32"), "{}", said.out);
}

#[test]
fn an_autoscaler_that_is_not_in_the_manifests_is_named() {
    let server = prometheus(cluster::history(true));
    let text = fs::read_to_string(here().join("world/shop.yaml")).unwrap();
    let without = text.split("---\n").filter(|document| !document.contains("HorizontalPodAutoscaler"));
    let hard = "{requests.cpu: 40, requests.memory: 60Gi}";
    let quota = format!(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: team, namespace: shop}}\nspec: {{hard: {hard}}}\n\
         status: {{hard: {hard}, used: {{requests.cpu: 3500m, requests.memory: 5Gi}}}}\n"
    );
    let folder = folder(&[("web.yaml", &without.collect::<Vec<_>>().join("---\n")), ("quota.yaml", &quota)]);
    let [manifest, quota] = ["web.yaml", "quota.yaml"].map(|name| folder.path().join(name).display().to_string());
    let arguments = format!("-n shop --cluster-dir world --cluster-dir {quota} -o csv --write {manifest}");
    let said = recommend(&format!("deployment/web {arguments} --prometheus {}", server.url()));
    assert_eq!(said.code, 0, "{}", said.err);
    let warning = "warning: not in the manifests: HorizontalPodAutoscaler web scales at 70% of the cpu";
    assert!(said.err.contains(warning), "{}", said.err);
}

/// The pods belong to nothing.
#[test]
fn runners_that_are_gone_are_sized_by_their_image() {
    let (now, mut history) = (headroom_api_server::clock::now(), OpenMetrics::default());
    for pod in 0..6 {
        let labels = format!(r#"namespace="ci",pod="runner-{pod}",container="runner""#);
        let minutes = (0..30).map(|minute| (now - 1_740 - pod * 60 + minute * 60, minute * 30, pod * 100_000_000));
        history.add_container(&labels, "registry.example/runner:2", minutes);
    }
    let store = prometheus(history);
    let cluster = folder(&[("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: ci}\n")]);
    let arguments = format!("recommend image runner -n ci --cluster-dir ns.yaml --prometheus {} --days 2", store.url());
    let said = headroom(cluster.path(), &arguments);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    let row: Vec<&str> = said.out.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[..3], ["ci", "registry.example/runner:2", "6"], "{}", said.out);
}

/// A namespace without a quota: two pods of a Deployment, a third for a week, and for three hours a Job whose pod is still there.
#[test]
fn a_new_quota_covers_the_peak_and_the_growth_of_what_was_requested() {
    let mut history = OpenMetrics::default();
    let place = r#"namespace="lab",pod="web-6d4cf56db6-x7x2k",container="web""#;
    let minutes = (0..60).map(|minute| (cluster::NOW - HOUR + minute * 60, 1e8));
    history.add("container_memory_working_set_bytes", place, minutes);
    history.add("kube_pod_container_info", &format!(r#"{place},image_spec="web:1""#), [(cluster::NOW, 1)]);
    let pods: [(&str, f64, i64, i64); 4] =
        [("web-a", 0.5, 0, 240), ("web-b", 0.5, 0, 240), ("web-c", 0.5, 150, 240), ("once", 3.0, 100, 103)];
    for (pod, cores, from, to) in pods {
        let hours = (from..=240).map(|hour| (cluster::NOW - (240 - hour) * HOUR, hour));
        for (phase, is_running) in [("Running", true), ("Succeeded", false)] {
            let labels = format!(r#"namespace="lab",pod="{pod}",phase="{phase}""#);
            let points = hours.clone().map(|(time, hour)| (time, u8::from((hour <= to) == is_running)));
            history.add("kube_pod_status_phase", &labels, points);
        }
        let labels = format!(r#"namespace="lab",pod="{pod}",container="web",resource="cpu",unit="core""#);
        history.add("kube_pod_container_resource_requests", &labels, hours.map(|(time, _)| (time, cores)));
    }
    let store = prometheus(history);
    let world = folder(&[(
        "lab.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: lab}\n\
         spec: {replicas: 3, template: {spec: {containers: [{name: web, image: \"web:1\", resources: {requests: {cpu: 500m}}}]}}}\n",
    )]);
    let (lab, url) = (world.path().display(), store.url());
    let said = recommend(&format!("bounds -n lab --cluster-dir {lab} --prometheus {url} -o yaml"));
    let lines = said.out.lines().skip_while(|line| !line.contains("hard:")).take_while(|line| *line != "---");
    let lines: Vec<&str> = lines.collect();
    let expected = [
        "  hard:",
        "    # 3 for 3 pods, 1 for a rollout of deployment/web, 6 for 30 days of growth, 0 used",
        "    pods: \"10\"",
        "    # 4 was the peak of 30 days, 2050m for 30 days of growth, 0 used",
        "    requests.cpu: 6050m",
    ];
    assert_eq!(lines, expected, "{}{}", said.out, said.err);
}
