//! SARIF 2.1.0, which code hosts show in their security and quality views.
//! See <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::clean::visible;
use super::{Finding, FindingRule, is_file, uri};

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The log of one run. `rules` are all that findings may name, and the note is about what was not analysed.
pub fn log(rules: &[&'static FindingRule], findings: &[Finding], note: Option<String>) -> Value {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut numbered = |finding: &Finding| {
        let print = fingerprint(finding);
        let count = seen.entry(print.clone()).or_default();
        *count += 1;
        format!("{print}:{count}")
    };
    let results: Vec<Value> = findings.iter().map(|finding| result(rules, finding, &numbered(finding))).collect();
    let described = rules.iter().map(|FindingRule { id, title, help }| {
        json!({"id": id, "name": id, "shortDescription": {"text": title}, "help": {"text": help}})
    });
    let mut run = json!({
        "tool": {"driver": {
            "name": "kubectl-headroom",
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": described.collect::<Vec<_>>(),
        }},
        "columnKind": "utf16CodeUnits",
        "results": results,
    });
    if let (Some(note), Value::Object(run)) = (note, &mut run) {
        let notification = json!({"level": "note", "message": {"text": note}});
        let invocation = json!({"executionSuccessful": true, "toolExecutionNotifications": [notification]});
        run.insert("invocations".to_owned(), json!([invocation]));
    }
    json!({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})
}

fn result(rules: &[&'static FindingRule], finding: &Finding, fingerprint: &str) -> Value {
    let mut location =
        json!({"logicalLocations": [{"fullyQualifiedName": visible(&finding.subject), "kind": "resource"}]});
    let origin = &finding.origin;
    if let (true, Value::Object(fields)) = (is_file(origin), &mut location) {
        let physical = json!({"artifactLocation": {"uri": uri(&origin.file)}, "region": {"startLine": origin.line}});
        fields.insert("physicalLocation".to_owned(), physical);
    }
    json!({
        "ruleId": finding.rule.id,
        "ruleIndex": rules.iter().position(|rule| rule.id == finding.rule.id),
        "level": finding.level,
        // Viewers make a link of `[text](address)`.
        "message": {"text": visible(&format!("{}: {}", finding.subject, finding.text)).replace("](", "]\u{fffd}(")},
        "locations": [location],
        "partialFingerprints": {"headroom/v1": fingerprint},
    })
}

/// The same for the same finding in the next run, wherever its line has moved to and however it is worded then: code hosts
/// would open a closed alert again.
fn fingerprint(finding: &Finding) -> String {
    // FNV-1a: short, stable over versions and machines, and nothing here needs more.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in [finding.rule.id, &finding.subject, &finding.about].join("\u{0}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use headroom_objects::manifest::Origin;

    use super::super::FindingLevel;
    use super::*;

    const RULE: FindingRule = FindingRule { id: "limits", title: "", help: "" };

    fn results(findings: &[(&str, &str, &str)]) -> Vec<Value> {
        let finding = |(subject, about, text): &(&str, &str, &str)| Finding {
            rule: &RULE,
            level: FindingLevel::Error,
            text: (*text).to_owned(),
            about: (*about).to_owned(),
            subject: (*subject).to_owned(),
            origin: Origin { file: "-".into(), line: 1, document: 0 },
        };
        let findings: Vec<Finding> = findings.iter().map(finding).collect();
        log(&[&RULE], &findings, None)["runs"][0]["results"].as_array().unwrap().clone()
    }

    fn fingerprints(findings: &[(&str, &str, &str)]) -> Vec<Value> {
        results(findings).iter().map(|result| result["partialFingerprints"]["headroom/v1"].clone()).collect()
    }

    #[test]
    fn no_name_becomes_a_link_or_hides() {
        let name = "shop/pod/[see](https://evil.example)\u{202e}\u{1b}[2K";
        let result = &results(&[(name, "", "image [a](1) is new")])[0];
        let shown = "shop/pod/[see]\u{fffd}(https://evil.example)\u{fffd}\u{fffd}[2K: image [a]\u{fffd}(1) is new";
        assert_eq!(result["message"]["text"], shown);
        let place = &result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"];
        assert_eq!(place, "shop/pod/[see](https://evil.example)\u{fffd}\u{fffd}[2K");
    }

    #[test]
    fn new_words_keep_the_fingerprint() {
        let of = |finding| fingerprints(&[finding]);
        let before = of(("shop/pod/web", "container a: cpu", "killed 2 times for memory"));
        assert_eq!(before, of(("shop/pod/web", "container a: cpu", "OOM-killed 2 times")));
        for other in [("shop/pod/api", "container a: cpu"), ("shop/pod/web", "container b: cpu"), ("shop/pod/web", "")]
        {
            assert_ne!(before, of((other.0, other.1, "killed 2 times for memory")), "{other:?}");
        }
        let alike = fingerprints(&[("shop/pod/web", "", "one"), ("shop/pod/web", "", "two")]);
        assert_ne!(alike[0], alike[1]);
    }
}
