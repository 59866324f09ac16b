//! The alert rules, the Grafana dashboard and the documentation use metrics that exist, with labels that they have.
//! promtool, of the servers for tests, evaluates the rules.

#![expect(clippy::panic, reason = "a test may panic on unexpected data")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::process::Command;
use std::sync::LazyLock;

use headroom_api_server::parts::{self, Parts, UNBOUNDED};
use headroom_collector::metrics;
use headroom_fixtures::workspace_file;
use headroom_quota_server::metrics as quota_server;
use headroom_quota_server::metrics::QuotaLabels;
use regex::Regex;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Labels that scraping adds.
const SCRAPED: [&str; 7] = ["namespace", "pod", "instance", "job", "container", "endpoint", "service"];
const WORDS: &str = "and or unless on ignoring group_left group_right by without bool offset sum max min count avg topk \
                     bottomk quantile e Inf NaN";

/// Labels by the metric's name.
type Metrics = BTreeMap<String, BTreeSet<String>>;

fn read(file: &str) -> String {
    fs::read_to_string(workspace_file(file)).unwrap()
}

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&read(file)).unwrap()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// The metrics of a program while it watches.
fn watched(parts: &Parts, metrics: &dyn Display) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        parts.finish("watch of Namespaces", UNBOUNDED, async {
            parts::knows(Instant::now());
            std::future::pending().await
        });
        tokio::task::yield_now().await;
        metrics.to_string()
    })
}

fn collector() -> String {
    let metrics = metrics::CollectorMetrics::default();
    watched(&metrics.parts, &metrics)
}

/// The metrics of the ledger's leader about a quota.
fn ledger() -> String {
    let metrics = quota_server::QuotaServerMetrics::default();
    let labels = QuotaLabels { quota: "payments".to_owned(), resource: "pods".to_owned(), r#type: "hard" };
    metrics.set_quotas(vec![(labels, "1".parse().unwrap())]);
    watched(&metrics.parts, &metrics)
}

/// The metrics of a resizer that has looked at a cluster.
fn resizer() -> String {
    let metrics = headroom_resizer::metrics::ResizerMetrics::default();
    metrics.seen(&headroom_resizer::metrics::PassCounts::default());
    metrics.to_string()
}

fn names(text: &str) -> BTreeSet<String> {
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    families.map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() }).collect()
}

/// The metrics of the OpenMetrics text format.
fn exposed(text: &str) -> Metrics {
    let sample = Regex::new(r"(?m)^(\w+)(\{[^}]*\})? ").unwrap();
    let label = Regex::new(r#"(\w+)=""#).unwrap();
    let mut found = Metrics::new();
    for sample in sample.captures_iter(text) {
        let labels = found.entry(sample[1].to_owned()).or_insert_with(|| SCRAPED.map(str::to_owned).into());
        let own = sample.get(2).map_or("", |own| own.as_str());
        labels.extend(label.captures_iter(own).map(|label| label[1].to_owned()));
    }
    found
}

/// Metrics of others, as tests/data has them.
fn exporters() -> Metrics {
    let others = yaml("tests/data/monitoring/exporters.yaml");
    let metrics = others.as_object().unwrap().values().flat_map(items);
    let labels =
        |metric: &Value| items(&metric["labels"]).iter().map(|label| label.as_str().unwrap().to_owned()).collect();
    let mut found: Metrics =
        metrics.map(|metric| (metric["name"].as_str().unwrap().to_owned(), labels(metric))).collect();
    found.values_mut().for_each(|labels| labels.extend(["instance", "job"].map(str::to_owned)));
    found
}

/// Each metric in an expression, with the labels that it is selected by.
fn uses(expression: &str) -> Vec<(String, Vec<String>)> {
    static LEFT_OUT: LazyLock<[Regex; 3]> = LazyLock::new(|| {
        [
            r#""(\\.|[^"\\])*""#,
            r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)",
            r"\[[^\]]*\]|\boffset\s+\w+",
        ]
        .map(|pattern| Regex::new(pattern).unwrap())
    });
    static METRIC: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"([A-Za-z_:][A-Za-z0-9_:]*)\s*(\{[^}]*\})?(\s*\()?").unwrap());
    static LABEL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\w+)\s*[=!]").unwrap());
    let plain =
        LEFT_OUT.iter().fold(expression.to_owned(), |text, pattern| pattern.replace_all(&text, " ").into_owned());
    let is_metric = |name: &str| !WORDS.split(' ').any(|word| word == name);
    let metrics = METRIC.captures_iter(&plain).filter(|found| found.get(3).is_none() && is_metric(&found[1]));
    let labels = |selector: &str| LABEL.captures_iter(selector).map(|label| label[1].to_owned()).collect();
    metrics.map(|found| (found[1].to_owned(), labels(found.get(2).map_or("", |selector| selector.as_str())))).collect()
}

fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").current_dir(workspace_file("")).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("promtool: {error}: run scripts/setup-debian.sh test-servers"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
}

const ALERTS: &str = "deploy/charts/headroom/files/alerts.yaml";

