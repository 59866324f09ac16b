//! Conformance cases for descriptions of LimitRanges and ResourceQuotas.

use headroom_admission::cluster::limit_range::LimitRange;
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::json::Document;
use headroom_cli::describe::kubectl;
use headroom_fixtures::conformance::{Case, Check, Objects, cases};
use serde_json::{Value, json};

fn all() -> impl Iterator<Item = Case> {
    ["limit_range", "quota"].into_iter().flat_map(cases)
}

/// Reads the objects of a case.
fn with_objects<T>(objects: &Objects, examine: impl FnOnce(&[ResourceQuota<'_>], &[LimitRange<'_>]) -> T) -> T {
    let list = |items: &[Value]| json!({"items": items}).to_string();
    let (quotas, ranges) = (list(&objects.resource_quotas), list(&objects.limit_ranges));
    let (quotas, ranges) = (Document::read(&quotas).unwrap(), Document::read(&ranges).unwrap());
    examine(&ResourceQuota::read_list(quotas.root()).unwrap(), &LimitRange::read_list(ranges.root()).unwrap())
}

#[test]
fn objects_are_described_as_kubectl_describes_them() {
    for case in all() {
        let Check::Describe { input, expect } = &case.check else { continue };
        let text = with_objects(input, |quotas, ranges| match (quotas, ranges) {
            ([quota], []) => kubectl::quota(quota),
            ([], [range]) => {
                let namespace = &input.limit_ranges[0]["metadata"]["namespace"];
                kubectl::limit_range(range, namespace.as_str().unwrap())
            }
            _ => panic!("{}: expected exactly one object", case.name),
        });
        assert_eq!(text, expect.text, "{}", case.name);
    }
}

#[test]
fn namespaces_are_described_as_kubectl_describes_them() {
    for case in all() {
        let Check::DescribeNamespace { input, expect } = &case.check else { continue };
        assert_eq!(with_objects(input, kubectl::namespace), expect.text, "{}", case.name);
    }
}

#[test]
fn quotas_are_listed_as_kubectl_lists_them() {
    for case in all() {
        let Check::Get { input, expect } = &case.check else { continue };
        let (request, limit) = with_objects(input, |quotas, _| kubectl::quota_cells(&quotas[0]));
        assert_eq!((&request, &limit), (&expect.request, &expect.limit), "{}", case.name);
    }
}
