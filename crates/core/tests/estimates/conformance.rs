//! The conformance cases of estimates: the table of look-ups that each case holds becomes profiles, and the five steps
//! of the retired plugin become settings.
//!
//! Left out, because they tell only how the old plugin was made:
//! - the `percentile` checks: percentiles are computed where profiles are made, by the companion;
//! - `e-source-error-mid-way-stops-fallback`: a history that cannot be read does not end the search here;
//! - `e-digest-image-cut`: it cut a digest out of an image name at the first colon.

use headroom_core::amount::ResourceList;
use headroom_core::context::usage::address::{Shard, image_key};
use headroom_core::image::ImageName;
use headroom_core::json::Document;
use serde_json::{Map, Value, json};

use crate::situation::{Situation, profile};

const LEFT_OUT: &[&str] = &["e-source-error-mid-way-stops-fallback", "e-digest-image-cut"];

/// The retired plugin's steps, in each of which only one scope is looked at.
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
    json!({"estimates": {
        "history": history,
        "percentile": chosen["percentile"],
        "wellKnownImages": false,
        "floor": {"cpu": 0, "memory": 0},
        "rounding": {"cpu": "1m", "memory": 1},
    }})
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
            // A failed look-up is a history that cannot be read.
            let samples = if response.get("error").is_some() { "error" } else { &response["samples"].to_string() };
            let unit = if resource == "cpu" { "m" } else { "" };
            let amount = format!("{}{unit}", response["usage"]);
            window[resource] = json!(format!("samples={samples} peak={amount} 90={amount}"));
        }
        windows.insert(name.to_owned(), window);
    }
    json!({"lastSeen": "2026-11-21T00:00:00Z", "oomKills": [], "windows": windows})
}

/// The profiles that answer as the case's table does.
fn profiles(case: &Value, namespace: &str) -> Vec<Value> {
    let spec = &case["input"]["request"]["object"]["spec"];
    let containers = [&spec["containers"], &spec["initContainers"]].into_iter().filter_map(Value::as_array).flatten();
    let mut own = Map::new();
    let mut profiles = Vec::new();
    for container in containers {
        let text = container["image"].as_str().unwrap();
        let image = ImageName::parse(text).unwrap();
        let (short, tag) = text.split_once(':').unwrap();
        let entry = |namespace: &str| {
            json!({
                "repository": image.repository(),
                "all": windows(case, short, false, namespace),
                "tags": {tag: windows(case, text, true, namespace)},
            })
        };
        let key = image_key(image.repository());
        own.insert(key.clone(), entry(namespace));
        let shard = Shard::of(image.repository()).to_string();
        profiles.push(profile(&shard, "headroom", json!({key: entry("")})));
    }
    profiles.push(profile("usage", namespace, Value::Object(own)));
    profiles
}

fn assert_amounts(name: &Value, what: &str, actual: &Value, expected: &Value) {
    let [actual, expected] = [actual, expected].map(|list| {
        let text = if list.is_null() { "{}".to_owned() } else { list.to_string() };
        ResourceList::read(Document::read(&text).unwrap().root())
            .unwrap()
            .iter()
            .map(|(name, quantity)| (name.to_string(), quantity.clone()))
            .collect::<Vec<_>>()
    });
    assert_eq!(actual, expected, "{name}: {what}");
}

#[test]
fn estimates_are_those_of_the_design_and_of_the_retired_plugin() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../../../scenarios/conformance/estimate.json")).unwrap();
    let mut replayed = 0;
    for case in &cases {
        let name = &case["name"];
        if case["check"] == "percentile" || LEFT_OUT.iter().any(|left_out| name == left_out) {
            continue;
        }
        replayed += 1;
        let request = &case["input"]["request"];
        let mut situation = Situation::of_request(request.clone()).with_settings(settings(case));
        situation.profiles = profiles(case, request["namespace"].as_str().unwrap());
        situation.limit_ranges = case["input"]["limitRanges"].as_array().cloned().unwrap_or_default();
        let outcome = situation.judge();
        assert!(outcome.admitted, "{name}: {}", outcome.message);
        for (place, expected) in [("containers", "mutatedContainers"), ("initContainers", "mutatedInitContainers")] {
            for expected in case["expect"][expected].as_array().into_iter().flatten() {
                let containers = outcome.object["spec"][place].as_array().unwrap();
                let actual = containers.iter().find(|container| container["name"] == expected["name"]).unwrap();
                assert_amounts(name, "requests", &actual["resources"]["requests"], &expected["requests"]);
                // What a pipeline case expects is the state before LimitRange defaults.
                if case["check"] == "admit" {
                    assert_amounts(name, "limits", &actual["resources"]["limits"], &expected["limits"]);
                }
            }
        }
        if case["expect"]["annotations"] == json!({}) {
            assert!(!outcome.changed, "{name}");
        }
        if case["expect"]["queries"] == json!([]) {
            assert_eq!(outcome.profiles_read(), 0, "{name}");
        }
        assert!(!situation.judge_again(&outcome).changed, "{name}: judging again changes nothing");
    }
    assert_eq!(replayed, 15);
}