#[test]
fn the_alerts_fire_when_they_should() {
    promtool(&["check", "rules", ALERTS]);
    promtool(&["test", "rules", "tests/data/monitoring/alerts-test.yaml"]);
    let names = |rules: &[&Value], name: &str| -> BTreeSet<String> {
        rules.iter().map(|rule| rule[name].as_str().unwrap().to_owned()).collect()
    };
    let (alerts, tests) = (yaml(ALERTS), yaml("tests/data/monitoring/alerts-test.yaml"));
    let rules: Vec<&Value> = items(&alerts["groups"]).iter().flat_map(|group| items(&group["rules"])).collect();
    let tests = items(&tests["tests"]).iter().flat_map(|test| items(&test["alert_rule_test"]));
    let firing: Vec<&Value> = tests.filter(|test| !items(&test["exp_alerts"]).is_empty()).collect();
    let row = Regex::new(r"(?m)^\| `(Headroom\w+)` \| .+ \|$").unwrap();
    let on_call = read("docs/src/tasks/on-call.md");
    let explained: BTreeSet<String> = row.captures_iter(&on_call).map(|row| row[1].to_owned()).collect();
    let alerts = names(&rules, "alert");
    assert_eq!(explained, alerts, "each alert has its row in the page for the person on call");
    assert_eq!(names(&firing, "alertname"), alerts, "each alert fires in a test");
}

#[test]
fn alerts_and_dashboard_use_metrics_that_exist() {
    let others = exporters();
    let mut known = exposed(&collector());
    known.extend(exposed(&ledger()));
    known.extend(exposed(&resizer()));
    known.extend(others.clone());
    let (mut expressions, mut rules) = (Vec::new(), Vec::new());
    let alerts = yaml(ALERTS);
    for rule in items(&alerts["groups"]).iter().flat_map(|group| items(&group["rules"])) {
        if let Some(name) = rule["record"].as_str() {
            known.insert(name.to_owned(), ["namespace", "pod"].map(str::to_owned).into());
        }
        expressions.push((rule["alert"].to_string(), rule["expr"].as_str().unwrap().to_owned()));
    }

    let text = read("deploy/charts/headroom/files/dashboard.json");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let legend = Regex::new(r"\{\{(\w+)\}\}").unwrap();
    let mut ids = BTreeSet::new();
    for panel in items(&dashboard["panels"]) {
        let (title, place) = (&panel["title"], &panel["gridPos"]);
        assert!(ids.insert(panel["id"].as_u64()), "{title}: the id is used twice");
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{title} is wider than the page");
        if panel["type"] == "row" {
            continue;
        }
        assert!(!items(&panel["targets"]).is_empty(), "{title} shows nothing");
        for target in items(&panel["targets"]) {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression.replace("$__rate_interval", "5m").replace("$namespace", ".*");
            assert!(!expression.contains('$'), "{title}: unknown variable in {expression}");
            for label in legend.captures_iter(target["legendFormat"].as_str().unwrap()) {
                let mut kept = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
                let is_kept = kept.any(|labels| labels.split(", ").any(|kept| *kept == label[1]));
                assert!(is_kept, "{title}: the legend shows {}, which the expression drops", &label[1]);
            }
            rules.push(json!({"record": format!("dashboard:panel_{}", rules.len()), "expr": expression}));
            expressions.push((title.to_string(), expression));
        }
    }
    let variables: Vec<&Value> =
        items(&dashboard["templating"]["list"]).iter().map(|variable| &variable["name"]).collect();
    for used in Regex::new(r"\$\{?([a-z]\w*)").unwrap().captures_iter(&text) {
        assert!(variables.iter().any(|name| **name == used[1]), "the dashboard has no variable {}", &used[1]);
    }

    let mut used = BTreeSet::new();
    for (place, expression) in &expressions {
        let metrics = uses(expression);
        assert!(!metrics.is_empty(), "{place}: no metric found in {expression}");
        for (name, labels) in metrics {
            let known = known.get(&name).unwrap_or_else(|| panic!("{place}: no component exposes {name}"));
            assert!(labels.iter().all(|label| known.contains(label)), "{place}: {name} has not all of {labels:?}");
            used.insert(name);
        }
    }
    let unused: Vec<&String> = others.keys().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "not used: {unused:?}");
    assert!(expressions.len() > 30, "{}", expressions.len());

    // promtool reads the dashboard's expressions as rules.
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    fs::write(file.path(), json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string()).unwrap();
    promtool(&["check", "rules", file.path().to_str().unwrap()]);
}

#[test]
fn the_dashboard_has_the_colors_of_the_design() {
    let (dashboard, tokens) =
        (read("deploy/charts/headroom/files/dashboard.json"), read("playground/design/tokens.css"));
    let colors = Regex::new(r#""color": "([^"]+)""#).unwrap();
    let colors: BTreeSet<&str> = colors.captures_iter(&dashboard).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(!colors.is_empty());
    for color in colors {
        assert!(color.starts_with('#') && tokens.contains(color), "playground/design/tokens.css has no {color}");
    }
}

#[test]
fn the_documentation_names_all_metrics() {
    let (monitor, quotas) = (read("docs/src/tasks/monitor.md"), read("docs/src/tasks/quotas-over-namespaces.md"));
    for (page, prefix, text) in [(monitor, "headroom_collector_", collector()), (quotas, "headroom_ledger_", ledger())]
    {
        let named = Regex::new(&format!(r"`({prefix}\w+)")).unwrap();
        let named: BTreeSet<String> = named.captures_iter(&page).map(|found| found[1].to_owned()).collect();
        let names: BTreeSet<String> = names(&text).into_iter().filter(|name| name.starts_with(prefix)).collect();
        assert_eq!(named, names);
    }
}
