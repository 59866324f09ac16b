//! The UI with a metrics store: recommendations, prices, and the trends of quotas.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use headroom_fixtures::process::Running;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{cluster, here, prometheus};
use crate::support::{folder, program, said};

/// The program with its address, which ends with the test.
struct Page {
    _program: Running,
    host: String,
    path: String,
    _site: TempDir,
}

impl Page {
    fn new(arguments: &str) -> Self {
        let site = folder(&[("index.html", "<html lang=\"en\">")]);
        let mut command = program(&here());
        command.args(["ui", "--settings", "moment.yaml", "--cluster-dir", "world"]).env("HEADROOM_PAGE", site.path());
        command.stdout(Stdio::piped());
        let mut program = Running(command.args(arguments.split_whitespace()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, url) = line.split_once("http://").unwrap();
        let (host, path) = url.split_whitespace().next().unwrap().split_once('/').unwrap();
        Self { _program: program, host: host.to_owned(), path: path.to_owned(), _site: site }
    }

    fn answer(&self, question: &str) -> Value {
        let Self { host, path, .. } = self;
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET /{path}{question} HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
        let (mut stream, mut head) = (BufReader::new(stream), String::new());
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        }
        assert!(head.contains(" 200 "), "{head}");
        let is_list = ["cluster.json", "objects.json"].contains(&question);
        assert!(!is_list || head.contains("content-encoding: gzip\r\n"), "{head}");
        let read = if head.contains("gzip") {
            serde_json::from_reader(GzDecoder::new(stream))
        } else {
            serde_json::from_reader(stream)
        };
        read.unwrap()
    }
}

fn shown(arguments: &str) -> Value {
    spec(&asked("cluster.json", arguments))
}

/// The part of an answer besides objects.
fn spec(list: &Value) -> Value {
    list["items"].as_array().unwrap().last().unwrap()["spec"].clone()
}

/// The answer to one question about the namespace `shop`.
fn asked(question: &str, arguments: &str) -> Value {
    Page::new(&format!("-n shop {arguments}")).answer(question)
}

#[test]
fn the_ui_sizes_from_a_metrics_store_with_prices_and_trends() {
    let server = prometheus(cluster::history(true));
    let shown = shown(&format!("--prometheus {} --price 23", server.url()));
    let source = shown["advice"]["source"].as_str().unwrap();
    assert!(source.starts_with(&format!("Usage from {}", server.url())), "{source}");
    assert!(shown["advice"]["total"]["savedAMonth"].is_string(), "{}", shown["advice"]["total"]);
    // Memory is younger than a day, and no TenantQuota was read.
    let trend = json!({"namespace": "shop", "quota": "team", "resource": "requests.cpu", "perDay": 500});
    assert_eq!(shown["trends"], json!([trend]));
}

#[test]
fn the_page_shows_the_bounds_that_recommend_bounds_prints() {
    let found = asked("bounds.json", "");
    let [quotas, ranges] = ["quotas", "limitRanges"].map(|of| found[of].as_array().unwrap());
    let yaml = found["yaml"].as_array().unwrap();
    assert_eq!(yaml.len(), quotas.len() + ranges.len());
    for (object, yaml) in quotas.iter().chain(ranges).zip(yaml) {
        assert!(yaml.as_str().unwrap().contains(&format!("  name: {}\n", object["name"].as_str().unwrap())), "{yaml}");
    }
    assert_eq!(json!([quotas[0]["name"], ranges[0]["namespace"]]), json!(["team", "shop"]));
    assert_eq!(found["trial"]["rejected"], json!([]));
}

#[test]
fn a_tenant_quota_has_a_trend_across_changes_of_the_leader() {
    let server = prometheus(cluster::history(true));
    let quota = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": "commerce"},
        "spec": {"namespaceSelector": {}, "quota": {"hard": {"requests.cpu": "60"}}}});
    let folder = folder(&[("commerce.yaml", &quota.to_string())]);
    let shown = shown(&format!("--prometheus {} --cluster-dir {}", server.url(), folder.path().display()));
    let trend = json!({"namespace": "", "quota": "commerce", "resource": "requests.cpu", "perDay": 2000});
    assert_eq!(shown["trends"][1], trend, "{}", shown["trends"]);
}

#[test]
fn without_a_store_the_ui_sizes_from_what_was_collected() {
    let shown = shown("");
    assert_eq!(shown["advice"]["source"], "Usage from UsageProfiles in namespace headroom");
    assert_eq!(shown["trends"], json!([]));
}

