//! Quotas, from the payload to the answer: conformance with Kubernetes, messages, and properties.

mod admission;
mod conformance;
mod properties;
mod resizes;
mod workloads;

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quota {
    #[serde(default = "team")]
    name: String,
    #[serde(default)]
    scopes: Vec<String>,
    hard: Value,
    used: Value,
}

fn team() -> String {
    "team".to_owned()
}

impl Quota {
    fn object(&self) -> Value {
        let Self { name, scopes, hard, used } = self;
        let spec = json!({"scopes": scopes, "hard": hard});
        json!({"metadata": {"name": name}, "spec": spec, "status": {"hard": hard, "used": used}})
    }
}
