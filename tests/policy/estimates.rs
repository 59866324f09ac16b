//! The conformance cases of estimates, natively and in the built wasm. The table of look-ups in each case is converted
//! to profiles, and the five steps of the retired plugin to settings.
//!
//! Left out, because they only concern the old plugin's implementation:
//! - the `percentile` checks: percentiles are computed where profiles are made, by the companion;
//! - `e-source-error-mid-way-stops-fallback`: a history that cannot be read does not end the search here;
//! - `e-digest-image-cut`: it cut a digest out of an image name at the first colon.

use std::collections::BTreeMap;

use headroom_core::cluster::usage::{ProfileKey, profile_layout::key_of};
use headroom_core::image::ImageName;
use headroom_testkit::admission::AdmissionRequest;
use headroom_testkit::cluster::Cluster;
use headroom_testkit::host_call::CallbackRequest;
use serde_json::{Map, Value, json};

use crate::conformance::{assert_same_amounts, cases, cluster, request};
use crate::runner::Runner;

const LEFT_OUT: &[&str] = &["e-source-error-mid-way-stops-fallback", "e-digest-image-cut"];

/// The retired plugin's steps, each of which uses only one scope.
fn settings(case: &Value) -> Value {
    let chosen = &case["input"]["settings"];
    let enough = &chosen["samplesThreshold"];
    let step = |window, matching, samples: &Value, scope| json!({"window": window, "match": matching, "samples": samples, "scope": scope});
    let mut history = vec![step("7d", "tag", enough, "namespace"), step("30d", "tag", enough, "namespace")];
    if chosen["namespaceOnly"] == true {
        history.push(step("30d", "image", &json!(1), "namespace"));
    } else {
        history.push(step("7d", "tag", enough, "cluster"));
        history.push(step("30d", "tag", enough, "cluster"));
        history.push(step("30d", "image", &json!(1), "cluster"));
    }
    let mut settings = json!({"estimates": {
        "now": "2026-11-21T06:00:00Z",
        "history": history,
        "percentile": chosen["percentile"],
        "margin": {"cpu": 0, "memory": 0},
        "wellKnownImages": false,
        "floor": {"cpu": 0, "memory": 0},
        "rounding": {"cpu": "1m", "memory": 1},
    }});
    if chosen["namespaceOnly"] != true {
        settings["estimates"]["pool"] = json!({"fewPods": 0});
    }
    settings
}

/// The answer of the case's table to one look-up.
fn look_up(case: &Value, resource: &str, image: &str, exact: bool, namespace: &str, days: u64) -> Value {
    let found = case["input"]["responses"].as_array().into_iter().flatten().find(|response| {
        response["resource"] == resource
            && response["image"] == image
            && response["exactImage"] == exact
            && response["namespace"] == namespace
            && response["windowDays"] == days
    });
    found.or_else(|| case["input"].get("defaultResponse")).cloned().unwrap_or(Value::Null)
}

fn windows(case: &Value, image: &str, exact: bool, namespace: &str) -> Value {
    let mut windows = Map::new();
    for (days, name) in [(7, "7d"), (30, "30d")] {
        let mut window = json!({"pods": 9, "namespaces": 9});
        for resource in ["cpu", "memory"] {
            let response = look_up(case, resource, image, exact, namespace, days);
            if response.is_null() {
                continue;
            }
            // A failed look-up becomes an unreadable history.
            let samples = if response.get("error").is_some() { "error" } else { &response["samples"].to_string() };
            let unit = if resource == "cpu" { "m" } else { "" };
            let amount = format!("{}{unit}", response["usage"]);
            window[resource] = json!(format!("samples={samples} peak={amount} 90={amount}"));
        }
        windows.insert(name.to_owned(), window);
    }
    json!({"lastSeen": "2026-11-21T00:00:00Z", "oomKills": [], "windows": windows})
}

/// Profiles with the same answers as the case's table.
fn profiles(case: &Value, namespace: &str) -> Vec<Value> {
    let spec = &case["input"]["request"]["object"]["spec"];
    let containers = [&spec["containers"], &spec["initContainers"]].into_iter().filter_map(Value::as_array).flatten();
    let mut roots: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for container in containers {
        let text = container["image"].as_str().unwrap();
        let image = ImageName::parse(text).unwrap();
        let (short, tag) = text.split_once(':').unwrap();
        let histories = |namespace: &str| {
            json!({
                "all": windows(case, short, false, namespace),
                "tags": {key_of(tag): windows(case, text, true, namespace)},
            })
        };
        let place = ProfileKey::of(image.repository());
        let entry = json!({"own": {namespace: histories(namespace)}, "pool": histories("")});
        roots.entry(place.root().to_string()).or_default().insert(place.key, entry);
    }
    let profile = |(name, images): (String, Map<String, Value>)| {
        let header = json!({"format": 2, "collectedAt": "2026-11-21T05:00:00Z", "quorum": 3});
        json!({
            "apiVersion": "headroom.dev/v1alpha1",
            "kind": "UsageProfile",
            "metadata": {"name": name, "namespace": "headroom"},
            "spec": {"header": header, "images": images},
        })
    };
    roots.into_iter().map(profile).collect()
}

fn check(runner: &Runner, case: &Value) {
    let name = case["name"].as_str().unwrap();
    let request = request(case);
    let namespace = case["input"]["request"]["namespace"].as_str().unwrap();
    let mut cluster = profiles(case, namespace).into_iter().fold(cluster(case), Cluster::with);
    cluster.add(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    let response = runner.judge(&request, &settings(case), &mut cluster);
    assert!(response.accepted, "{name}: {response:?}");
    if case["expect"]["annotations"] == json!({}) {
        assert_eq!(response.mutated_object, None, "{name}");
    }
    if case["expect"]["queries"] == json!([]) {
        let is_of_history = |call: &CallbackRequest| matches!(call, CallbackRequest::KubernetesGetResource { kind, .. } if kind == "UsageProfile");
        assert!(!cluster.calls().iter().any(is_of_history), "{name}");
    }
    let object = response.mutated_object.or(request.object.clone()).unwrap();
    for (place, expected) in [("containers", "mutatedContainers"), ("initContainers", "mutatedInitContainers")] {
        for expected in case["expect"][expected].as_array().into_iter().flatten() {
            let containers = object["spec"][place].as_array().unwrap();
            let actual = containers.iter().find(|container| container["name"] == expected["name"]).unwrap();
            assert_same_amounts(name, &actual["resources"]["requests"], &expected["requests"]);
            // A pipeline case expects the state before LimitRange defaults.
            if case["check"] == "admit" {
                assert_same_amounts(name, &actual["resources"]["limits"], &expected["limits"]);
            }
        }
    }
    let again = AdmissionRequest { object: Some(object), ..request };
    let again = runner.judge(&again, &settings(case), &mut cluster);
    assert_eq!(again.mutated_object, None, "{name}: judging again changes nothing");
}

#[test]
fn estimates_are_those_of_the_design_and_of_the_retired_plugin() {
    let all = ["admit", "pipeline"].into_iter().flat_map(|check| cases("estimate.json", check));
    let cases: Vec<Value> = all.filter(|case| !LEFT_OUT.iter().any(|name| case["name"] == *name)).collect();
    assert_eq!(cases.len(), 15);
    for runner in Runner::both() {
        cases.iter().for_each(|case| check(&runner, case));
    }
}