#[test]
fn a_store_that_does_not_answer_is_reported_beside_what_runs() {
    let shown = shown("--prometheus http://127.0.0.1:9");
    let problem = shown["unknown"].as_str().unwrap();
    assert!(problem.contains("cannot reach `http://127.0.0.1:9") && !problem.contains("namespace"), "{problem}");
    assert!(!shown["advice"]["lines"].as_array().unwrap().is_empty(), "{shown}");
}

#[test]
fn rows_come_before_the_usage_of_a_store() {
    // Without a store they would be no sooner there than the rest.
    assert_eq!(asked("rows.json", ""), Value::Null);
    let spec = spec(&asked("rows.json", "--prometheus http://127.0.0.1:9"));
    assert_eq!((&spec["unknown"], spec["advice"]["total"]["workloads"].is_u64()), (&Value::Null, true), "{spec}");
}

#[test]
fn of_a_whole_cluster_rows_of_its_first_namespaces_come_first() {
    let folder = tempfile::tempdir().unwrap();
    for team in 10..25 {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": format!("a{team}")},
            "spec": {"containers": [{"name": "a", "image": "a"}]}});
        std::fs::write(folder.path().join(format!("{team}.yaml")), pod.to_string()).unwrap();
    }
    let running = Page::new(&format!("-A --cluster-dir {}", folder.path().display()));
    let namespaces = |list: &Value| {
        let lines = spec(list)["advice"]["lines"].as_array().unwrap().clone();
        BTreeSet::from_iter(lines.iter().map(|line| line["namespace"].as_str().unwrap().to_owned())).len()
    };
    assert_eq!((namespaces(&running.answer("rows.json")), namespaces(&running.answer("cluster.json"))), (10, 16));
}

#[test]
fn who_looks_at_a_workload_gets_the_rows_of_its_namespace_tried() {
    let server = prometheus(cluster::history(true));
    let running = Page::new(&format!("-n shop --prometheus {}", server.url()));
    let all = spec(&running.answer("cluster.json"))["advice"].clone();
    let tried = spec(&running.answer("tried.json?workload=shop/deployment/web"))["advice"].clone();
    assert!(tried["workloads"].to_string().contains("kubectl patch"), "{tried}");
    assert_eq!([&tried["lines"], &tried["workloads"]], [&all["lines"], &all["workloads"]]);
}

#[test]
fn a_report_is_the_page_with_a_snapshot_inside() {
    let folder = folder(&[("index.html", "<html lang=\"en\">"), ("report.html", "<pre>@SNAPSHOT@</pre>")]);
    let run =
        |arguments: &str| said(program(&here()).args(arguments.split_whitespace()).env("HEADROOM_PAGE", folder.path()));
    let snapshot = |page: &str| -> Value {
        let packed = page.strip_prefix("<pre>").unwrap().strip_suffix("</pre>").unwrap();
        serde_json::from_reader(GzDecoder::new(STANDARD.decode(packed).unwrap().as_slice())).unwrap()
    };
    let scope = "--settings moment.yaml -n shop --cluster-dir world";
    let file = folder.path().join("shop.html");
    let said = run(&format!("ui {scope} --export {}", file.display()));
    assert_eq!(said.code, 0, "{said:?}");
    let whole = snapshot(&std::fs::read_to_string(file).unwrap());
    let kinds: BTreeSet<&str> =
        whole["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(Vec::from_iter(kinds), ["LimitRange", "Namespace", "ResourceQuota", "Snapshot"]);
    let said = run(&format!("recommend {scope} -o html"));
    let alone = snapshot(&said.out);
    let [alone, whole] = [alone, whole].map(|list| spec(&list)["advice"]["lines"].as_array().unwrap().len());
    assert_eq!(alone, whole);
}

#[test]
fn the_ui_reads_of_a_pod_only_what_the_page_evaluates() {
    let resources = json!({"requests": {"cpu": "250m"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "shop"},
        "spec": {"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"name": "a", "image": "a",
            "command": ["sleep"], "resources": resources}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1"}});
    let folder = folder(&[("pod.yaml", &pod.to_string())]);
    let arguments = format!("--cluster-dir {}", folder.path().display());
    let read = |question| asked(question, &arguments)["items"].as_array().unwrap().clone();
    let (viewed, evaluated) = (read("cluster.json"), read("objects.json"));
    assert_eq!(viewed.last().unwrap()["spec"]["objects"], evaluated.len() - 1);
    let found = evaluated.iter().find(|item| item["metadata"]["name"] == "alone").unwrap();
    assert_eq!(found["spec"], json!({"containers": [{"name": "a", "image": "a", "resources": resources}]}));
    assert_eq!(found["status"], json!({"phase": "Running"}));
}
