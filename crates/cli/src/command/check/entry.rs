//! The result for one object, or for one document that cannot be read, as all outputs show it.

use headroom_dryrun::evaluate::{Evaluation, Operation, Topic, Verdict};
use headroom_objects::manifest::Origin;
use serde::Serialize;

use crate::manifest::ManifestError;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedObject {
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    file: String,
    line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'static str>,
    #[serde(serialize_with = "name_of")]
    pub verdict: Verdict,
    /// The reasons why it is rejected, invalid, or cannot be evaluated, and why its pods are blocked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<CheckReason>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<CheckWarning>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangedValue>,
    /// The amounts that the object and its pods add to quotas if it is admitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    charges: Vec<CheckCharge>,
    #[serde(skip)]
    pub origin: Origin,
    /// `deployment.apps/web`; the file for a document that cannot be read.
    #[serde(skip)]
    pub object: String,
    /// The command that explains the decision.
    #[serde(skip)]
    pub why: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct CheckReason {
    topic: &'static str,
    message: String,
    #[serde(skip)]
    pub lines: Vec<String>,
    /// The container, resource or quota concerned, whatever the words: `quota team`.
    #[serde(skip)]
    about: String,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct CheckWarning {
    pub text: String,
    #[serde(skip)]
    pub about: String,
}

#[derive(Debug, Serialize)]
pub struct ChangedValue {
    /// `container web`, or `init container setup`.
    pub container: String,
    /// `requests.cpu`
    pub field: String,
    pub value: String,
    pub reason: String,
}

#[derive(Debug, Serialize)]
struct CheckCharge {
    quota: String,
    name: String,
    added: String,
    used: String,
}

fn name_of<S: serde::Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(verdict.name())
}

impl CheckedObject {
    pub fn of(origin: Origin, evaluation: &Evaluation, why: String) -> Self {
        let reasons = evaluation
            .reasons
            .iter()
            .map(|reason| CheckReason::new(reason.topic, reason.lines().into_iter().map(str::to_owned).collect()));
        let blocked = evaluation.warnings.iter().filter_map(|warning| {
            let reason = CheckReason::new(warning.blocks_pods?, vec![warning.to_string()]);
            Some(CheckReason { about: warning.about.clone(), ..reason })
        });
        let warnings = evaluation.warnings.iter().filter(|warning| warning.blocks_pods.is_none());
        let warnings = warnings.map(|warning| CheckWarning { text: warning.to_string(), about: warning.about.clone() });
        let charged = evaluation.charges.iter().chain(&evaluation.pod_charges).filter(|_| evaluation.is_admitted());
        let charges = charged.flat_map(|charge| {
            charge.added.iter().map(|amount| CheckCharge {
                quota: charge.quota.clone(),
                name: amount.name.clone(),
                added: amount.added.clone(),
                used: amount.used.clone(),
            })
        });
        Self {
            api_version: evaluation.kind.api_version(),
            kind: evaluation.kind.kind.clone(),
            namespace: evaluation.namespace.clone(),
            name: evaluation.name.clone(),
            file: origin.file.display().to_string(),
            line: origin.line,
            operation: Some(match evaluation.operation {
                Operation::Create => "create",
                Operation::Update => "update",
            }),
            verdict: evaluation.verdict,
            reasons: reasons.chain(blocked).collect(),
            warnings: warnings.collect(),
            changes: changes(evaluation),
            charges: charges.collect(),
            object: evaluation.object_name(),
            origin,
            why: Some(why),
        }
    }

    /// The same, but not checked where nothing was found against the object.
    pub fn unless_admitted(self) -> Self {
        match self.verdict {
            Verdict::Admitted | Verdict::Changed => Self {
                verdict: Verdict::NotChecked,
                warnings: Vec::new(),
                changes: Vec::new(),
                charges: Vec::new(),
                ..self
            },
            _ => self,
        }
    }

    pub fn of_problem(problem: ManifestError) -> Self {
        let (origin, problem) = problem.with_place();
        Self {
            api_version: String::new(),
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            file: origin.file.display().to_string(),
            line: origin.line,
            operation: None,
            verdict: Verdict::Error,
            reasons: vec![CheckReason::new(Topic::Invalid, vec![problem])],
            warnings: Vec::new(),
            changes: Vec::new(),
            charges: Vec::new(),
            object: origin.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            origin,
            why: None,
        }
    }
}

impl CheckReason {
    fn new(topic: Topic, lines: Vec<String>) -> Self {
        let topic = match topic {
            Topic::Limits => "limits",
            Topic::Quota => "quota",
            Topic::Invalid => "invalid",
            Topic::MissingContext => "missing-context",
        };
        Self { topic, message: lines.join("; "), lines, about: String::new() }
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// `quota: quota team`
    pub fn about(&self) -> String {
        format!("{}: {}", self.topic, self.about)
    }
}

/// The values that are filled in, if the object is changed.
fn changes(evaluation: &Evaluation) -> Vec<ChangedValue> {
    if evaluation.changed.is_none() {
        return Vec::new();
    }
    let containers = evaluation.pod.iter().flatten();
    let changes = containers.flat_map(|container| {
        let name = format!("{} {}", container.role.noun(), container.name);
        container.values.iter().filter(|value| value.is_new).map(move |value| ChangedValue {
            container: name.clone(),
            field: format!("{}.{}", value.requirement.field(), value.resource),
            value: value.quantity.clone(),
            reason: value.reason.clone(),
        })
    });
    changes.collect()
}
