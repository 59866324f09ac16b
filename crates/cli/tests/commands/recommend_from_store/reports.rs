//! Snapshots of every output.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headroom_fixtures::http::{FakeServer, Reply, answer, method_and_target};
use headroom_fixtures::servers;
use serde_json::Value;

use super::{cluster, here, prometheus, recommend};
use crate::support::{Said, program, snapshot};

/// Replaces text that differs in every run.
fn steady(text: &str, url: &str) -> String {
    let mut steady = String::new();
    let text = text.replace(url, "http://prometheus:9090");
    let mut rest = text.as_str();
    // 2026-11-22T10:00:00Z
    while let Some(at) = rest.find("202") {
        let (before, found) = rest.split_at(at);
        steady.push_str(before);
        let moment = found.get(..20).filter(|moment| moment.ends_with('Z') && moment.as_bytes()[10] == b'T');
        steady.push_str(if moment.is_some() { "MOMENT" } else { "202" });
        rest = &found[moment.map_or(3, str::len)..];
    }
    steady.push_str(rest);
    // The number of samples in the window depends on the second in which the test runs.
    let without_count = |line: &str| match line.split_once("samples") {
        Some((before, after)) if after.trim_end_matches(',').ends_with(|end: char| end.is_ascii_digit()) => {
            format!("{before}samples{}N", after.trim_end_matches(|end: char| end.is_ascii_digit() || end == ','))
        }
        Some((before, after)) if before.ends_with(' ') => {
            let number = before.trim_end().rsplit(' ').next().unwrap();
            let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
            let before = before.trim_end().trim_end_matches(number);
            if is_number { format!("{before}N samples{after}") } else { line.to_owned() }
        }
        _ => line.to_owned(),
    };
    steady.lines().map(|line| without_count(line) + "\n").collect()
}

#[track_caller]
fn check(name: &str, arguments: &str, url: &str) {
    let Said { code, out, err } = recommend(&format!("{arguments} --prometheus {url}"));
    let said = format!("$ kubectl headroom recommend {arguments}\n# exit code {code}\n{out}{err}");
    let said = steady(&said, url);
    snapshot(&format!("recommend_from_store/{name}"), &said);
}

#[test]
fn a_cluster_is_reported_in_every_output_format() {
    let server = prometheus(cluster::history(true));
    let url = server.url();
    let check = |name: &str, arguments: &str| check(name, &format!("-n shop --cluster-dir world {arguments}"), &url);
    check("table.txt", "");
    check("wide.txt", "-o wide --price-cpu 23 --price-memory 3.10");
    check("bare.txt", "--no-headers --sort-by name");
    check("json.txt", "deployment/web -o json");
    check("yaml.txt", "rollout/canary -o yaml");
    check("csv.txt", "-o csv");
    check("markdown.txt", "-o markdown --price-cpu 23");
    check("sarif.txt", "-o sarif --fail-above 100 --container front");
    check("junit.txt", "-o junit --fail-above 30");
    check("selected.txt", "-l app=db");
    check("kinds.txt", "--kind Rollout,statefulset --sort-by oom-kills");
    check("risks.txt", "--fail-on risk -o sarif --container postgres");
    check("fine.txt", "-l app=db --fail-above 2000 --no-headers");
    check("missing.txt", "deployment/wbe");
}

#[test]
fn without_kube_state_metrics_workloads_are_derived_from_pod_names() {
    let server = prometheus(cluster::history(false));
    check("no-state.txt", "-n shop --cluster-dir world", &server.url());
}

#[test]
fn the_error_for_a_store_without_usage_has_advice() {
    let server = prometheus("# TYPE up gauge\nup 1 1795219200\n# EOF\n".to_owned());
    check("no-usage.txt", "-n shop --cluster-dir world", &server.url());
    let Said { code, err, .. } = recommend("-n shop --cluster-dir world --prometheus http://127.0.0.1:9");
    assert_eq!(code, 2);
    assert!(err.contains("cannot reach `http://127.0.0.1:9"), "{err}");
    let Said { code, err, .. } = recommend("-n shop --cluster-dir world --from prometheus");
    assert_eq!(code, 2);
    assert!(err.contains("name the store with --service NAMESPACE/SERVICE:PORT or --prometheus URL"), "{err}");
}

