//! The policies that the README deploys, from its own manifests.

use std::collections::BTreeMap;

use headroom_cluster_tests::policy_server::Deployment;
use headroom_testkit::built::workspace_file;
use serde::Deserialize;
use serde_json::Value;

/// All policies of the README, by their names; and, as long as it shows none that validates pods, `judge.yaml`.
pub fn policies() -> BTreeMap<String, Deployment> {
    let readme = std::fs::read_to_string(workspace_file("README.md")).unwrap();
    let blocks = readme.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut policies: BTreeMap<String, Deployment> = blocks.flat_map(policies_in).collect();
    if judge(&policies).is_none() {
        policies.extend(policies_in(include_str!("judge.yaml")));
    }
    policies
}

/// The name of the validating policy that judges pods as they are about to be stored.
pub fn judge(policies: &BTreeMap<String, Deployment>) -> Option<String> {
    let judge = policies.iter().find(|(_, policy)| !policy.mutating && policy.is_about("pods"));
    judge.map(|(name, _)| name.clone())
}

/// The policy objects among some YAML documents.
fn policies_in(yaml: &str) -> impl Iterator<Item = (String, Deployment)> {
    let documents = serde_yaml::Deserializer::from_str(yaml).map(|text| Value::deserialize(text).unwrap());
    documents.filter(|document| document["kind"] == "ClusterAdmissionPolicy").map(|policy| {
        (policy["metadata"]["name"].as_str().unwrap().to_owned(), Deployment::from_manifest(&policy).unwrap())
    })
}
