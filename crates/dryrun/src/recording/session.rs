//! A session file of kwctl: the calls that a policy makes to its host, and the answers, in order. Each request is a text
//! that holds YAML.
//!
//! Texts are quoted as JSON does it, which YAML understands.

use serde_json::json;

use crate::evaluate::{Call, Exchange};

/// A policy of another version may read other objects, or in another order.
const HEAD: &str = concat!(
    "# Recorded by kubectl headroom ",
    env!("CARGO_PKG_VERSION"),
    "; replay it with the policy of the same version.\n"
);

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
    let Call { api_version, kind, namespace, name, field_masks, disable_cache } = call;
    let mut lines = Vec::new();
    match name {
        None => {
            lines.push("!KubernetesListResourceNamespace".to_owned());
            lines.push(format!("api_version: {}", json!(api_version)));
            lines.push(format!("kind: {}", json!(kind)));
            lines.push(format!("namespace: {}", json!(namespace)));
            lines.push("label_selector: null".to_owned());
            lines.push("field_selector: null".to_owned());
        }
        Some(name) => {
            lines.push("!KubernetesGetResource".to_owned());
            lines.push(format!("api_version: {}", json!(api_version)));
            lines.push(format!("kind: {}", json!(kind)));
            lines.push(format!("name: {}", json!(name)));
            lines.push(format!("namespace: {}", json!(namespace)));
            lines.push(format!("disable_cache: {disable_cache}"));
        }
    }
    if field_masks.is_empty() {
        lines.push("field_masks: null".to_owned());
    } else {
        lines.push("field_masks:".to_owned());
        lines.extend(field_masks.iter().map(|mask| format!("- {}", json!(mask))));
    }
    lines
}
