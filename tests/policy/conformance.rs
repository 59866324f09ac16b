//! The conformance cases of admission, as payloads: natively, and with the built wasm in a real waPC host.

use headroom_admission::amount::ResourceList;
use headroom_admission::json::Document;
use headroom_fixtures::conformance::{Answer, Case, cases};
use headroom_wasm_host::admission::AdmissionRequest;
use serde_json::Value;

use crate::runner::Runner;

fn check(runner: &Runner, case: &Case) {
    let Some((input, expect)) = case.admission() else { return };
    let name = &case.name;
    let request = AdmissionRequest::from_value(input.request()).unwrap();
    let response = runner.evaluate(&request, &case.upstream_settings(), &mut input.cluster());
    expect.check(name, response.accepted, response.message.as_deref().unwrap_or_default());
    if !response.accepted {
        assert_eq!(response.code, Some(403), "{name}");
        return;
    }
    let object = response.mutated_object.or(request.object).unwrap_or_default();
    assert_containers(name, &object, expect);
    if let Some(expected) = &expect.annotations {
        let mut annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        annotations.remove("headroom.dev/resources");
        assert_eq!(annotations, *expected, "{name}");
    }
}

fn assert_containers(name: &str, object: &Value, expect: &Answer) {
    let both = [("containers", &expect.mutated_containers), ("initContainers", &expect.mutated_init_containers)];
    for (place, expected) in both.into_iter().flat_map(|(place, list)| list.iter().map(move |one| (place, one))) {
        let containers = object["spec"][place].as_array().unwrap();
        let container = containers.iter().find(|container| container["name"] == expected.name);
        let resources = &container.unwrap_or_else(|| panic!("{name}: {} is missing", expected.name))["resources"];
        assert_same_amounts(name, &resources["requests"], &expected.requests);
        assert_same_amounts(name, &resources["limits"], &expected.limits);
    }
}

fn assert_same_amounts(name: &str, actual: &Value, expected: &Value) {
    let texts = [actual, expected].map(|list| if list.is_null() { "{}".to_owned() } else { list.to_string() });
    let documents = texts.each_ref().map(|text| Document::read(text).unwrap());
    let [actual, expected] = documents.each_ref().map(|list| ResourceList::read(list.root()).unwrap());
    assert_eq!(actual, expected, "{name}");
}

fn check_all(runner: &Runner) {
    // Forged fields are `trust`, and `news` are cases of newer releases.
    let plugins = ["limit_range", "quota", "trust", "news"];
    plugins.into_iter().flat_map(cases).for_each(|case| check(runner, &case));
}

#[test]
fn kubernetes_decides_the_same_natively() {
    check_all(&Runner::Native);
}

#[test]
fn kubernetes_decides_the_same_in_wasm() {
    check_all(&Runner::wasm());
}
