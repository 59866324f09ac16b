//! A session file of kwctl: the calls that a policy makes to its host, and the answers, in order. Each request is a text
//! that holds YAML.
//!
//! Texts are quoted as JSON does it, which YAML understands.

use serde_json::{Value, json};

use crate::evaluate::{Call, Exchange};

/// A policy of another version may read other objects, or in another order.
const HEAD: &str =
    concat!("# Recorded by Headroom ", env!("CARGO_PKG_VERSION"), "; replay it with the policy of the same version.\n");

/// The session of some exchanges.
pub fn text(exchanges: &[Exchange]) -> String {
    if exchanges.is_empty() {
        return format!("{HEAD}[]\n");
    }
    exchanges.iter().fold(HEAD.to_owned(), |text, next| text + &exchange(next))
}

fn exchange(exchange: &Exchange) -> String {
    let mut text = String::from("- type: Exchange\n  request: |\n");
    request(&exchange.call).iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    match &exchange.answer {
        Ok(payload) => {
            let quoted = payload.replace('\'', "''");
            text.push_str(&format!("  response:\n    type: Success\n    payload: '{quoted}'\n"));
        }
        Err(message) => text.push_str(&format!("  response:\n    type: Error\n    message: {}\n", json!(message))),
    }
    text
}

fn request(call: &Call) -> Vec<String> {
    let Call { api_version, kind, namespace, name, field_masks, is_live } = call;
    let operation = match namespace {
        _ if *is_live => "!KubernetesGetResource",
        Some(_) => "!KubernetesListResourceNamespace",
        None => "!KubernetesListResourceAll",
    };
    let mut lines = vec![operation.to_owned()];
    let mut field = |field: &str, value: Value| lines.push(format!("{field}: {value}"));
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
    lines.push("field_masks:".to_owned());
    lines.extend(field_masks.iter().map(|mask| format!("- {}", json!(mask))));
    lines
}
