//! The story of `make demo`: the policy gives the answers that it shows.

use std::fs;

use headroom_fixtures::cluster::Cluster;
use headroom_fixtures::request;
use headroom_wasm_host::admission::AdmissionRequest;
use headroom_wasm_host::built;
use serde_json::Value;

use crate::runner::Runner;

/// The last scene of `make demo` is the first again, with a history.
#[test]
fn the_demo_estimates_from_usage() {
    let story = fs::read_to_string(built::workspace_file("tests/data/demo/story.yaml")).unwrap();
    let scenes: Vec<Value> = serde_saphyr::from_str(&story).unwrap();
    let (first, last) = (scenes.first().unwrap(), scenes.last().unwrap());
    assert_eq!((scenes.len(), &first["object"]), (6, &last["object"]));
    let files = last["cluster"].as_array().unwrap().iter().map(|file| built::workspace_file(file.as_str().unwrap()));
    let mut cluster = Cluster::from_files(files).unwrap();
    let request = request::for_object("CREATE", &last["object"], None, "");
    let request = AdmissionRequest::from_value(request).unwrap();
    let response = Runner::Native.evaluate(&request, &last["settings"], &mut cluster);
    let warnings = response.warnings.unwrap_or_default().join("\n");
    for resource in ["cpu", "memory"] {
        assert!(warnings.contains(&format!("container nginx: {resource} request set to ")), "{warnings}");
    }
    assert_eq!(warnings.matches("(usage of nginx:1.25 in this namespace over ").count(), 2, "{warnings}");
}
