//! The published descriptions of the policy are consistent: version, metadata, Artifact Hub, settings form.

use std::{fs, process::Command};

use headroom_wasm_host::artifacthub::package;
use headroom_wasm_host::built::{policy, workspace_file};
use headroom_wasm_host::metadata::Metadata;
use serde_json::{Map, Value, json};

fn text(path: &str) -> String {
    fs::read_to_string(workspace_file(path)).unwrap()
}

fn metadata() -> Metadata {
    Metadata::from_yaml(&text("policy-metadata.yaml")).unwrap()
}

#[test]
fn kubewarden_s_tools_find_the_metadata_under_either_name() {
    assert!(fs::symlink_metadata(workspace_file("metadata.yml")).unwrap().is_symlink());
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = folder.path().join("output");
        let host = Command::new(env!("CARGO_BIN_EXE_headroom-host")).args(arguments).arg(&output).output().unwrap();
        assert!(host.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&host.stderr));
        fs::read(output).unwrap()
    };
    let [linked, real] = ["metadata.yml", "policy-metadata.yaml"].map(|name| {
        let metadata = workspace_file(name).display().to_string();
        let [wasm, questions] =
            ["policy.wasm", "deploy/questions-ui.yml"].map(|path| workspace_file(path).display().to_string());
        let created_at = "2026-11-21T06:00:00Z";
        (
            run(&["annotate", "-m", &metadata, &wasm, "-o"]),
            run(&["artifacthub", "-m", &metadata, "-q", &questions, "--created-at", created_at, "-o"]),
        )
    });
    assert_eq!(linked, real);
}

#[test]
fn the_package_file_is_up_to_date() {
    let committed = text("artifacthub-pkg.yml");
    let created_at = serde_yaml::from_str::<Value>(&committed).unwrap()["createdAt"].as_str().unwrap().to_owned();
    let generated = package(&metadata(), &created_at, &text("deploy/questions-ui.yml")).unwrap();
    assert_eq!(committed, generated, "run `make -B artifacthub-pkg.yml`");
}

#[test]
fn a_rule_has_one_group_and_no_subresource() {
    // The audit scanner combines every group with every resource of a rule, and does not support subresources.
    for rule in metadata().rules {
        assert_eq!(rule.api_groups.len(), 1, "{rule:?}");
        assert!(rule.resources.iter().all(|resource| !resource.contains('/')), "{rule:?}");
    }
}

#[test]
fn the_wasm_contains_every_declared_host_capability() {
    // `kwctl annotate` searches for them in the wasm's data, and warns about missing ones.
    let wasm = fs::read(workspace_file("policy.wasm")).unwrap();
    for capability in metadata().host_capabilities.unwrap() {
        let operation = capability.strip_prefix("kubernetes/").unwrap().as_bytes();
        assert!(wasm.windows(operation.len()).any(|window| window == operation), "{capability}");
    }
}

/// The settings for a question's answer: `a.b` and `x` give `{"a": {"b": x}}`.
fn setting(variable: &str, value: &Value) -> Value {
    variable.rsplit('.').fold(value.clone(), |inner, key| Value::Object(Map::from_iter([(key.to_owned(), inner)])))
}

#[test]
fn the_policy_accepts_every_default_and_option_of_the_settings_form() {
    let (host, _) = policy().unwrap();
    let form: Value = serde_yaml::from_str(&text("deploy/questions-ui.yml")).unwrap();
    let mut questions: Vec<&Value> = form["questions"].as_array().unwrap().iter().collect();
    let mut checked = 0;
    while let Some(question) = questions.pop() {
        questions.extend(question["subquestions"].as_array().into_iter().flatten());
        let variable = question["variable"].as_str().unwrap();
        if variable == "description" {
            continue;
        }
        let options = question["options"].as_array().cloned().unwrap_or_default();
        assert!(options.is_empty() || options.contains(&question["default"]), "{variable}");
        for value in options.iter().chain([&question["default"]]) {
            let validation = host.validate_settings(&setting(variable, value));
            assert!(validation.valid, "{variable} = {value}: {:?}", validation.message);
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked}");
    assert!(
        !host.validate_settings(&json!({"description": null})).valid,
        "the form's first entry must not be a setting"
    );
}
