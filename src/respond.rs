//! Writes a decision as the host's ValidationResponse. It is written as text, because the object is text already.

use headroom_core::Decision;
use headroom_core::json::{Malformed, write_string};
use headroom_core::request::Object;

/// The response to a judged request.
pub fn with(decision: &Decision<'_>, object: Option<Object<'_>>) -> Result<Vec<u8>, Malformed> {
    let mut json = String::with_capacity(room(decision, object));
    if decision.is_admitted() {
        json.push_str("{\"accepted\":true");
        if let Some(object) = object {
            decision.write_changed_object(&mut json, ",\"mutated_object\":", object.node)?;
        }
    } else {
        push_refusal(&mut json, &decision.message());
    }
    let audit_annotations = decision.audit_annotations();
    if !audit_annotations.is_empty() {
        json.push_str(",\"audit_annotations\":{");
        for (index, (name, value)) in audit_annotations.iter().enumerate() {
            json.push_str(if index > 0 { "," } else { "" });
            json.extend(["\"", name, "\":", value]);
        }
        json.push('}');
    }
    if !decision.warnings.is_empty() {
        json.push_str(",\"warnings\":[");
        for (index, warning) in decision.warnings.iter().enumerate() {
            json.push_str(if index > 0 { "," } else { "" });
            write_string(&mut json, &warning.text);
        }
        json.push(']');
    }
    json.push('}');
    Ok(json.into_bytes())
}

/// A generous estimate of the response's length, because growing a text costs more than writing it.
fn room(decision: &Decision<'_>, object: Option<Object<'_>>) -> usize {
    let warnings: usize = decision.warnings.iter().map(|warning| warning.text.len()).sum();
    // Once in the object and once for the audit log.
    let explained = decision.explanation.as_ref().map_or(0, |explanation| 2 * explanation.json.len());
    let changed = object.filter(|_| decision.pod.is_some()).map_or(0, |object| object.node.text().len() + 512);
    512 + warnings + explained + changed
}

/// The response to a request that could not be judged.
pub fn refuse(message: &str) -> Vec<u8> {
    let mut json = String::new();
    push_refusal(&mut json, message);
    json.push('}');
    json.into_bytes()
}

fn push_refusal(json: &mut String, message: &str) {
    json.push_str("{\"accepted\":false,\"code\":403,\"message\":");
    write_string(json, message);
}

/// The response to settings: valid, or the problem.
pub fn settings(problem: Option<String>) -> Vec<u8> {
    let Some(problem) = problem else { return b"{\"valid\":true}".to_vec() };
    let mut json = String::from("{\"valid\":false,\"message\":");
    write_string(&mut json, &problem);
    json.push('}');
    json.into_bytes()
}
