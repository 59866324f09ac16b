//! Recommendations as other programs read them.

use std::fs;

use serde_json::Value;

use super::program::run;

/// Files instead of a cluster.
const WORLD: &str = "-n shop --cluster-dir world --cluster-dir profiles";
const AS_OF: &str = "--settings settings.yaml";

#[test]
fn a_snapshot_has_the_same_recommendations_for_the_page() {
    let json = |arguments: String| serde_json::from_str::<Value>(&run(&arguments).out).unwrap();
    let snapshot = json(format!("snapshot {WORLD} {AS_OF}"));
    let item = snapshot["items"].as_array().unwrap().iter().find(|item| item["kind"] == "Snapshot").unwrap();
    let carried = &item["spec"]["advice"];
    let advice = json(format!("recommend {WORLD} {AS_OF} --sort-by name -o json"));
    let mut expected = Vec::new();
    for workload in advice["workloads"].as_array().unwrap() {
        for container in workload["containers"].as_array().unwrap() {
            for resource in container["resources"].as_array().unwrap() {
                let peak = &resource["used"]["peak"];
                let amounts = ["recommended", "recommendedLimit"].map(|field| resource[field].clone());
                expected.push((&workload["namespace"], &container["name"], amounts, !peak.is_null()));
            }
        }
    }
    let lines = carried["lines"].as_array().unwrap().iter();
    let has_usage = |line: &Value| !line["usage"].as_array().unwrap().is_empty();
    let amounts = |line: &Value| ["recommended", "recommendedLimit"].map(|field| line[field]["text"].clone());
    let lines = lines.map(|line| (&line["namespace"], &line["container"], amounts(line), has_usage(line)));
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    assert!(expected.iter().any(|line| line.3) && expected.iter().any(|line| !line.3));
    assert_eq!(carried["quotas"], advice["quotas"]);
    let peak =
        |line: &&Value| line["usage"].as_array().is_some_and(|usage| usage.last().is_some_and(|of| of["at"] == "peak"));
    let memory =
        carried["lines"].as_array().unwrap().iter().filter(|line| line["resource"] == "memory").find(peak).unwrap();
    assert_eq!(memory["usage"][4]["text"].as_str().map(|text| text.ends_with("Mi")), Some(true), "{memory:#}");
}

#[test]
fn the_distribution_is_drawn_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.svg");
    let said = run(&format!("recommend sts/db {WORLD} {AS_OF} --plot {}", file.display()));
    assert_eq!(said.code, 0, "{}", said.err);
    let svg = fs::read_to_string(&file).unwrap();
    for text in ["cpu of statefulset/db postgres", "memory of statefulset/db postgres", "recommended 658m", "now 500m"]
    {
        assert!(svg.contains(text), "{text} in {svg}");
    }
    let said = run(&format!("recommend pod/debug {WORLD} {AS_OF} --plot {}", file.display()));
    assert_eq!(said.code, 2);
    assert!(said.err.starts_with("error: there is no history to draw into `"), "{}", said.err);
}