#[test]
fn manifests_are_compared_with_what_their_workloads_used() {
    let server = prometheus(cluster::history(true));
    let of_files = |arguments: &str| {
        let arguments = format!("-n shop --cluster-dir world --prometheus {} --no-headers {arguments}", server.url());
        let said = recommend(&arguments);
        assert_eq!(said.code, 0, "{}", said.err);
        said.out
    };
    assert_eq!(of_files("-f world/shop.yaml -l app=db"), of_files("statefulset/db"));
}

/// Where a part of the usage cannot be read, every output says so, and the exit code, too.
#[test]
fn a_partial_reading_is_named_in_every_output() {
    let store = prometheus(cluster::history(true));
    let port = store.port;
    let server = FakeServer::start_raw(move |request| {
        let (method, target) = method_and_target(request);
        if target.contains("/query_range") && target.contains("container_memory_working_set_bytes") {
            return answer(422, r#"{"status":"error","errorType":"execution","error":"out of order"}"#);
        }
        let (code, text) = servers::request(port, method, target, b"").unwrap();
        answer(code, &text)
    });
    for form in ["table", "json", "csv", "markdown", "html", "kustomize", "helm"] {
        let arguments = format!("-n shop --cluster-dir world -o {form} --prometheus {}", server.url());
        let Said { code, out, err } = recommend(&arguments);
        assert_eq!(code, 2, "{form}: {err}");
        assert!((out.clone() + &err).contains("not read: memory"), "{form}: {out}{err}");
        let is_first = out.lines().next().is_some_and(|line| line.contains("not everything could be read"));
        assert!(is_first || form != "table", "{out}");
    }
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
        text.map(|text| text.parse::<headroom_core::amount::Quantity>().unwrap().milli_value() as f64)
    };
    let expected = containers(&store.url());
    // An unknown function is asked for only by those queries that are on their way together; too much is asked for each day
    // and resource.
    let unknown = (400, r#"unknown function with name \"quantile_over_time\""#, 4);
    for (status, problem, most_refused) in [unknown, (422, "too many samples", 28)] {
        let port = store.port;
        let server = FakeServer::start_raw(move |request| {
            let (method, target) = method_and_target(request);
            if target.contains("quantile_over_time") {
                let body = format!(r#"{{"status":"error","errorType":"bad_data","error":"{problem}"}}"#);
                return answer(status, &body);
            }
            let (code, text) = servers::request(port, method, target, b"").unwrap();
            answer(code, &text)
        });
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
                // Percentiles between two that the store makes are interpolated.
                let off = (amount_found - amount_expected).abs() / amount_expected;
                assert!(off <= 0.02, "{status}: {found} beside {expected}");
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

#[test]
fn a_change_is_the_way_from_the_request_that_applies() {
    let server = prometheus(cluster::history(true));
    let arguments = format!("-n shop --cluster-dir world -o json --prometheus {}", server.url());
    let report: Value = serde_json::from_str(&recommend(&arguments).out).unwrap();
    let canary = report["workloads"].as_array().unwrap().iter().find(|workload| workload["name"] == "canary").unwrap();
    let [cpu, memory] = [0, 1].map(|index| canary["containers"][0]["resources"][index].clone());
    // The manifest sets neither; a LimitRange does.
    assert_eq!((&cpu["request"]["value"], &memory["request"]["value"]), (&"10m".into(), &"1Gi".into()));
    assert_eq!((&cpu["change"]["amount"], &memory["change"]["amount"]), (&"+132m".into(), &"-796Mi".into()));
}

/// The fields of each row of CSV, of which none but the last two has a comma.
fn rows_of_csv(text: &str) -> Vec<(Vec<&str>, &str)> {
    let row = |line| {
        let mut fields: Vec<&str> = str::splitn(line, 27, ',').collect();
        let rest = fields.pop().unwrap();
        let flags = rest.strip_prefix('"').map_or_else(|| rest.split(',').next(), |quoted| quoted.split('"').next());
        (fields, flags.unwrap_or_default())
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn each_flag_is_explained_below_the_table() {
    let server = prometheus(cluster::history(true));
    let of = |more: &str| recommend(&format!("-n shop --cluster-dir world --prometheus {} {more}", server.url())).out;
    let (csv, table) = (of("-o csv"), of(""));
    let (_, explained) = table.split_once("\nFlags:\n").unwrap();
    let flags: BTreeSet<&str> =
        rows_of_csv(&csv).iter().flat_map(|(_, flags)| flags.split(", ")).filter(|flag| !flag.is_empty()).collect();
    assert!(flags.len() > 5, "{flags:?}");
    for flag in flags {
        let name = flag.trim_end_matches(|of: char| of.is_ascii_digit() || of == '%').trim();
        assert!(name == "no usage data" || explained.contains(&format!("  {name}: ")), "{flag}: {explained}");
    }
}

#[test]
fn amounts_are_plain_numbers_in_csv_and_usual_quantities_in_json() {
    let server = prometheus(cluster::history(true));
    let of = |more: &str| recommend(&format!("-n shop --cluster-dir world --prometheus {} {more}", server.url())).out;
    for (fields, _) in rows_of_csv(&of("-o csv")) {
        let (unit, amounts) = (fields[7], &fields[8..17]);
        assert!(["cores", "bytes"].contains(&unit), "{fields:?}");
        assert!(amounts.iter().all(|amount| amount.is_empty() || amount.parse::<f64>().is_ok()), "{fields:?}");
    }
    let report: Value = serde_json::from_str(&of("-o json")).unwrap();
    let mut count = 0;
    for container in report["workloads"].as_array().unwrap().iter().flat_map(|of| of["containers"].as_array().unwrap())
    {
        for of in container["resources"].as_array().unwrap() {
            let units = if of["resource"] == "cpu" { ["m", ""] } else { ["Mi", "Gi"] };
            for amount in [&of["recommended"], &of["request"]["value"], &of["change"]["amount"]] {
                let Some(text) = amount.as_str() else { continue };
                let unit = text.trim_start_matches(|of: char| of.is_ascii_digit() || of == '+' || of == '-');
                assert!(units.contains(&unit), "{text}");
                count += 1;
            }
        }
    }
    assert!(count > 12, "{count}");
}

/// A proxy that answers the first request with 503.
#[test]
fn a_store_that_has_one_bad_moment_is_read_all_the_same() {
    let store = prometheus(cluster::history(true));
    let port = store.port;
    let had_bad_moment = AtomicBool::new(false);
    let server = FakeServer::start_raw(move |request| {
        let (method, target) = method_and_target(request);
        if !had_bad_moment.swap(true, Ordering::Relaxed) {
            return answer(503, "");
        }
        let (code, text) = servers::request(port, method, target, b"").unwrap();
        answer(code, &text)
    });
    let said = recommend(&format!("-n shop --cluster-dir world --no-headers --prometheus {}", server.url()));
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
}

#[test]
fn a_namespace_may_be_a_pattern_and_a_bare_name_is_told_its_controller() {
    let server = prometheus(cluster::history(true));
    let of = |more: &str| recommend(&format!("--cluster-dir world --prometheus {} -o csv {more}", server.url()));
    assert_eq!(of("-n sh*p").out, of("-n shop").out);
    let said = of("-n team-.*");
    assert_eq!((said.code, said.err.contains("no namespace matches `team-.*`")), (2, true), "{}", said.err);
    let said = of("-n shop web");
    assert_eq!((said.code, said.err.contains("did you mean deployment/web?")), (2, true), "{}", said.err);
}

#[test]
fn flags_change_the_rule_for_one_run() {
    let server = prometheus(cluster::history(true));
    let arguments =
        "statefulset/db -n shop --cluster-dir world --memory-percentile peak --memory-margin 0% --min-cpu 300m";
    let Said { code, out, err } = recommend(&format!("{arguments} --prometheus {}", server.url()));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("memory: peak of 30d workload db") && out.contains("0.10 -> 0.30"), "{out}");
}
