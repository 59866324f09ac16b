//! The conformance cases of LimitRange objects and of pod totals. The cases of admission are in the policy's own tests,
//! because they also run through the built policy.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop on data it cannot read")]

mod problems;

use headroom_core::amount::ResourceList;
use headroom_core::cluster::limit_range::LimitRange;
use headroom_core::json::Document;
use headroom_core::request::pod_totals;
use headroom_core::request::{Pod, Requirement};
use serde_json::Value;

/// The cases of one check.
fn cases(check: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(include_str!("../../../conformance/limitrange.json")).unwrap();
    let cases: Vec<Value> = all.into_iter().filter(|case| case["check"] == check).collect();
    assert!(!cases.is_empty(), "there are cases of {check}");
    cases
}

/// The one range of a case.
fn with_range(case: &Value, examine: impl FnOnce(LimitRange<'_>)) {
    let text = case["input"]["limitRanges"][0].to_string();
    let document = Document::read(&text).unwrap();
    examine(LimitRange::read(document.root()).unwrap());
}

/// Compares amounts by value.
fn assert_amounts(case: &Value, actual: &ResourceList<'_>, expected: &Value) {
    let text = if expected.is_null() { "{}".to_owned() } else { expected.to_string() };
    let document = Document::read(&text).unwrap();
    assert_eq!(*actual, ResourceList::read(document.root()).unwrap(), "{}", case["name"]);
}

#[test]
fn defaults_are_derived_as_the_api_server_derives_them() {
    for case in cases("default-object") {
        with_range(&case, |mut range| {
            range.imply_defaults();
            let expected = case["expect"]["limits"].as_array().unwrap();
            assert_eq!(range.items.len(), expected.len());
            for (item, expected) in range.items.iter().zip(expected) {
                assert_eq!(item.kind, expected["type"].as_str().unwrap());
                assert_amounts(&case, &item.default_limit, &expected["default"]);
                assert_amounts(&case, &item.default_request, &expected["defaultRequest"]);
            }
        });
    }
}

#[test]
fn ranges_are_validated_as_the_api_server_validates_them() {
    for case in cases("validate-object") {
        with_range(&case, |range| problems::check(&case, &range.problems("spec.limits")));
    }
}

#[test]
fn totals_of_a_pod_are_those_of_limit_ranges() {
    for case in cases("aggregate") {
        let text = case["input"]["object"].to_string();
        let document = Document::read(&text).unwrap();
        let pod = Pod::read(document.root(), None).unwrap();
        for (requirement, field) in [(Requirement::Request, "requests"), (Requirement::Limit, "limits")] {
            assert_amounts(&case, &pod_totals::as_limit_ranges_see_it(&pod, requirement), &case["expect"][field]);
        }
    }
}
