//! SARIF 2.1.0, which code hosts show in their security and quality views.
//! See <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>.

use serde_json::{Value, json};

use super::{Finding, Level, Rule, is_file, uri};

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The log of one run. `rules` are all that findings may name.
pub fn log(rules: &[&'static Rule], findings: &[Finding]) -> Value {
    let results: Vec<Value> = findings.iter().map(|finding| result(rules, finding)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "kubectl-headroom",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| described(rule)).collect::<Vec<_>>(),
            }},
            "columnKind": "utf16CodeUnits",
            "results": results,
        }],
    })
}

/// The log with a note about what was not analysed.
pub fn with_note(mut log: Value, note: Option<String>) -> Value {
    if let (Some(note), Some(run)) = (note, log.pointer_mut("/runs/0").and_then(Value::as_object_mut)) {
        let notification = json!({"level": "note", "message": {"text": note}});
        let invocation = json!({"executionSuccessful": true, "toolExecutionNotifications": [notification]});
        run.insert("invocations".to_owned(), json!([invocation]));
    }
    log
}

fn described(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "name": rule.id,
        "shortDescription": {"text": rule.title},
        "help": {"text": rule.help},
    })
}

fn result(rules: &[&'static Rule], finding: &Finding) -> Value {
    let level = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    };
    let mut location = json!({"logicalLocations": [{"fullyQualifiedName": finding.subject, "kind": "resource"}]});
    if let (Some(origin), Value::Object(fields)) = (&finding.origin, &mut location)
        && is_file(origin)
    {
        let physical = json!({"artifactLocation": {"uri": uri(origin)}, "region": {"startLine": origin.line}});
        fields.insert("physicalLocation".to_owned(), physical);
    }
    json!({
        "ruleId": finding.rule.id,
        "ruleIndex": rules.iter().position(|rule| rule.id == finding.rule.id),
        "level": level,
        "message": {"text": format!("{}: {}", finding.subject, finding.text)},
        "locations": [location],
        "partialFingerprints": {"headroom/v1": fingerprint(finding)},
    })
}

/// The same for the same finding in the next run, wherever its line has moved to.
fn fingerprint(finding: &Finding) -> String {
    // FNV-1a: short, stable over versions and machines, and nothing here needs more.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in [finding.rule.id, &finding.subject, &finding.text].join("\u{0}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}
