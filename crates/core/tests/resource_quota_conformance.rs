//! Conformance cases for the quota controller's recounts and the API server's validation of quotas.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop on data it cannot read")]

mod problems;

use headroom_core::amount::ResourceList;
use headroom_core::cluster::resource_quota::{ResourceQuota, validate};
use headroom_core::json::Document;
use headroom_core::quota::{Object, charged_names, recount};
use headroom_core::request::{self, Pod};
use serde_json::Value;

/// The cases of one check.
fn cases(check: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(include_str!("../../../conformance/quota.json")).unwrap();
    let cases: Vec<Value> = all.into_iter().filter(|case| case["check"] == check).collect();
    assert!(!cases.is_empty(), "no cases of {check}");
    cases
}

/// Asserts that amounts are equal by value.
fn assert_amounts(case: &str, actual: &ResourceList<'_>, expected: &Value) {
    let text = expected.to_string();
    let document = Document::read(&text).unwrap();
    assert_eq!(*actual, ResourceList::read(document.root()).unwrap(), "{case}");
}

#[test]
fn quotas_are_recounted_as_the_controller_recounts_them() {
    for case in cases("recalculate") {
        let (name, input) = (case["name"].as_str().unwrap(), &case["input"]);
        let texts: Vec<String> = input["objects"].as_array().unwrap().iter().map(Value::to_string).collect();
        let documents: Vec<Document<'_>> = texts.iter().map(|text| Document::read(text).unwrap()).collect();
        let sources = documents.iter().map(|document| request::Object::stored(document.root()).unwrap());
        let pods: Vec<(Pod<'_>, request::Object<'_>)> =
            sources.map(|source| (Pod::read(source.node, source.status).unwrap(), source)).collect();
        let objects: Vec<Object<'_, '_>> = pods.iter().map(|(pod, source)| Object::of_pod(pod, *source)).collect();
        let now = input["now"].as_str().map(|now| now.parse().unwrap());
        for quota in input["resourceQuotas"].as_array().unwrap() {
            let text = quota.to_string();
            let document = Document::read(&text).unwrap();
            let quota = ResourceQuota::read(document.root()).unwrap();
            let used = recount::used(&quota, &objects, charged_names::is_known, now).unwrap();
            let expected = &case["expect"]["quotas"][quota.name.as_ref()];
            assert_amounts(name, &quota.spec_hard, &expected["hard"]);
            assert_amounts(name, &used, &expected["used"]);
        }
    }
}

#[test]
fn quotas_are_validated_as_the_api_server_validates_them() {
    for case in cases("validate-object") {
        let text = case["input"]["resourceQuotas"][0].to_string();
        let document = Document::read(&text).unwrap();
        problems::check(&case, &validate::quota(&ResourceQuota::read(document.root()).unwrap()));
    }
}
