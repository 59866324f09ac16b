//! Quotas, from the payload to the answer: messages and properties.

mod admission;
mod properties;
mod resizes;
mod workloads;

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Quota {
    /// `team` if it is empty.
    name: String,
    scopes: Vec<String>,
    hard: Value,
    used: Value,
}

impl Quota {
    fn object(&self) -> Value {
        let Self { name, scopes, hard, used } = self;
        let name = if name.is_empty() { "team" } else { name };
        let spec = json!({"scopes": scopes, "hard": hard});
        json!({"metadata": {"name": name}, "spec": spec, "status": {"hard": hard, "used": used}})
    }
}
