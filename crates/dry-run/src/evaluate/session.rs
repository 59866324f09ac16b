//! A session file of kwctl: the calls that a policy makes to its host, and the answers, in order. Each request is a text
//! that holds YAML.
//!
//! Texts are quoted as JSON does it, which YAML understands.

use headroom_admission::cluster::lookup::HostCall;
use serde_json::{Value, json};

/// A policy of another version may read other objects, or in another order.
const HEAD: &str =
    concat!("# Recorded by Headroom ", env!("CARGO_PKG_VERSION"), "; replay it with the policy of the same version.\n");

/// A call to the host, and its answer. Each evaluation keeps them, and few are ever written as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    api_version: &'static str,
    kind: &'static str,
    namespace: Option<String>,
    name: Option<String>,
    field_masks: &'static [&'static str],
    is_live: bool,
    answer: Result<String, String>,
}

pub fn text(exchanges: &[Exchange]) -> String {
    if exchanges.is_empty() {
        return format!("{HEAD}[]\n");
    }
    exchanges.iter().fold(HEAD.to_owned(), |text, next| text + &next.text())
}

impl Exchange {
    pub(super) fn new(call: &HostCall<'_>, answer: &Result<Vec<u8>, String>) -> Self {
        let answer = answer.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).map_err(Clone::clone);
        let HostCall { api_version, kind, field_masks, is_live, .. } = *call;
        let (namespace, name) = (call.namespace.map(str::to_owned), call.name.as_ref().map(ToString::to_string));
        Self { api_version, kind, namespace, name, field_masks, is_live, answer }
    }

    fn text(&self) -> String {
        let Self { api_version, kind, namespace, name, field_masks, is_live, answer } = self;
        let operation = match namespace {
            _ if *is_live => "!KubernetesGetResource",
            Some(_) => "!KubernetesListResourceNamespace",
            None => "!KubernetesListResourceAll",
        };
        let mut lines = format!("- type: Exchange\n  request: |\n    {operation}\n");
        let mut field = |field: &str, value: Value| lines.push_str(&format!("    {field}: {value}\n"));
        field("api_version", json!(api_version));
        field("kind", json!(kind));
        if *is_live || namespace.is_some() {
            field("namespace", json!(namespace));
        }
        if *is_live {
            field("name", json!(name));
            field("disable_cache", json!(true));
        } else {
            field("label_selector", Value::Null);
            field("field_selector", json!(name.as_ref().map(|name| format!("metadata.name={name}"))));
        }
        lines.push_str("    field_masks:\n");
        field_masks.iter().for_each(|mask| lines.push_str(&format!("    - {}\n", json!(mask))));
        let (outcome, told) = match answer {
            Ok(payload) => ("Success", format!("payload: '{}'", payload.replace('\'', "''"))),
            Err(message) => ("Error", format!("message: {}", json!(message))),
        };
        lines + &format!("  response:\n    type: {outcome}\n    {told}\n")
    }
}
