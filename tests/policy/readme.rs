//! The README's YAML is what it says: policy objects that name what the policy may read, and settings that are valid.

use std::fs;

use headroom_testkit::built;
use headroom_testkit::metadata::Metadata;
use serde::Deserialize;
use serde_json::Value;

/// The documents of the README's YAML blocks.
fn documents() -> Vec<Value> {
    let readme = fs::read_to_string(built::workspace_file("README.md")).unwrap();
    let blocks = readme.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(|block| serde_yaml::Deserializer::from_str(block).map(|text| Value::deserialize(text).unwrap()))
        .collect()
}

#[test]
fn settings_in_the_readme_are_valid() {
    let (host, _) = built::policy().unwrap();
    let mut count = 0;
    for document in documents() {
        let settings = match document["kind"].as_str() {
            Some(_) => document["spec"]["settings"].clone(),
            None => document.clone(),
        };
        if settings.is_object() {
            let answer = host.validate_settings(&settings);
            assert!(answer.valid, "{:?} of {document}", answer.message);
            count += 1;
        }
    }
    assert!(count >= 3, "the README shows settings");
}

#[test]
fn the_readme_grants_nothing_that_the_metadata_does_not_ask_for() {
    let metadata = fs::read_to_string(built::workspace_file("policy-metadata.yaml")).unwrap();
    let asked = serde_json::to_value(Metadata::from_yaml(&metadata).unwrap().context_aware_resources).unwrap();
    let policies: Vec<Value> =
        documents().into_iter().filter(|document| document["kind"] == "ClusterAdmissionPolicy").collect();
    assert_eq!(policies.len(), 3);
    for policy in policies {
        for granted in policy["spec"]["contextAwareResources"].as_array().unwrap() {
            assert!(asked.as_array().unwrap().contains(granted), "{granted}");
        }
    }
}
