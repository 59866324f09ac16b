//! The policies of the Helm chart, without its values.

use std::collections::BTreeMap;

use headroom_e2e::policy_server::Deployment;
use headroom_wasm_host::built::workspace_file;
use serde::Deserialize;
use serde_json::Value;

use crate::chart;

/// All policies, by name.
pub fn policies() -> BTreeMap<String, Deployment> {
    let yaml = std::fs::read_to_string(workspace_file("deploy/charts/headroom/files/policies.yaml")).unwrap();
    chart::policies(serde_yaml::Deserializer::from_str(&yaml).map(|text| Value::deserialize(text).unwrap()))
}

/// The name of the validating policy that evaluates pods before they are stored.
pub fn evaluate(policies: &BTreeMap<String, Deployment>) -> String {
    let evaluate = policies.iter().find(|(_, policy)| !policy.mutating && policy.is_about("pods"));
    evaluate.unwrap().0.clone()
}
