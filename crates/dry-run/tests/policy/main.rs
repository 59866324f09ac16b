//! A dry run decides like the policy, with the same messages: for every conformance case of admission and every
//! recorded request. `tests/scenarios.rs` compares the scenarios. The policy's own tests check that the result is right.

#![expect(clippy::unwrap_used, reason = "a test may stop on data it cannot read")]

mod comparison;

use comparison::check;
use headroom_fixtures::cluster::Cluster;
use headroom_fixtures::{conformance, request, workspace_file};
use serde_json::json;

#[test]
fn conformance_cases_are_decided_as_by_the_policy() {
    for case in ["limit_range", "quota", "trust", "news"].into_iter().flat_map(conformance::cases) {
        if let Some((input, _)) = case.admission() {
            check(&case.name, &input.request(), &case.upstream_settings(), &input.cluster());
        }
    }
}

#[test]
fn recorded_requests_are_decided_as_by_the_policy() {
    let cluster =
        |files: &[&str]| Cluster::from_files(files.iter().map(|file| workspace_file("tests/data").join(file))).unwrap();
    let clusters = [
        cluster(&["context/LimitRange.json", "context/ResourceQuota.json", "demo/limit-range-default.yaml"]),
        cluster(&["context/LimitRange.json", "nearly-full/ResourceQuota.yaml"]),
        cluster(&[]),
    ];
    let strict = json!({"limitRanges": {"workloadMode": "enforce"}, "quotas": {"freshness": "live"}});
    for name in request::all_recorded() {
        let request = request::recorded(&name);
        let metadata = json!({"name": request.get("namespace")});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        for cluster in &clusters {
            let cluster = cluster.clone().with(namespace.clone());
            for settings in [&json!({}), &strict] {
                check(&name, &request, settings, &cluster);
            }
        }
    }
}
