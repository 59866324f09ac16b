//! Workflow commands that GitHub shows as annotations beside the lines of a change.
//! See <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>.

use super::clean::clean;
use super::{Finding, FindingLevel, is_file};

/// Commands to a runner, whose texts are escaped.
#[derive(Debug)]
pub struct Commands(String);

impl Commands {
    /// Adds a notice about no object.
    pub fn with_notice(self, title: &str, text: &str) -> Self {
        Self(format!("{}::notice title={}::{}\n", self.0, property(title), message(text)))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// One command a finding.
pub fn annotations(findings: &[Finding]) -> Commands {
    Commands(findings.iter().map(|finding| command(finding) + "\n").collect())
}

fn command(finding: &Finding) -> String {
    let level = match finding.level {
        FindingLevel::Error => "error",
        FindingLevel::Warning => "warning",
        FindingLevel::Note => "notice",
    };
    let mut properties = Vec::new();
    if let Some(origin) = finding.origin.as_ref().filter(|origin| is_file(origin)) {
        properties.push(format!("file={}", property(&origin.file.to_string_lossy())));
        properties.push(format!("line={}", origin.line));
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
