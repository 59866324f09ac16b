//! Checks that the YAML of the documentation is valid. A comment before each block names its kind: `<!-- settings -->`
//! of the policy, a `<!-- policy -->` object, `<!-- rules -->` of one, and so on. Commands and their output are checked
//! in the tests of crates/cli; Helm values, links and make targets by crates/xtask/src/docs.rs.

use std::fs;
use std::path::Path;

use headroom_wasm_host::built;
use headroom_wasm_host::metadata::Metadata;
use serde_json::Value;

/// A block of YAML in README.md or below docs/src.
struct Block {
    place: String,
    /// The word in the comment before it; empty without one.
    kind: String,
    documents: Vec<Value>,
}

fn documents(place: &str, yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{place}: {error}"))
}

fn pages(folder: &Path, found: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push((path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()));
        }
    }
}

fn blocks() -> Vec<Block> {
    let mut texts = vec![("README.md".to_owned(), fs::read_to_string(built::workspace_file("README.md")).unwrap())];
    pages(&built::workspace_file("docs/src"), &mut texts);
    let mut blocks = Vec::new();
    for (page, text) in texts {
        let (mut kind, mut lines) = (String::new(), text.lines().enumerate());
        while let Some((number, line)) = lines.next() {
            let indent = line.len() - line.trim_start().len();
            if line.trim() != "```yaml" {
                let comment = line.trim().strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                kind = comment.unwrap_or_default().to_owned();
                continue;
            }
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
            let yaml: String = body.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect();
            // Another file is included as a whole, and is checked itself.
            if !yaml.starts_with("{{#include") {
                let place = format!("{page}:{}", number + 1);
                blocks.push(Block { documents: documents(&place, &yaml), place, kind: std::mem::take(&mut kind) });
            }
        }
    }
    blocks
}

fn deployed_policies() -> Vec<Value> {
    documents(
        "policies.yaml",
        &fs::read_to_string(built::workspace_file("deploy/charts/headroom/files/policies.yaml")).unwrap(),
    )
}

#[test]
fn settings_are_valid() {
    let (host, _) = built::policy().unwrap();
    let shown = blocks().into_iter().filter_map(|block| match block.kind.as_str() {
        "settings" => Some((block.place, block.documents[0].clone())),
        "policy" => Some((block.place, block.documents[0]["spec"]["settings"].clone())),
        _ => None,
    });
    let deployed = deployed_policies()
        .into_iter()
        .map(|policy| (format!("policies.yaml, {}", policy["metadata"]["name"]), policy["spec"]["settings"].clone()));
    let mut count = 0;
    for (place, settings) in shown.chain(deployed) {
        assert!(settings.is_object(), "{place} has no settings");
        let answer = host.validate_settings(&settings);
        assert!(answer.valid, "{place}: {:?}", answer.message);
        count += 1;
    }
    assert!(count >= 10, "the documentation shows settings");
}

#[test]
fn every_block_has_a_known_kind() {
    for block in blocks() {
        let Block { place, kind, documents } = &block;
        match kind.as_str() {
            "settings" | "policy" | "values" | "workflow" | "kustomization" | "source" => {
                assert!(documents.len() == 1 && documents[0].is_object(), "{place} is not one object");
            }
            "object" => {
                let has = |path: &str| documents[0].pointer(path).is_some_and(Value::is_string);
                assert!(
                    has("/apiVersion") && has("/kind") && has("/metadata/name"),
                    "{place} is not an object with apiVersion, kind and name"
                );
            }
            "rules" => {
                for rule in documents[0].as_array().unwrap() {
                    let fields: Vec<&str> = rule.as_object().unwrap().keys().map(String::as_str).collect();
                    assert_eq!(fields, ["apiGroups", "apiVersions", "operations", "resources"], "{place}");
                }
            }
            "pod makers" => assert!(documents[0][0]["kinds"].is_array(), "{place}"),
            other => panic!("{place}: `<!-- {other} -->` before a block of YAML is not a known kind"),
        }
    }
}

#[test]
fn what_the_first_quotas_counted_is_sent_where_quotas_are_enforced() {
    let metadata = fs::read_to_string(built::workspace_file("policy-metadata.yaml")).unwrap();
    let metadata = documents("policy-metadata.yaml", &metadata).remove(0);
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
    let metadata = fs::read_to_string(built::workspace_file("policy-metadata.yaml")).unwrap();
    let requested = serde_json::to_value(Metadata::from_yaml(&metadata).unwrap().context_aware_resources).unwrap();
    let policies = deployed_policies();
    assert_eq!(policies.len(), 3);
    for policy in policies {
        for granted in policy["spec"]["contextAwareResources"].as_array().unwrap() {
            assert!(requested.as_array().unwrap().contains(granted), "{granted}");
        }
    }
}
