//! The scenarios: typical cases, one YAML file for each.

use std::collections::BTreeMap;
use std::fs;

use headroom_testkit::admission::AdmissionRequest;
use headroom_testkit::built;
use headroom_testkit::cluster::Cluster;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::runner::{Runner, request_for};

/// One case.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Scenario {
    /// The point of the case, in a sentence.
    #[expect(dead_code, reason = "for the reader of the file")]
    shows: String,
    #[serde(default)]
    settings: Value,
    /// A recorded request of test_data/requests; without it, the request is for `object`.
    request: Option<String>,
    #[serde(default = "create")]
    operation: String,
    #[serde(default)]
    subresource: String,
    object: Option<Value>,
    old_object: Option<Value>,
    /// The objects of the cluster.
    #[serde(default)]
    cluster: Vec<Value>,
    /// Kinds that cannot be read, `Namespace` or `apps/v1/Deployment`.
    #[serde(default)]
    unreadable: Vec<String>,
    expect: Expected,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expected {
    allowed: bool,
    /// The whole message of a refusal.
    message: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
    /// The `resources` of containers afterwards, by name.
    #[serde(default)]
    resources: BTreeMap<String, Value>,
    /// Annotations of the pod afterwards.
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// Whether the object must not be changed.
    #[serde(default)]
    unchanged: bool,
}

fn create() -> String {
    "CREATE".to_owned()
}

impl Scenario {
    fn request(&self) -> AdmissionRequest {
        match (&self.request, &self.object) {
            (Some(name), None) => {
                let path = built::workspace_file("test_data/requests").join(name).with_extension("json");
                AdmissionRequest::from_json(&fs::read_to_string(path).unwrap()).unwrap()
            }
            (None, Some(object)) => request_for(&self.operation, object, self.old_object.as_ref(), &self.subresource),
            _ => panic!("a scenario has either `request` or `object`"),
        }
    }

    /// Estimates are off unless a scenario sets them, because otherwise all would have warnings about well-known
    /// images.
    fn settings(&self) -> Value {
        let mut settings = self.settings.clone();
        if settings.is_null() {
            settings = json!({});
        }
        if let Some(settings) = settings.as_object_mut() {
            settings.entry("estimates").or_insert_with(|| json!({"mode": "never"}));
        }
        settings
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = self.cluster.iter().cloned().fold(Cluster::new(), Cluster::with);
        for kind in &self.unreadable {
            let (api_version, kind) = kind.rsplit_once('/').unwrap_or(("v1", kind));
            cluster = cluster.failing(api_version, kind, "it is forbidden");
        }
        cluster
    }

    fn check(&self, name: &str, runner: &Runner) {
        let request = self.request();
        let response = runner.judge(&request, &self.settings(), &mut self.cluster());
        let Expected { allowed, message, warnings, resources, annotations, unchanged } = &self.expect;
        assert_eq!(response.accepted, *allowed, "{name}: {response:?}");
        assert_eq!(response.message, *message, "{name}");
        let found = response.warnings.unwrap_or_default();
        assert_eq!(found, *warnings, "{name}");
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
}

#[test]
fn scenarios_hold_natively_and_in_the_wasm() {
    let mut count = 0;
    let mut files: Vec<_> =
        fs::read_dir(built::workspace_file("tests/scenarios")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let runners = Runner::both();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
        let name = file.file_stem().unwrap().to_string_lossy();
        let scenario: Scenario =
            serde_yaml::from_str(&fs::read_to_string(file).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
        runners.iter().for_each(|runner| scenario.check(&name, runner));
        count += 1;
    }
    assert!(count > 0, "there are scenarios");
}
