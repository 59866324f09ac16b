//! Workflow commands that GitHub shows as annotations beside the lines of a change.
//! See <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>.

use super::clean::clean;
use super::{Finding, FindingLevel, Page, is_file};

/// One command a finding, and a notice about no object. The texts in them are escaped.
pub fn annotations(findings: &[Finding], title: &str, notice: Option<&str>) -> Page {
    let notice = notice.map(|text| format!("::notice title={}::{}", property(title), message(text)));
    Page::ours(findings.iter().map(command).chain(notice).map(|command| command + "\n").collect())
}

fn command(finding: &Finding) -> String {
    let level = match finding.level {
        FindingLevel::Error => "error",
        FindingLevel::Warning => "warning",
        FindingLevel::Note => "notice",
    };
    let mut properties = Vec::new();
    if is_file(&finding.origin) {
        properties.push(format!("file={}", property(&finding.origin.file.to_string_lossy())));
        properties.push(format!("line={}", finding.origin.line));
    }
    properties.push(format!("title={}", property(&format!("{}: {}", finding.subject, finding.rule.title))));
    format!("::{level} {}::{}", properties.join(","), message(&finding.text))
}

fn message(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(clean).collect();
    lines.join("\n").replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
