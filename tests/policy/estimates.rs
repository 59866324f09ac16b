//! The conformance cases of estimates, natively and in the built wasm. The table of look-ups in each case is converted
//! to profiles, and the five steps of the retired plugin to settings.
//!
//! Left out, because they only concern the old plugin's implementation:
//! - the `percentile` checks: percentiles are computed where profiles are made, by the collector;
//! - `source-error-mid-way-stops-fallback`: a history that cannot be read does not end the search here;
//! - `digest-image-cut`: it cut a digest out of an image name at the first colon.

use std::collections::BTreeMap;
use std::fs;

use headroom_core::cluster::usage::{ProfileKey, profile_layout::key_of};
use headroom_core::image::ImageName;
use headroom_fixtures::cluster::Cluster;
use headroom_fixtures::conformance::{Admission, Case, Check, cases};
use headroom_fixtures::host_call::CallbackRequest;
use headroom_fixtures::request;
use headroom_testkit::admission::AdmissionRequest;
use headroom_testkit::built;
use serde_json::{Map, Value, json};

use crate::conformance::assert_containers;
use crate::runner::Runner;

const LEFT_OUT: &[&str] = &["source-error-mid-way-stops-fallback", "digest-image-cut"];

/// The retired plugin's steps, each of which uses only one scope.
fn settings(input: &Admission) -> Value {
    let chosen = &input.settings;
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
        "namespace": "headroom",
        "replayTime": "2026-11-21T06:00:00Z",
        "history": history,
        "percentile": chosen["percentile"],
        "margin": {"cpu": 0, "memory": 0},
        "wellKnownImages": false,
        "min": {"cpu": 0, "memory": 0},
    }});
    if chosen["namespaceOnly"] != true {
        settings["estimates"]["pool"] = json!({"smallSampleMargin": 0});
    }
    settings
}

/// The answer of the case's table to one look-up: usage and samples, where a failed one has no samples.
fn look_up(
    input: &Admission,
    resource: &str,
    image: &str,
    exact: bool,
    namespace: &str,
    days: u64,
) -> Option<(u64, Option<u64>)> {
    let found = input.responses.iter().find(|response| {
        (response.resource.as_str(), response.image.as_str()) == (resource, image)
            && (response.exact_image, response.namespace.as_str(), response.window_days) == (exact, namespace, days)
    });
    let listed = found.map(|found| (found.usage, found.error.is_none().then_some(found.samples)));
    listed.or_else(|| input.default_response.map(|found| (found.usage, Some(found.samples))))
}

fn windows(input: &Admission, image: &str, exact: bool, namespace: &str) -> Value {
    let mut windows = Map::new();
    for (days, name) in [(7, "7d"), (30, "30d")] {
        let mut window = json!({"pods": 9, "namespaces": 9});
        // Estimates are whole Mi, so each byte of a case is one here.
        for (resource, unit) in [("cpu", "m"), ("memory", "Mi")] {
            let Some((usage, samples)) = look_up(input, resource, image, exact, namespace, days) else { continue };
            // A failed look-up becomes an unreadable history.
            let samples = samples.map_or_else(|| json!("error"), |samples| json!(samples));
            let amount = format!("{usage}{unit}");
            window[resource] = json!({"samples": samples, "peak": amount, "percentiles": [null, null, null, null, null, null, amount]});
        }
        windows.insert(name.to_owned(), window);
    }
    json!({"lastSeen": "2026-11-21T00:00:00Z", "oomKills": [], "windows": windows})
}

/// Profiles with the same answers as the case's table.
fn profiles(input: &Admission) -> Vec<Value> {
    let (namespace, spec) = (input.namespace(), &input.request["object"]["spec"]);
    let containers = [&spec["containers"], &spec["initContainers"]].into_iter().filter_map(Value::as_array).flatten();
    let mut roots: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for container in containers {
        let text = container["image"].as_str().unwrap();
        let image = ImageName::parse(text).unwrap();
        let (short, tag) = text.split_once(':').unwrap();
        let histories = |namespace: &str| {
            json!({
                "all": windows(input, short, false, namespace),
                "tags": {key_of(tag): windows(input, text, true, namespace)},
            })
        };
        let place = ProfileKey::of(image.repository());
        let entry = json!({"own": {namespace: histories(namespace)}, "pool": histories("")});
        roots.entry(place.root().to_string()).or_default().insert(place.key, entry);
    }
    let profile = |(name, images): (String, Map<String, Value>)| {
        let header = json!({"format": 3, "collectedAt": "2026-11-21T05:00:00Z", "quorum": 3});
        json!({
            "apiVersion": "headroom.dev/v1alpha1",
            "kind": "UsageProfile",
            "metadata": {"name": name, "namespace": "headroom"},
            "spec": {"header": header, "images": images},
        })
    };
    roots.into_iter().map(profile).collect()
}

