//! `describe`, `recommend` and the conventions for kubectl plugins, by running the program.
//!
//! `world` is a namespace in files, and `profiles` the output of `headroom-controller collect` for it.

mod conventions;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Said, folder, headroom};

pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/describe")
}

fn run(arguments: &str) -> Said {
    headroom(&here(), arguments)
}

/// Files instead of a cluster.
const WORLD: &str = "-n shop --cluster-dir world --cluster-dir profiles";
const AS_OF: &str = "--settings settings.yaml";

#[test]
fn a_snapshot_has_the_same_recommendations_for_the_page() {
    let json = |arguments: String| serde_json::from_str::<Value>(&run(&arguments).out).unwrap();
    let snapshot = json(format!("snapshot {WORLD} {AS_OF}"));
    let item = snapshot["items"].as_array().unwrap().iter().find(|item| item["kind"] == "Snapshot").unwrap();
    let carried = &item["spec"]["advice"];
    let advice = json(format!("recommend {WORLD} {AS_OF} -o json"));
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
    assert!(memory["usage"][4]["value"].as_u64() > Some(1000 << 20), "{memory:#}");
}

#[test]
fn what_admission_sets_is_as_the_policys_own_settings_have_it() {
    let settings = |estimates: &str| format!("estimates: {{replayTime: '2026-11-21T05:00:00Z'{estimates}}}\n");
    let folder = folder(&[("history.yaml", &settings(", namespace: headroom")), ("no-history.yaml", &settings(""))]);
    let cpu = |file: &str| {
        let settings = folder.path().join(file);
        let said = run(&format!("recommend -f new.yaml {WORLD} -o json --settings {}", settings.display()));
        let report: Value = serde_json::from_str(&said.out).expect(&said.err);
        let cpu = &report["workloads"][0]["containers"][0]["resources"][0];
        [&cpu["recommended"], &cpu["request"]["value"], &cpu["request"]["from"]]
            .map(|text| text.as_str().unwrap().to_owned())
    };
    assert_eq!(cpu("history.yaml"), ["155m", "155m", "estimated at admission"]);
    assert_eq!(cpu("no-history.yaml"), ["155m", "100m", "typical for this image, set at admission"]);
}
