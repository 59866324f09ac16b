//! The decision on one object and where its manifest stands, as all outputs show it.

use headroom_dry_run::evaluate::{ObjectDecision, Verdict};
use headroom_objects::manifest::Origin;
use headroom_objects::shell::ShellCommand;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::manifest::ManifestError;

#[derive(Debug, Serialize)]
pub struct CheckedObject {
    /// A document that cannot be read has the file as its object.
    #[serde(flatten)]
    pub decision: ObjectDecision,
    #[serde(flatten, serialize_with = "place")]
    pub origin: Origin,
    /// The command that explains the decision.
    #[serde(skip)]
    pub why: Option<ShellCommand>,
}

/// The file as it is displayed, whose name may be no text.
fn place<S: Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("file", json!(origin.file.display().to_string())), ("line", json!(origin.line))])
}

impl CheckedObject {
    /// The same, but not checked where nothing was found against the object.
    pub fn unless_admitted(mut self) -> Self {
        let decision = &mut self.decision;
        if matches!(decision.verdict, Verdict::Admitted | Verdict::Changed) {
            decision.verdict = Verdict::NotChecked;
            decision.forget_outcome();
        }
        self
    }

    pub fn of_problem(problem: ManifestError) -> Self {
        let (origin, problem) = problem.with_place();
        let file = origin.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { decision: ObjectDecision::unreadable(file, problem), origin, why: None }
    }

    /// The reasons why it is rejected, invalid, or cannot be evaluated, and why its pods are blocked: the topic, the object
    /// concerned, and the lines of each.
    pub fn against(&self) -> impl Iterator<Item = (String, Vec<&str>)> {
        let reasons =
            self.decision.reasons.iter().map(|reason| {
                (format!("{}: ", reason.topic.name()), reason.lines.iter().map(String::as_str).collect())
            });
        let blocking = self.decision.warnings.iter().filter_map(|warning| {
            Some((format!("{}: {}", warning.blocks_pods?.name(), warning.about), vec![warning.text.as_str()]))
        });
        reasons.chain(blocking)
    }

    /// Warnings that block nothing.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        let warnings = self.decision.warnings.iter().filter(|warning| warning.blocks_pods.is_none());
        warnings.map(|warning| (warning.about.as_str(), warning.text.as_str()))
    }
}
