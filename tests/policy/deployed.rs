//! The reads and the rules of the chart's policies. `make test-docs` and `make test-deploy` ask the policy about the settings
//! that are shown and deployed.

use std::fs;

use headroom_wasm_host::built;
use serde_json::Value;

fn read(file: &str) -> String {
    fs::read_to_string(built::workspace_file(file)).unwrap()
}

fn deployed_policies() -> Vec<Value> {
    serde_saphyr::from_multiple(&read("deploy/charts/headroom/files/policies.yaml")).unwrap()
}

#[test]
fn what_the_first_quotas_counted_is_sent_where_quotas_are_enforced() {
    let metadata: Value = serde_saphyr::from_str(&read("policy-metadata.yaml")).unwrap();
    let enforcing = deployed_policies().into_iter().find(|policy| policy["metadata"]["name"] == "headroom").unwrap();
    for rules in [&metadata["rules"], &enforcing["spec"]["rules"]] {
        for resource in ["pods", "services", "replicationcontrollers", "resourcequotas"] {
            let is_sent = |rule: &Value| {
                let has = |list: &str, value: &str| rule[list].as_array().unwrap().contains(&value.into());
                has("resources", resource) && has("operations", "CREATE")
            };
            assert!(rules.as_array().unwrap().iter().any(is_sent), "{resource}: {rules}");
        }
    }
}

#[test]
fn the_policies_read_only_what_the_metadata_requests() {
    let requested = serde_json::to_value(built::access().unwrap().resources).unwrap();
    let policies = deployed_policies();
    assert_eq!(policies.len(), 3);
    for policy in policies {
        for granted in policy["spec"]["contextAwareResources"].as_array().unwrap() {
            assert!(requested.as_array().unwrap().contains(granted), "{granted}");
        }
    }
}
