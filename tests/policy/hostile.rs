//! Invalid and hostile payloads: the answer is a refusal with a message, never a trap of the wasm.

use headroom_fixtures::any_json::any_json;
use headroom_wasm_host::cluster::Cluster;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::request_for;
use crate::runner::Runner;

/// Any bytes, texts that look like JSON, and pods with a wrong value somewhere.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        r#"[\[\]{}:,"\\a-z0-9. -]{0,200}"#.prop_map(String::into_bytes),
        (0..WHERE.len(), junk()).prop_map(|(place, junk)| {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "annotations": {}},
                "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}]}});
            *pod.pointer_mut(WHERE[place]).unwrap() = junk;
            request_for(&pod).payload(&json!({}))
        }),
        junk().prop_map(|settings| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}});
            request_for(&pod).payload(&json!({"limitRanges": settings}))
        }),
    ]
}

const WHERE: [&str; 9] = [
    "/metadata",
    "/metadata/annotations",
    "/spec",
    "/spec/containers",
    "/spec/containers/0",
    "/spec/containers/0/name",
    "/spec/containers/0/resources",
    "/spec/containers/0/resources/requests",
    "/spec/containers/0/resources/requests/cpu",
];

fn junk() -> impl Strategy<Value = Value> {
    let annotations = json!({"kubernetes.io/limit-ranger": "LimitRanger plugin set: ; for for container", "headroom.dev/resources": "{"});
    let odd = prop_oneof!["[0-9.eEmkKMGTPinu+-]{0,12}".prop_map(Value::from), Just(annotations)];
    any_json(odd, "name|rules|limits|cpu|mode")
}

fn cluster(ranges: Value) -> Cluster {
    Cluster::new().with(json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "shop"}, "spec": {"limits": ranges}}))
}

fn check(runner: &Runner, cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let strategy = (payload(), prop_oneof![Just(json!([])), junk()]);
    let evaluated = TestRunner::new(config).run(&strategy, |(payload, ranges)| {
        let response = runner.evaluate_payload(&payload, &mut cluster(ranges));
        let response: Value =
            serde_json::from_slice(&response).map_err(|error| TestCaseError::fail(error.to_string()))?;
        if response["accepted"] == false {
            prop_assert!(response["message"].as_str().is_some_and(|message| !message.is_empty()));
        }
        Ok(())
    });
    evaluated.unwrap();
}

#[test]
fn no_payload_makes_the_policy_panic() {
    check(&Runner::Native, 4000);
}

#[test]
fn no_payload_makes_the_wasm_trap() {
    check(&Runner::wasm(), 400);
}
