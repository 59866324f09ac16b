//! The desk decides like the policy, with the same messages: for every scenario and every recorded request.

use std::fs;

use headroom_companion::manifest;
use headroom_dryrun::cluster_reader::ClusterReader;
use headroom_dryrun::judge;
use serde_json::{Value, json};

use crate::host::{self, Objects};
use crate::support::root;

/// The objects of a cluster unchanged, without the defaults that the desk adds to files.
struct Around<'o>(&'o Objects);

impl ClusterReader for Around<'_> {
    fn list(&mut self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        let call = json!({"api_version": api_version, "kind": kind, "namespace": namespace});
        let list = self.0.answer("list_resources_by_namespace", &call)?;
        Ok(list["items"].as_array().unwrap().clone())
    }
}

/// Judges a request by both. The policy's own tests check that the result is right.
fn check(name: &str, request: &Value, settings: &Value, cluster: &Objects) {
    let policy = host::policy(request, settings, &mut |operation, call| cluster.answer(operation, call));
    let desk = judge::judge(request.clone(), &settings.to_string(), &mut Around(cluster));
    assert_eq!(desk.is_admitted(), policy["accepted"], "{name}: {desk:?}");
    assert_eq!(desk.message(), policy["message"].as_str().unwrap_or_default(), "{name}");
    assert_eq!(json!(desk.warnings), *policy.get("warnings").unwrap_or(&json!([])), "{name}");
    assert_eq!(desk.changed, policy.get("mutated_object").cloned(), "{name}");
}

#[test]
fn scenarios_are_decided_as_by_the_policy() {
    let mut count = 0;
    for file in fs::read_dir(root().join("tests/scenarios")).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let scenario: Value = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let list = |field: &str| scenario[field].as_array().cloned().unwrap_or_default();
        let unreadable = list("unreadable").iter().map(|kind| kind.as_str().unwrap().to_owned()).collect();
        let cluster = Objects { objects: list("cluster"), unreadable };
        let settings = if scenario["settings"].is_null() { json!({}) } else { scenario["settings"].clone() };
        check(&name, &request_of(&scenario), &settings, &cluster);
        count += 1;
    }
    assert!(count > 20, "too few scenarios: {count}");
}

fn request_of(scenario: &Value) -> Value {
    if let Some(recorded) = scenario["request"].as_str() {
        return recorded_request(&format!("{recorded}.json"));
    }
    let object = &scenario["object"];
    let (group, version) =
        object["apiVersion"].as_str().map(|text| text.split_once('/').unwrap_or(("", text))).unwrap();
    let kind = object["kind"].as_str().unwrap();
    json!({
        "uid": "5c0f1b8e",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": format!("{}s", kind.to_lowercase())},
        "subResource": scenario["subresource"],
        "namespace": object["metadata"]["namespace"].as_str().unwrap_or("shop"),
        "name": object["metadata"]["name"],
        "operation": scenario["operation"].as_str().unwrap_or("CREATE"),
        "userInfo": {"username": "ann"},
        "object": object,
        "oldObject": scenario["oldObject"],
    })
}

/// A request of test_data/requests, from its AdmissionReview.
fn recorded_request(file: &str) -> Value {
    let text = fs::read_to_string(root().join("test_data/requests").join(file)).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    document.get("request").cloned().unwrap_or(document)
}

/// The objects of some files of test_data.
fn cluster(files: &[&str]) -> Objects {
    let paths: Vec<_> = files.iter().map(|file| root().join("test_data").join(file)).collect();
    let manifests = manifest::read(&paths, false, &mut std::io::empty()).unwrap();
    Objects { objects: manifests.into_iter().map(|manifest| manifest.object).collect(), unreadable: Vec::new() }
}

#[test]
fn recorded_requests_are_decided_as_by_the_policy() {
    let clusters = [
        cluster(&["context/LimitRange.json", "context/ResourceQuota.json", "demo/limit-range-default.yaml"]),
        cluster(&["context/LimitRange.json", "nearly-full/ResourceQuota.yaml"]),
        cluster(&[]),
    ];
    let strict = json!({"limitRanges": {"workloads": "enforce"}, "quotas": {"freshness": "live"}});
    let mut count = 0;
    for entry in fs::read_dir(root().join("test_data/requests")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".json") {
            continue;
        }
        for cluster in &clusters {
            for settings in [&json!({}), &strict] {
                check(&name, &recorded_request(&name), settings, cluster);
                count += 1;
            }
        }
    }
    assert!(count > 50, "too few requests: {count}");
}