/// An object whose estimates of memory are in bytes again, as in the cases.
fn with_bytes(mut object: Value) -> Value {
    for place in ["containers", "initContainers"] {
        for container in object["spec"][place].as_array_mut().into_iter().flatten() {
            if let Some(Value::String(amount)) = container.pointer_mut("/resources/requests/memory") {
                *amount = amount.trim_end_matches("Mi").to_owned();
            }
        }
    }
    object
}

fn check(runner: &Runner, case: &Case) {
    let (name, (input, expect)) = (&case.name, case.admission().unwrap());
    let (settings, request) = (settings(input), AdmissionRequest::from_value(input.request()).unwrap());
    let mut cluster = profiles(input).into_iter().fold(input.cluster(), Cluster::with);
    let response = runner.evaluate(&request, &settings, &mut cluster);
    assert!(response.accepted, "{name}: {response:?}");
    if expect.annotations.as_ref().is_some_and(Map::is_empty) {
        assert_eq!(response.mutated_object, None, "{name}");
    }
    if expect.queries.as_ref().is_some_and(Vec::is_empty) {
        let is_of_history = |call: &CallbackRequest| matches!(call, CallbackRequest::KubernetesGetResource { kind, .. } if kind == "UsageProfile");
        assert!(!cluster.calls().iter().any(is_of_history), "{name}");
    }
    let object = response.mutated_object.or(request.object.clone()).unwrap();
    // A pipeline case expects the state before LimitRange defaults.
    assert_containers(name, &with_bytes(object.clone()), expect, matches!(case.check, Check::Admit { .. }));
    let again = AdmissionRequest { object: Some(object), ..request };
    let again = runner.evaluate(&again, &settings, &mut cluster);
    assert_eq!(again.mutated_object, None, "{name}: evaluating again changes nothing");
}

#[test]
fn estimates_are_those_of_the_design_and_of_the_retired_plugin() {
    let cases: Vec<Case> = cases("estimate").into_iter().filter(|case| case.admission().is_some()).collect();
    let (left_out, cases): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| LEFT_OUT.contains(&case.name.as_str()));
    assert_eq!(left_out.len(), LEFT_OUT.len(), "a case that is left out is gone");
    for runner in Runner::both() {
        cases.iter().for_each(|case| check(&runner, case));
    }
}

/// The last scene of `make demo` is the first again, with a history.
#[test]
fn the_demo_estimates_from_usage() {
    let story = fs::read_to_string(built::workspace_file("test_data/demo/story.yaml")).unwrap();
    let scenes: Vec<Value> = serde_saphyr::from_str(&story).unwrap();
    let (first, last) = (scenes.first().unwrap(), scenes.last().unwrap());
    assert_eq!((scenes.len(), &first["object"]), (6, &last["object"]));
    let files = last["cluster"].as_array().unwrap().iter().map(|file| built::workspace_file(file.as_str().unwrap()));
    let mut cluster = Cluster::from_files(files).unwrap();
    let request = request::for_object("CREATE", &last["object"], None, "");
    let request = AdmissionRequest::from_value(request).unwrap();
    let response = Runner::Native.evaluate(&request, &last["settings"], &mut cluster);
    let warnings = response.warnings.unwrap_or_default().join("\n");
    for resource in ["cpu", "memory"] {
        assert!(warnings.contains(&format!("container nginx: {resource} request set to ")), "{warnings}");
    }
    assert_eq!(warnings.matches("(usage of nginx:1.25 in this namespace over ").count(), 2, "{warnings}");
}
