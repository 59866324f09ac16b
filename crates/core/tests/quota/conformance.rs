//! The conformance cases of quotas. The cases of admission are replayed as in the policy's shell: payload and lists in,
//! answer out.

use std::collections::BTreeMap;

use headroom_core::amount::ResourceList;
use headroom_core::cluster::resource_quota::ScopeRequirement;
use headroom_core::json::Document;
use headroom_core::quota::{DeviceContext, Kind, Measure, Object, Usage, scope};
use headroom_core::request::{self, Pod};
use headroom_core::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::harness::{Answer, answer, to_json};

/// Cases with another result than upstream, and why. None so far.
const DEPARTURES: &[(&str, &str)] = &[];

/// The cases of one check: for quotas, forged fields, and newer releases.
fn cases(check: &str) -> Vec<Value> {
    let files = [
        include_str!("../../../../conformance/quota.json"),
        include_str!("../../../../conformance/trust.json"),
        include_str!("../../../../conformance/news.json"),
    ];
    let all = files.into_iter().flat_map(|text| serde_json::from_str::<Vec<Value>>(text).unwrap());
    let is_departure = |case: &Value| DEPARTURES.iter().any(|(name, _)| case["name"] == *name);
    let cases: Vec<Value> = all.filter(|case| case["check"] == check && !is_departure(case)).collect();
    assert!(!cases.is_empty(), "there are cases of {check}");
    cases
}

/// Compares amounts by value.
fn assert_amounts(case: &str, actual: &Value, expected: &Value) {
    let (actual, expected) = (actual.to_string(), expected.to_string());
    let documents = (Document::read(&actual).unwrap(), Document::read(&expected).unwrap());
    let lists = (ResourceList::read(documents.0.root()).unwrap(), ResourceList::read(documents.1.root()).unwrap());
    assert_eq!(lists.0, lists.1, "{case}");
}

fn now_of(input: &Value) -> Option<Timestamp> {
    input["now"].as_str().map(|now| now.parse().unwrap())
}

fn lists_of(input: &Value, quotas: &[Value]) -> Value {
    let mut lists = json!({
        "LimitRange": {"items": input["limitRanges"].as_array().cloned().unwrap_or_default()},
        "ResourceQuota": {"items": quotas},
    });
    for (kind, items) in input["context"].as_object().into_iter().flatten() {
        lists[kind] = json!({"items": items});
    }
    lists
}

fn quotas_of(input: &Value) -> Vec<Value> {
    input["resourceQuotas"].as_array().cloned().unwrap_or_default()
}

fn payload_of(request: &Value, input: &Value) -> Value {
    let limited = input["limitedResources"].as_array().cloned().unwrap_or_default();
    let mut settings = json!({"quotas": {"limitedResources": limited}});
    for (section, chosen) in input["settings"].as_object().into_iter().flatten() {
        settings[section] = chosen.clone();
    }
    json!({"request": request, "settings": settings})
}

fn assert_message(case: &str, answer: &Answer, expected: &Value) {
    assert_eq!(json!(answer.accepted), expected["allowed"], "{case}: {}", answer.message);
    for text in expected["messageContains"].as_array().into_iter().flatten() {
        assert!(answer.message.contains(text.as_str().unwrap()), "{case}: {text} not in: {}", answer.message);
    }
    for text in expected["messageNotContains"].as_array().into_iter().flatten() {
        assert!(!answer.message.contains(text.as_str().unwrap()), "{case}: {text} in: {}", answer.message);
    }
    if let Some(text) = expected["upstreamMessage"].as_str() {
        assert!(answer.message.starts_with(text), "{case}: does not begin with {text}: {}", answer.message);
    }
}

