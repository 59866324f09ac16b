//! The host with the wasm of this workspace: it behaves like Kubewarden.

use std::{collections::BTreeSet, fs, process::Command, sync::Arc};

use headroom_fixtures::request::{all_recorded, recorded};
use headroom_wasm_host::access::Access;
use headroom_wasm_host::admission::AdmissionRequest;
use headroom_wasm_host::built::{policy, workspace_file};
use headroom_wasm_host::cluster::Cluster;
use headroom_wasm_host::compiler::Compiled;
use headroom_wasm_host::host::PolicyHost;
use headroom_wasm_host::host_call::CallbackRequest;
use headroom_wasm_host::protocol::{GuestCall, HostCall};
use serde_json::json;

fn plain_pod() -> AdmissionRequest {
    AdmissionRequest::from_value(recorded("pod-create-plain")).unwrap()
}

fn cluster() -> Cluster {
    let files = ["tests/data/demo/limit-range-default.yaml", "tests/data/context/ResourceQuota.json"];
    Cluster::from_files(files.map(workspace_file)).unwrap()
}

#[test]
fn the_policy_has_protocol_v1_and_accepts_empty_settings() {
    let (host, _) = policy().unwrap();
    assert_eq!(host.protocol_version().as_deref(), Ok("v1"));
    assert!(host.validate_settings(&json!({})).valid);
}

/// Compares two independent engines. `make demo` uses the second one.
#[test]
fn the_interpreter_answers_as_the_compiler_does() {
    let (compiled, access) = policy().unwrap();
    let interpreted = PolicyHost::interpreted(&wasm()).unwrap();
    let settings = json!({"estimates": {"namespace": "headroom", "replayTime": "2026-11-21T06:00:00Z"}});
    let names = all_recorded();
    assert!(names.len() > 10, "too few requests: {names:?}");
    for name in names {
        let request = AdmissionRequest::from_value(recorded(&name)).unwrap();
        let answer = |host: &PolicyHost| {
            let mut cluster = cluster();
            let response = host.validate(&request, &settings, &access, &mut cluster);
            (serde_json::to_value(response).unwrap(), cluster.calls().to_vec())
        };
        assert_eq!(answer(&interpreted), answer(&compiled), "{name}");
    }
    for settings in [json!({}), json!({"rool": "mutate"})] {
        assert_eq!(interpreted.validate_settings(&settings), compiled.validate_settings(&settings));
    }
}

#[test]
fn the_demo_fits_80_columns_and_readme_shows_what_it_prints() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_headroom-host"));
    let answer = demo.arg("demo").current_dir(workspace_file("")).output().unwrap();
    let shown = String::from_utf8(answer.stdout).unwrap();
    assert!(answer.status.success() && shown.matches(" of 6: ").count() == 6, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80 && !line.contains('\u{1b}')), "{shown}");
    // The last scene is the first again, with a history.
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("(usage of nginx:1.25 in this namespace over ").count(), 2, "{shown}");
    for resource in ["cpu", "memory"] {
        assert!(words.contains(&format!("container nginx: {resource} request set to ")), "{shown}");
    }
    let readme = fs::read_to_string(workspace_file("README.md")).unwrap();
    let block = readme.split("<!-- demo -->\n```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(shown.contains(block), "{block}\n\n{shown}");
}

#[test]
fn a_kind_or_a_capability_that_is_not_granted_does_not_reach_the_cluster() {
    let (host, access) = policy().unwrap();
    let check = |access: Access, expected: &str| {
        let mut cluster = cluster();
        let response = host.validate(&plain_pod(), &json!({}), &access, &mut cluster);
        assert!(response.message().is_some_and(|message| message.contains(expected)), "{response:?}");
        assert_eq!(cluster.calls(), []);
    };
    check(Access { resources: BTreeSet::new(), ..access.clone() }, "access to Kubernetes v1/LimitRange resources");
    check(Access { capabilities: Vec::new(), ..access }, "'kubernetes/list_resources_by_namespace' host capability");
}

#[test]
fn an_evaluation_takes_the_same_fuel_each_time_and_responds_as_in_the_host() {
    let (host, access) = policy().unwrap();
    let payload = plain_pod().payload(&json!({}));
    let called = host.call("validate", &payload, &access, &mut cluster());
    let is_read = |call: &HostCall| CallbackRequest::read(&call.namespace, &call.operation, &call.payload).is_ok();
    assert!(called.exchanges.iter().all(|exchange| is_read(&exchange.call)));
    let meter = Compiled::for_fuel(&wasm()).unwrap();
    let (call, exchanges) = (GuestCall::new("validate", payload), Arc::from(called.exchanges));
    let (one, other) = (meter.measure(&call, &exchanges).unwrap(), meter.measure(&call, &exchanges).unwrap());
    assert!(one.fuel > 0 && one.memory > 0);
    assert_eq!((one.fuel, one.memory), (other.fuel, other.memory));
    assert_eq!(one.response, called.response);
}

#[test]
fn an_evaluation_stops_when_its_fuel_is_used_up() {
    let meter = Compiled::for_fuel(&wasm()).unwrap();
    let call = GuestCall::new("validate", plain_pod().payload(&json!({})));
    let check = |most_fuel: u64, stops: bool| {
        let no_answer = Box::new(|_: HostCall| Err("no answer".to_owned()));
        let measured = meter.measure_within(most_fuel, &call, no_answer).unwrap();
        assert_eq!((measured.out_of_fuel, measured.response.is_err()), (stops, stops), "{measured:?}");
        assert!(measured.fuel <= most_fuel);
    };
    check(1_000, true);
    check(u64::MAX, false);
}

#[test]
fn an_invalid_payload_is_refused_without_a_crash() {
    let (host, access) = policy().unwrap();
    for payload in ["", "{", "null", "[]", "{}", r#"{"request":1}"#, r#"{"request":{},"settings":[]}"#, "\u{fffd}"] {
        let answer = host.call("validate", payload.as_bytes(), &access, &mut Cluster::new()).response;
        let answer = String::from_utf8(answer.unwrap_or_else(|error| panic!("`{payload}`: {error}"))).unwrap();
        assert!(answer.contains(r#""accepted":false"#), "`{payload}`: {answer}");
    }
}

fn wasm() -> Vec<u8> {
    fs::read(workspace_file("policy.wasm")).unwrap()
}
