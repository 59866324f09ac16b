//! Writes a decision as the SDK's `ValidationResponse`.

use std::borrow::Cow;

use headroom_admission::json::{Malformed, write_string};
use headroom_admission::request::Object;
use headroom_admission::verdict::{Violation, announced, cut};
use headroom_admission::{Decision, Request, Settings};
use kubewarden_policy_sdk::reject_request;
use wapc_guest::CallResult;

/// The response to an evaluated request. Written as text, because the object is text already: to make it a value of the
/// SDK's type, and to escape its annotations a byte at a time, takes a tenth of an evaluation's time (`make bench`).
pub fn decide(decision: &Decision<'_>, request: &Request<'_>, settings: &Settings<'_>) -> Result<Vec<u8>, Malformed> {
    let object = request.object;
    let mut json = String::with_capacity(room(decision, object));
    if decision.is_admitted() {
        json.push_str("{\"accepted\":true");
        if let Some(object) = object {
            decision.write_filled_object(&mut json, ",\"mutated_object\":", object.node)?;
        }
    } else {
        json.push_str("{\"accepted\":false,\"code\":403,\"message\":");
        write_string(&mut json, &decision.message());
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
    // Kubewarden admits the request all the same, and says nothing of the reasons.
    let monitored = decision.violations.iter().filter(|_| settings.is_monitored);
    let would_be = |violation: &Violation<'_>| Cow::Owned(cut(format!("would be rejected: {violation}")));
    let admitted = (decision.is_admitted() || settings.is_monitored).then_some(request);
    let warnings = decision.warnings.iter().map(|warning| Cow::Borrowed(warning.text.as_str()));
    let mut separator = ",\"warnings\":[";
    for text in monitored.map(would_be).chain(warnings) {
        json.push_str(separator);
        write_string(&mut json, &announced(&text, admitted));
        separator = ",";
    }
    json.push_str(if separator == "," { "]" } else { "" });
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

pub fn reject(message: String) -> CallResult {
    reject_request(Some(message), Some(403), None, None)
}
