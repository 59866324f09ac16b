//! The scenarios: two tests for each file of `tests/scenarios`, natively and in the built wasm.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop on data it cannot read")]

#[path = "policy/runner.rs"]
mod runner;

use std::process::ExitCode;

use headroom_admission::Request;
use headroom_admission::json::Document;
use headroom_admission::verdict::announced;
use headroom_fixtures::scenario::{Expected, Scenario, test_each};
use headroom_wasm_host::admission::AdmissionRequest;
use runner::Runner;
use serde_json::Value;

fn main() -> ExitCode {
    test_each(&[
        ("natively", |scenario| check(scenario, &Runner::Native)),
        ("in_wasm", |scenario| check(scenario, &Runner::wasm())),
    ])
}

fn check(scenario: &Scenario, runner: &Runner) {
    let name = &scenario.name;
    let request = AdmissionRequest::from_value(scenario.request()).unwrap();
    let response = runner.evaluate(&request, &scenario.settings(), &mut scenario.cluster());
    let Expected { allowed, message, warnings, resources, annotations, unchanged } = &scenario.expect;
    assert_eq!(response.accepted, *allowed, "{name}: {response:?}");
    assert_eq!(response.message, *message, "{name}");
    let found = response.warnings.unwrap_or_default();
    let text = scenario.request().to_string();
    let document = Document::read(&text).unwrap();
    let announced =
        |read: &Request<'_>| warnings.iter().map(|warning| announced(warning, allowed.then_some(read))).collect();
    // A request that cannot be read has no warnings.
    assert_eq!(found, Request::read(document.root()).as_ref().map_or_else(|_| Vec::new(), announced), "{name}");
    assert!(found.iter().all(|warning| warning.len() <= 256), "{name}: a warning is too long");
    assert!(!unchanged || response.mutated_object.is_none(), "{name}: {:?}", response.mutated_object);
    let object = response.mutated_object.or(request.object).unwrap_or_default();
    let pod = if object["spec"]["template"].is_object() { &object["spec"]["template"] } else { &object };
    for (container, expected) in resources {
        let both = [&pod["spec"]["containers"], &pod["spec"]["initContainers"]];
        let found = both.into_iter().filter_map(Value::as_array).flatten().find(|have| have["name"] == *container);
        assert_eq!(found.unwrap()["resources"], *expected, "{name}: {container}");
    }
    for (annotation, text) in annotations {
        assert_eq!(pod["metadata"]["annotations"][annotation], *text, "{name}");
    }
}
