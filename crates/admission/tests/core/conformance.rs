//! The conformance cases that look inside the core: what is read, derived, validated, counted, charged and matched. The
//! policy's own tests check its answers to the cases of admission, because they also run through the built policy.

use std::collections::BTreeMap;

use headroom_admission::amount::{Family, Quantity};
use headroom_admission::cluster::label_selector;
use headroom_admission::cluster::limit_range::LimitRange;
use headroom_admission::cluster::resource_quota::{ResourceQuota, validate};
use headroom_admission::quota::{ChargedKind, ObjectUsage, Stored, scope};
use headroom_admission::request::{Pod, Requirement, pod_totals};
use headroom_fixtures::conformance::{Case, Check, Operation, Parsed, cases, check_problems};
use serde_json::{Map, Value, json};

use crate::harness::{answer, assert_amounts, node, to_json};
use crate::quantity::quantity;

#[test]
fn defaults_are_derived_as_the_api_server_derives_them() {
    for case in cases("limit_range") {
        let Check::DefaultObject { limit_ranges, limits } = &case.check else { continue };
        let mut range = LimitRange::read(node(&limit_ranges[0])).unwrap();
        range.imply_defaults();
        assert_eq!(range.items.len(), limits.len());
        for (item, expected) in range.items.iter().zip(limits) {
            assert_eq!(item.kind, expected["type"].as_str().unwrap());
            assert_amounts(&case.name, &to_json(&item.default_limit), &expected["default"]);
            assert_amounts(&case.name, &to_json(&item.default_request), &expected["defaultRequest"]);
        }
    }
}

#[test]
fn ranges_and_quotas_are_validated_as_the_api_server_validates_them() {
    for case in ["limit_range", "quota"].into_iter().flat_map(cases) {
        let Check::ValidateObject { limit_ranges, resource_quotas, valid, errors } = &case.check else { continue };
        let problems = match limit_ranges.first() {
            Some(range) => LimitRange::read(node(range)).unwrap().problems("spec.limits"),
            None => validate::quota(&ResourceQuota::read(node(&resource_quotas[0])).unwrap()),
        };
        let problems = problems.iter().map(|problem| (problem.path.as_str(), problem.problem.as_str()));
        check_problems(&case.name, *valid, errors, problems);
    }
}

#[test]
fn totals_of_a_pod_are_those_of_limit_ranges() {
    for case in cases("limit_range") {
        let Check::Aggregate { object, requests, limits } = &case.check else { continue };
        let pod = Pod::read(node(object), None).unwrap();
        for (requirement, expected) in [(Requirement::Request, requests), (Requirement::Limit, limits)] {
            let total = pod_totals::as_limit_ranges_see_it(&pod, requirement, &|_| true);
            assert_amounts(&case.name, &to_json(&total), expected);
        }
    }
}

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

fn stored<'d>(resource: &'d str, object: &Value) -> Stored<'d> {
    Stored::read(ChargedKind::from_qualified(resource), node(object)).unwrap()
}

#[test]
fn usage_is_what_the_api_server_counts() {
    for case in cases("quota") {
        let Check::Usage { resource, object, now, usage } = &case.check else { continue };
        let now = now.as_ref().map(|now| now.parse().unwrap());
        let stored = stored(resource, object);
        let counted = ObjectUsage::of(&stored.object(), now).unwrap().list(stored.object().kind);
        assert_amounts(&case.name, &to_json(&counted), usage);
    }
}

#[test]
fn objects_match_the_scopes_that_they_match_upstream() {
    for case in cases("quota") {
        let Check::MatchingScopes { resource, object, selectors, matched } = &case.check else { continue };
        let stored = stored(resource, object);
        let mut found = Vec::new();
        for selector in selectors {
            let requirement = label_selector::Requirement::read(node(selector), "scopeName").unwrap();
            if scope::matches(&stored.object(), &requirement).unwrap() {
                let label_selector::Requirement { key, operator, values } = &requirement;
                found.push(format!("{key} {} {}", operator.name(), values.join(" ")).trim_end().to_owned());
            }
        }
        assert_eq!(found, *matched, "{}", case.name);
    }
}

/// The cases were recorded from Kubernetes' parser. These are texts that it reads as zero and we refuse, because no author intends them.
const DEPARTURES: [&str; 2] = ["bare-suffix-is-zero", "bare-sign-is-zero"];

#[test]
fn quantities_are_those_of_kubernetes_except_for_the_departures() {
    for Case { name, check, .. } in cases("quantity") {
        match &check {
            Check::Parse { input, expect } => {
                let read = input.value.parse::<Quantity>();
                assert_eq!(read.is_ok(), expect.valid && !DEPARTURES.contains(&name.as_str()), "{name}: {read:?}");
                read.into_iter().for_each(|quantity| check_parsed(&name, &quantity, expect));
            }
            Check::Compare { a, b, cmp } => assert_eq!(quantity(a).cmp(&quantity(b)) as i64, *cmp, "{name}"),
            Check::Arith { a, b, op, result } => {
                let (a, b) = (quantity(a), quantity(b));
                let found = match op {
                    Operation::Add => a.plus(&b),
                    Operation::Sub => a.minus(&b),
                };
                assert_eq!(found.to_string(), *result, "{name}");
            }
            other => panic!("{name}: unknown check {other:?}"),
        }
    }
}

fn check_parsed(name: &str, quantity: &Quantity, expect: &Parsed) {
    for (field, expected, found) in [
        ("canonical", expect.canonical.clone(), quantity.to_string()),
        ("format", expect.format.clone(), format_name(quantity).to_owned()),
        ("value", expect.value.clone(), quantity.value().to_string()),
        ("milliValue", expect.milli_value.clone().map(unwrapped(quantity)), quantity.milli_value().to_string()),
        ("apiDefaulted", expect.api_defaulted.clone(), quantity.rounded_up_to_milli().to_string()),
    ] {
        assert!(expected.is_none_or(|expected| expected == found), "{name}: {field} is {found}");
    }
}

/// Kubernetes wraps at 64 bits; we saturate.
fn unwrapped(quantity: &Quantity) -> impl Fn(String) -> String {
    let most = Quantity::from_milli(i64::MAX);
    let beyond = *quantity > most;
    move |milli| if beyond { i64::MAX.to_string() } else { milli }
}

fn format_name(quantity: &Quantity) -> &'static str {
    match quantity.family() {
        Family::DecimalSi => "DecimalSI",
        Family::BinarySi => "BinarySI",
        Family::DecimalExponent | Family::Beyond { .. } => "DecimalExponent",
    }
}
