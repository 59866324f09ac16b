//! The conformance cases of admission, as payloads: natively, and with the built wasm in a real waPC host.

use headroom_core::amount::ResourceList;
use headroom_core::json::Document;
use headroom_testkit::admission::{AdmissionRequest, ValidationResponse};
use headroom_testkit::built;
use headroom_testkit::cluster::Cluster;
use serde_json::{Value, json};

use crate::runner::Runner;

/// Settings for Kubernetes' behaviour where ours differs by default: no estimates, no repair of default limits, and no
/// checks of templates.
fn upstream_settings(case: &Value) -> Value {
    let limited = case["input"]["limitedResources"].as_array().cloned().unwrap_or_default();
    let workloads = if case["check"] == "workload" { "enforce" } else { "off" };
    let mut settings = json!({
        "estimates": {"mode": "never"},
        "limitRanges": {"repairDefaultLimit": false, "workloads": "off"},
        "quotas": {"workloads": workloads, "limitedResources": limited},
    });
    for (section, chosen) in case["input"]["settings"].as_object().into_iter().flatten() {
        settings[section] = chosen.clone();
    }
    settings
}

pub fn cases(file: &str, check: &str) -> Vec<Value> {
    let path = built::workspace_file("conformance").join(file);
    let all: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases: Vec<Value> = all.into_iter().filter(|case| case["check"] == check).collect();
    assert!(!cases.is_empty(), "there are cases of {check}");
    cases
}

/// The request of a case, with the fields that the API server always sends and cases leave out.
pub fn request(case: &Value) -> AdmissionRequest {
    let mut request = case["input"]["request"].clone();
    let fields = request.as_object_mut().unwrap();
    fields.entry("uid").or_insert_with(|| json!("case"));
    fields.entry("userInfo").or_insert_with(|| json!({}));
    AdmissionRequest::from_value(request).unwrap()
}

pub fn cluster(case: &Value) -> Cluster {
    let objects = ["limitRanges", "resourceQuotas"].into_iter().filter_map(|list| case["input"][list].as_array());
    let others = case["input"]["context"].as_object().into_iter().flat_map(|lists| lists.values());
    let objects = objects.chain(others.filter_map(Value::as_array));
    objects.flatten().cloned().fold(Cluster::new(), |cluster, mut object| {
        // A case may omit the namespace if there is only one.
        let namespace = case["input"]["request"]["namespace"].clone();
        object["metadata"].as_object_mut().unwrap().entry("namespace").or_insert(namespace);
        cluster.with(object)
    })
}

fn check_admission(runner: &Runner, case: &Value) {
    let name = case["name"].as_str().unwrap();
    let request = request(case);
    let response = runner.judge(&request, &upstream_settings(case), &mut cluster(case));
    let expect = &case["expect"];
    assert_eq!(response.accepted, expect["allowed"], "{name}: {response:?}");
    if !response.accepted {
        check_message(name, expect, &response);
        return;
    }
    let object = response.mutated_object.or(request.object).unwrap_or_default();
    for (key, field) in [("mutatedContainers", "containers"), ("mutatedInitContainers", "initContainers")] {
        for expected in expect[key].as_array().into_iter().flatten() {
            let containers = object["spec"][field].as_array().unwrap();
            let container = containers.iter().find(|container| container["name"] == expected["name"]);
            let resources = &container.unwrap_or_else(|| panic!("{name}: {expected} is missing"))["resources"];
            for list in ["requests", "limits"] {
                assert_same_amounts(name, &resources[list], &expected[list]);
            }
        }
    }
    if let Some(expected) = expect["annotations"].as_object() {
        let mut annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        annotations.remove("headroom.dev/resources");
        assert_eq!(annotations, *expected, "{name}");
    }
}

fn check_message(name: &str, expect: &Value, response: &ValidationResponse) {
    assert_eq!(response.code, Some(403), "{name}");
    let message = response.message.as_deref().unwrap();
    let texts = |key: &str| expect[key].as_array().cloned().unwrap_or_default();
    for text in texts("messageContains") {
        assert!(message.contains(text.as_str().unwrap()), "{name}: {text} is not in: {message}");
    }
    for text in texts("messageNotContains") {
        assert!(!message.contains(text.as_str().unwrap()), "{name}: {text} is in: {message}");
    }
    if let Some(upstream) = expect["upstreamMessage"].as_str() {
        assert!(message.starts_with(upstream), "{name}: {message} does not begin with Kubernetes' text: {upstream}");
    }
}

pub fn assert_same_amounts(name: &str, actual: &Value, expected: &Value) {
    let text = |list: &Value| if list.is_null() { "{}".to_owned() } else { list.to_string() };
    let (actual, expected) = (text(actual), text(expected));
    let documents = (Document::read(&actual).unwrap(), Document::read(&expected).unwrap());
    let lists = (ResourceList::read(documents.0.root()).unwrap(), ResourceList::read(documents.1.root()).unwrap());
    assert_eq!(lists.0, lists.1, "{name}");
}

fn check_file(file: &str, check: &str) {
    for runner in Runner::both() {
        for case in cases(file, check) {
            check_admission(&runner, &case);
        }
    }
}

#[test]
fn limit_ranges_admit_what_kubernetes_admits() {
    check_file("limitrange.json", "admit");
}

#[test]
fn quotas_admit_what_kubernetes_admits() {
    check_file("quota.json", "admit");
}

#[test]
fn forged_fields_are_not_trusted() {
    check_file("trust.json", "admit");
    check_file("trust.json", "workload");
    check_file("trust.json", "pipeline");
}

#[test]
fn cases_of_newer_releases_hold() {
    check_file("news.json", "admit");
    check_file("news.json", "pipeline");
}

#[test]
fn quotas_see_a_pod_with_its_limit_range_defaults() {
    check_file("quota.json", "pipeline");
}
