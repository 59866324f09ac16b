//! A dry run decides like the policy, with the same messages: for every scenario, every conformance case of admission,
//! and every recorded request. The policy's own tests check that the result is right.

#![expect(clippy::unwrap_used, reason = "a test may stop on data it cannot read")]

use headroom_core::Request;
use headroom_core::json::Document;
use headroom_core::verdict::announced;
use headroom_dryrun::evaluate;
use headroom_fixtures::cluster::Cluster;
use headroom_fixtures::host_call::answering;
use headroom_fixtures::{conformance, request, scenario, workspace_file};
use headroom_objects::cluster_reader::{ClusterReader, List, ReadError};
use serde_json::{Value, json};

/// The objects of a cluster unchanged, without the defaults that a dry run adds to files.
struct Unchanged(Cluster);

impl ClusterReader for Unchanged {
    fn list(&mut self, (api_version, kind, namespace): List<'_>) -> Result<Vec<Value>, ReadError> {
        Ok(self.0.list(api_version, kind, namespace)?)
    }
}

/// Evaluates a request by both.
fn check(name: &str, request: &Value, settings: &Value, cluster: &Cluster) {
    let payload = json!({"request": request, "settings": settings}).to_string();
    let response = headroom_policy::validate(payload.as_bytes(), &mut answering(&mut cluster.clone())).unwrap();
    let policy: Value = serde_json::from_slice(&response).unwrap();
    let dryrun = evaluate::evaluate(request.clone(), &settings.to_string(), &mut Unchanged(cluster.clone()));
    let field = |name: &str| policy.get(name).filter(|value| !value.is_null()).cloned();
    assert_eq!(Some(json!(dryrun.is_admitted())), field("accepted"), "{name}: {dryrun:?}");
    assert_eq!(json!(dryrun.message()), field("message").unwrap_or_else(|| json!("")), "{name}");
    // What only the policy adds: who speaks, and the command that explains it.
    let text = request.to_string();
    let document = Document::read(&text).unwrap();
    let warnings = Request::read(document.root()).map_or_else(
        |_| Vec::new(),
        |request| dryrun.warnings.iter().map(|warning| announced(&warning.text, &request)).collect::<Vec<_>>(),
    );
    assert_eq!(json!(warnings), field("warnings").unwrap_or_else(|| json!([])), "{name}");
    assert_eq!(dryrun.changed, field("mutated_object"), "{name}");
}

#[test]
fn scenarios_are_decided_as_by_the_policy() {
    for scenario in scenario::all() {
        check(&scenario.name, &scenario.request(), &scenario.settings(), &scenario.cluster());
    }
}

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
        |files: &[&str]| Cluster::from_files(files.iter().map(|file| workspace_file("test_data").join(file))).unwrap();
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
