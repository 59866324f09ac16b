//! The conformance cases of LimitRange objects and of pod totals. The cases of admission are in the policy's own tests,
//! because they also run through the built policy.

use headroom_admission::cluster::limit_range::LimitRange;
use headroom_admission::json::Document;
use headroom_admission::request::pod_totals;
use headroom_admission::request::{Pod, Requirement};
use headroom_fixtures::conformance::{Check, cases, check_problems};
use serde_json::Value;

use crate::harness::{assert_amounts, to_json};

/// The one range of a case.
fn with_range(ranges: &[Value], examine: impl FnOnce(LimitRange<'_>)) {
    let text = ranges[0].to_string();
    let document = Document::read(&text).unwrap();
    examine(LimitRange::read(document.root()).unwrap());
}

#[test]
fn defaults_are_derived_as_the_api_server_derives_them() {
    for case in cases("limit_range") {
        let Check::DefaultObject { limit_ranges, limits } = &case.check else { continue };
        with_range(limit_ranges, |mut range| {
            range.imply_defaults();
            assert_eq!(range.items.len(), limits.len());
            for (item, expected) in range.items.iter().zip(limits) {
                assert_eq!(item.kind, expected["type"].as_str().unwrap());
                assert_amounts(&case.name, &to_json(&item.default_limit), &expected["default"]);
                assert_amounts(&case.name, &to_json(&item.default_request), &expected["defaultRequest"]);
            }
        });
    }
}

#[test]
fn ranges_are_validated_as_the_api_server_validates_them() {
    for case in cases("limit_range") {
        let Check::ValidateObject { limit_ranges, valid, errors, .. } = &case.check else { continue };
        with_range(limit_ranges, |range| {
            let problems = range.problems("spec.limits");
            let problems = problems.iter().map(|problem| (problem.path.as_str(), problem.problem.as_str()));
            check_problems(&case.name, *valid, errors, problems);
        });
    }
}

#[test]
fn totals_of_a_pod_are_those_of_limit_ranges() {
    for case in cases("limit_range") {
        let Check::Aggregate { object, requests, limits } = &case.check else { continue };
        let text = object.to_string();
        let document = Document::read(&text).unwrap();
        let pod = Pod::read(document.root(), None).unwrap();
        for (requirement, expected) in [(Requirement::Request, requests), (Requirement::Limit, limits)] {
            let total = pod_totals::as_limit_ranges_see_it(&pod, requirement, &|_| true);
            assert_amounts(&case.name, &to_json(&total), expected);
        }
    }
}
