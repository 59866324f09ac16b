//! The conformance cases of quotas that look inside the core: what is charged, counted and matched. The policy's own
//! tests check its answers to the cases of admission.

use std::collections::BTreeMap;

use headroom_admission::cluster::label_selector::Requirement;
use headroom_admission::cluster::resource_quota::{ResourceQuota, validate};
use headroom_admission::json::Document;
use headroom_admission::quota::stored::Stored;
use headroom_admission::quota::{ChargedKind, ObjectUsage, QuotaObject, scope};
use headroom_fixtures::conformance::{Check, cases, check_problems};
use serde_json::{Map, Value, json};

use crate::harness::{answer, assert_amounts, to_json};

fn assert_used(case: &str, actual: &Map<String, Value>, expected: &BTreeMap<String, Value>) {
    assert_eq!(actual.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{case}");
    for (quota, used) in actual {
        assert_amounts(case, used, &expected[quota]);
    }
}

#[test]
fn admitted_requests_are_charged_as_the_api_server_charges_them() {
    for case in ["quota", "trust", "news"].into_iter().flat_map(cases) {
        let Some((input, expect)) = case.admission() else { continue };
        let Some(expected) = &expect.updated_used else { continue };
        let mut lists =
            json!({"LimitRange": {"items": input.limit_ranges}, "ResourceQuota": {"items": input.resource_quotas}});
        for (kind, items) in &input.context {
            lists[kind] = json!({"items": items});
        }
        let answer = answer(&input.request, &case.upstream_settings(), &lists, None);
        assert_used(&case.name, &answer.used, expected);
    }
}

#[test]
fn each_request_of_a_sequence_sees_the_usage_after_the_earlier_ones() {
    for case in cases("quota") {
        let Check::Sequence { requests, resource_quotas, steps, final_used } = &case.check else { continue };
        let mut quotas = resource_quotas.clone();
        for (request, step) in requests.iter().zip(steps) {
            let answer = answer(request, &json!({}), &json!({"ResourceQuota": {"items": quotas}}), None);
            step.check(&case.name, answer.admitted, &answer.message);
            if request["dryRun"] == true {
                continue;
            }
            for quota in &mut quotas {
                if let Some(used) = answer.used.get(quota["metadata"]["name"].as_str().unwrap()) {
                    quota["status"]["used"] = used.clone();
                }
            }
        }
        for quota in &quotas {
            let used = &final_used[quota["metadata"]["name"].as_str().unwrap()];
            assert_amounts(&case.name, &quota["status"]["used"], used);
        }
    }
}

/// Views a stored object as quotas see it.
fn with_object<T>(resource: &str, object: &Value, examine: impl FnOnce(&QuotaObject<'_, '_>) -> T) -> T {
    let text = object.to_string();
    let document = Document::read(&text).unwrap();
    examine(&Stored::read(ChargedKind::from_qualified(resource), document.root()).unwrap().object())
}

#[test]
fn usage_is_what_the_api_server_counts() {
    for case in cases("quota") {
        let Check::Usage { resource, object, now, usage } = &case.check else { continue };
        let now = now.as_ref().map(|now| now.parse().unwrap());
        let counted =
            with_object(resource, object, |object| to_json(&ObjectUsage::of(object, now).unwrap().list(object.kind)));
        assert_amounts(&case.name, &counted, usage);
    }
}

#[test]
fn objects_match_the_scopes_that_they_match_upstream() {
    for case in cases("quota") {
        let Check::MatchingScopes { resource, object, selectors, matched } = &case.check else { continue };
        let found = with_object(resource, object, |object| {
            let mut found = Vec::new();
            for selector in selectors {
                let text = selector.to_string();
                let document = Document::read(&text).unwrap();
                let requirement = Requirement::read(document.root(), "scopeName").unwrap();
                if scope::matches(object, &requirement).unwrap() {
                    let Requirement { key, operator, values } = &requirement;
                    found.push(format!("{key} {} {}", operator.name(), values.join(" ")).trim_end().to_owned());
                }
            }
            found
        });
        assert_eq!(found, *matched, "{}", case.name);
    }
}

#[test]
fn quotas_are_validated_as_the_api_server_validates_them() {
    for case in cases("quota") {
        let Check::ValidateObject { resource_quotas, valid, errors, .. } = &case.check else { continue };
        let text = resource_quotas[0].to_string();
        let document = Document::read(&text).unwrap();
        let problems = validate::quota(&ResourceQuota::read(document.root()).unwrap());
        let problems = problems.iter().map(|problem| (problem.path.as_str(), problem.problem.as_str()));
        check_problems(&case.name, *valid, errors, problems);
    }
}
