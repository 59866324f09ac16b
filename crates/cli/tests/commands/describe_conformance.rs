//! Conformance cases for descriptions of LimitRanges and ResourceQuotas.

use headroom_admission::cluster::limit_range::LimitRange;
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::json::Document;
use headroom_cli::describe::kubectl;
use headroom_fixtures::conformance::{Check, cases};
use serde_json::{Value, json};

#[test]
fn objects_are_described_as_kubectl_describes_them() {
    let list = |items: &[Value]| json!({"items": items}).to_string();
    for case in ["limit_range", "quota"].into_iter().flat_map(cases) {
        let Check::Describe { limit_ranges, resource_quotas, text: expected } = &case.check else { continue };
        let lists = [resource_quotas, limit_ranges].map(|items| list(items));
        let [quotas, ranges] = lists.each_ref().map(|list| Document::read(list).unwrap());
        let quotas = ResourceQuota::read_list(quotas.root()).unwrap();
        let text = match (&quotas[..], &LimitRange::read_list(ranges.root()).unwrap()[..]) {
            ([quota], []) => kubectl::quota(quota),
            ([], [range]) => {
                let namespace = &limit_ranges[0]["metadata"]["namespace"];
                kubectl::limit_range(range, namespace.as_str().unwrap())
            }
            _ => panic!("{}: expected exactly one object", case.name),
        };
        assert_eq!(text, *expected, "{}", case.name);
    }
}
