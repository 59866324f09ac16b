//! A JUnit report, which most build servers show: an object is a test case, a refusal its failure.

use super::{Finding, FindingLevel};

#[derive(Debug, Clone)]
pub struct Case {
    /// `pod/db-0`
    pub name: String,
    /// The file or the namespace.
    pub group: String,
    pub findings: Vec<Finding>,
    /// True if it could not be evaluated.
    pub is_error: bool,
    /// True if nothing evaluates such an object.
    pub is_skipped: bool,
}

pub fn report(suite: &str, cases: &[Case]) -> String {
    let failed =
        |case: &&Case| !case.is_error && case.findings.iter().any(|finding| finding.level == FindingLevel::Error);
    let failures = cases.iter().filter(failed).count();
    let errors = cases.iter().filter(|case| case.is_error).count();
    let skipped = cases.iter().filter(|case| case.is_skipped).count();
    let skipped = if skipped > 0 { format!(" skipped=\"{skipped}\"") } else { String::new() };
    let counts = format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"{skipped}", cases.len());
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"{}\" {counts}>\n",
        escaped(suite)
    );
    for case in cases {
        xml.push_str(&case_xml(case));
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

fn case_xml(case: &Case) -> String {
    let head = format!("    <testcase classname=\"{}\" name=\"{}\"", escaped(&case.group), escaped(&case.name));
    if case.findings.is_empty() && !case.is_skipped {
        return head + "/>\n";
    }
    let mut xml = head + ">\n";
    if case.is_skipped {
        xml.push_str("      <skipped message=\"not checked\"/>\n");
    }
    let (failures, notes): (Vec<&Finding>, Vec<&Finding>) =
        case.findings.iter().partition(|finding| finding.level == FindingLevel::Error);
    for finding in failures {
        let element = if case.is_error { "error" } else { "failure" };
        xml.push_str(&format!(
            "      <{element} type=\"{}\" message=\"{}\">{}</{element}>\n",
            escaped(finding.rule.id),
            escaped(finding.rule.title),
            escaped(&format!("{}: {}", finding.origin, finding.text))
        ));
    }
    let notes: Vec<&str> = notes.iter().map(|finding| finding.text.as_str()).collect();
    if !notes.is_empty() {
        xml.push_str(&format!("      <system-out>{}</system-out>\n", escaped(&notes.join("\n"))));
    }
    xml.push_str("    </testcase>\n");
    xml
}

/// XML 1.0 has no way at all to write most control characters.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\n' => xml.push_str("&#10;"),
            '\t' => xml.push_str("&#9;"),
            control if control < ' ' || matches!(control, '\u{fffe}' | '\u{ffff}') => xml.push('\u{fffd}'),
            other => xml.push(other),
        }
    }
    xml
}
