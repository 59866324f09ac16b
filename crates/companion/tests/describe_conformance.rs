//! Conformance cases for descriptions of LimitRanges and ResourceQuotas.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop on data it cannot read")]

use headroom_companion::describe::kubectl;
use headroom_core::cluster::limit_range::LimitRange;
use headroom_core::cluster::resource_quota::ResourceQuota;
use headroom_core::json::Document;
use serde_json::{Value, json};

fn cases(check: &str) -> Vec<Value> {
    let files = [include_str!("../../../conformance/limitrange.json"), include_str!("../../../conformance/quota.json")];
    let all = files.into_iter().flat_map(|text| serde_json::from_str::<Vec<Value>>(text).unwrap());
    let cases: Vec<Value> = all.filter(|case| case["check"] == check).collect();
    assert!(!cases.is_empty(), "no cases of {check}");
    cases
}

/// Reads the objects of a case.
fn with_objects<T>(case: &Value, examine: impl FnOnce(&[ResourceQuota<'_>], &[LimitRange<'_>]) -> T) -> T {
    let list = |name: &str| json!({"items": case["input"][name].as_array().cloned().unwrap_or_default()}).to_string();
    let (quotas, ranges) = (list("resourceQuotas"), list("limitRanges"));
    let (quotas, ranges) = (Document::read(&quotas).unwrap(), Document::read(&ranges).unwrap());
    examine(&ResourceQuota::read_list(quotas.root()).unwrap(), &LimitRange::read_list(ranges.root()).unwrap())
}

#[test]
fn objects_are_described_as_kubectl_describes_them() {
    for case in cases("describe") {
        let text = with_objects(&case, |quotas, ranges| match (quotas, ranges) {
            ([quota], []) => kubectl::quota(quota),
            ([], [range]) => {
                let namespace = &case["input"]["limitRanges"][0]["metadata"]["namespace"];
                kubectl::limit_range(range, namespace.as_str().unwrap())
            }
            _ => panic!("{}: expected exactly one object", case["name"]),
        });
        assert_eq!(text, case["expect"]["text"].as_str().unwrap(), "{}", case["name"]);
    }
}

#[test]
fn namespaces_are_described_as_kubectl_describes_them() {
    for case in cases("describe-namespace") {
        let text = with_objects(&case, kubectl::namespace);
        assert_eq!(text, case["expect"]["text"].as_str().unwrap(), "{}", case["name"]);
    }
}

#[test]
fn quotas_are_listed_as_kubectl_lists_them() {
    for case in cases("get") {
        let (request, limit) = with_objects(&case, |quotas, _| kubectl::quota_cells(&quotas[0]));
        assert_eq!(
            (json!(request), json!(limit)),
            (case["expect"]["request"].clone(), case["expect"]["limit"].clone())
        );
    }
}