fn assert_used(case: &str, actual: &Map<String, Value>, expected: &Value) {
    let expected: BTreeMap<String, Value> = serde_json::from_value(expected.clone()).unwrap();
    assert_eq!(actual.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{case}");
    for (quota, used) in actual {
        assert_amounts(case, used, &expected[quota]);
    }
}

#[test]
fn requests_are_admitted_as_the_api_server_admits_them() {
    for case in cases("admit") {
        let (name, input) = (case["name"].as_str().unwrap(), &case["input"]);
        let lists = lists_of(input, &quotas_of(input));
        let answer = answer(&payload_of(&input["request"], input), &lists, now_of(input));
        assert_message(name, &answer, &case["expect"]);
        if answer.accepted && case["subsystem"] == "quota" {
            assert_used(name, &answer.used, &case["expect"]["updatedUsed"]);
        }
    }
}

#[test]
fn the_pods_of_a_controller_are_checked_against_the_quotas() {
    for case in cases("workload") {
        let (name, input) = (case["name"].as_str().unwrap(), &case["input"]);
        let mut payload = payload_of(&input["request"], input);
        payload["settings"]["quotas"]["workloads"] = json!("enforce");
        let answer = answer(&payload, &lists_of(input, &quotas_of(input)), now_of(input));
        assert_message(name, &answer, &case["expect"]);
    }
}

#[test]
fn quotas_see_a_pod_with_its_limit_range_defaults() {
    for case in cases("pipeline") {
        let (name, input) = (case["name"].as_str().unwrap(), &case["input"]);
        let lists = lists_of(input, &quotas_of(input));
        let answer = answer(&payload_of(&input["request"], input), &lists, now_of(input));
        assert_message(name, &answer, &case["expect"]);
        if !answer.accepted {
            continue;
        }
        assert_used(name, &answer.used, &case["expect"]["updatedUsed"]);
        let object = answer.changed_object.unwrap_or_else(|| input["request"]["object"].clone());
        let containers = object["spec"]["containers"].as_array().unwrap();
        let Some(expected) = case["expect"]["mutatedContainers"].as_array() else { continue };
        assert_eq!(containers.len(), expected.len(), "{name}");
        for (container, expected) in containers.iter().zip(expected) {
            for field in ["requests", "limits"] {
                assert_amounts(name, &container["resources"][field], &expected[field]);
            }
        }
    }
}

#[test]
fn each_request_of_a_sequence_sees_the_usage_after_the_earlier_ones() {
    for case in cases("sequence") {
        let (name, input) = (case["name"].as_str().unwrap(), &case["input"]);
        let mut quotas = quotas_of(input);
        let steps = case["expect"]["steps"].as_array().unwrap();
        for (request, step) in input["requests"].as_array().unwrap().iter().zip(steps) {
            let answer = answer(&payload_of(request, input), &lists_of(input, &quotas), now_of(input));
            assert_message(name, &answer, step);
            if request["dryRun"] == true {
                continue;
            }
            for quota in &mut quotas {
                let name = quota["metadata"]["name"].as_str().unwrap().to_owned();
                if let Some(used) = answer.used.get(&name) {
                    quota["status"]["used"] = used.clone();
                }
            }
        }
        for quota in &quotas {
            let used = &case["expect"]["finalUsed"][quota["metadata"]["name"].as_str().unwrap()];
            assert_amounts(name, &quota["status"]["used"], used);
        }
    }
}

/// Views a stored object as quotas see it.
fn with_object<T>(resource: &str, object: &Value, examine: impl FnOnce(&Object<'_, '_>) -> T) -> T {
    let text = object.to_string();
    let document = Document::read(&text).unwrap();
    let kind = Kind::from_qualified(resource);
    let source = request::Object::stored(document.root()).unwrap();
    let pod = (kind.measure == Measure::Pod).then(|| Pod::read(source.node, source.status).unwrap());
    examine(&Object { kind, source, pod: pod.as_ref(), replaces: None, devices: DeviceContext::NONE })
}

#[test]
fn usage_is_what_the_api_server_counts() {
    for case in cases("usage") {
        let input = &case["input"];
        let usage = with_object(input["resource"].as_str().unwrap(), &input["object"], |object| {
            to_json(&Usage::of(object, now_of(input)).unwrap().list(object.kind))
        });
        assert_amounts(case["name"].as_str().unwrap(), &usage, &case["expect"]["usage"]);
    }
}

#[test]
fn objects_match_the_scopes_that_they_match_upstream() {
    for case in cases("matching-scopes") {
        let input = &case["input"];
        let matched = with_object(input["resource"].as_str().unwrap(), &input["object"], |object| {
            let mut matched = Vec::new();
            for selector in input["selectors"].as_array().unwrap() {
                let text = selector.to_string();
                let document = Document::read(&text).unwrap();
                let requirement = ScopeRequirement::read(document.root()).unwrap();
                if scope::matches(object, &requirement).unwrap() {
                    let ScopeRequirement { scope, operator, values } = &requirement;
                    matched.push(format!("{scope} {operator} {}", values.join(" ")).trim_end().to_owned());
                }
            }
            matched
        });
        assert_eq!(json!(matched), case["expect"]["matched"], "{}", case["name"]);
    }
}
