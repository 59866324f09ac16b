//! Renders judgements: as a table, as JSON, as findings and as test cases.

use std::fmt;

use headroom_dryrun::judge::{Judgement, Operation, Topic, Verdict};
use headroom_report::junit::Case;
use headroom_report::{Finding, Level, Paint, Rule, Table};
use serde::Serialize;

use super::Judged;

static LIMITS: Rule = Rule {
    id: "limits",
    title: "LimitRange violated",
    help: "The object asks for an amount outside the bounds of a LimitRange of its namespace, or of a rule of the policy's settings.",
};
static QUOTA: Rule = Rule {
    id: "quota",
    title: "ResourceQuota violated",
    help: "The object asks for more than a ResourceQuota of its namespace has left, or does not set a resource that the quota covers.",
};
static UNREADABLE: Rule = Rule {
    id: "unreadable",
    title: "invalid object",
    help: "The object cannot be read as its kind, or the API server would find it invalid.",
};
static MISSING_CONTEXT: Rule = Rule {
    id: "missing-context",
    title: "not judged",
    help: "Something that the judgement needs could not be read: from the cluster, or from the files given instead of one.",
};
static WARNING: Rule = Rule {
    id: "warning",
    title: "policy warning",
    help: "The object is admitted, and kubectl apply would show this warning.",
};
static FILLED_IN: Rule = Rule {
    id: "filled-in",
    title: "values set by the policy",
    help: "The object leaves out requests or limits that the policy sets.",
};

/// All that findings may name.
pub static RULES: [&Rule; 6] = [&LIMITS, &QUOTA, &UNREADABLE, &MISSING_CONTEXT, &WARNING, &FILLED_IN];

/// What programs read.
#[derive(Debug, Serialize)]
pub struct Report {
    summary: Summary,
    objects: Vec<Entry>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    objects: usize,
    admitted: usize,
    changed: usize,
    refused: usize,
    not_judged: usize,
    /// Objects that the policy warns about, whatever the verdict.
    warned: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    file: String,
    line: usize,
    operation: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<ReasonEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
    /// What it adds to quotas if it is admitted, its pods included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    charges: Vec<ChargeEntry>,
}

#[derive(Debug, Serialize)]
struct ReasonEntry {
    rule: &'static str,
    message: String,
}

#[derive(Debug, Serialize)]
struct Change {
    /// `container web`, or `init container setup`.
    container: String,
    /// `requests.cpu`
    field: String,
    value: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct ChargeEntry {
    quota: String,
    name: String,
    added: String,
    used: String,
}

pub fn report(judged: &[Judged]) -> Report {
    Report { summary: Summary::of(judged), objects: judged.iter().map(Entry::of).collect() }
}

impl Summary {
    fn of(judged: &[Judged]) -> Self {
        let count = |verdict| judged.iter().filter(|judged| judged.judgement.verdict == verdict).count();
        Self {
            objects: judged.len(),
            admitted: count(Verdict::Admitted),
            changed: count(Verdict::Changed),
            refused: count(Verdict::Refused),
            not_judged: count(Verdict::NotJudged),
            warned: judged.iter().filter(|judged| !judged.judgement.warnings.is_empty()).count(),
        }
    }
}

impl Entry {
    fn of(Judged { origin, judgement }: &Judged) -> Self {
        let charged = judgement.charges.iter().chain(&judgement.pod_charges).filter(|_| judgement.is_admitted());
        let charges = charged.flat_map(|charge| {
            charge.added.iter().map(|amount| ChargeEntry {
                quota: charge.quota.clone(),
                name: amount.name.clone(),
                added: amount.added.clone(),
                used: amount.used.clone(),
            })
        });
        Self {
            api_version: judgement.kind.api_version(),
            kind: judgement.kind.kind.clone(),
            namespace: judgement.namespace.clone(),
            name: judgement.name.clone(),
            file: origin.file.display().to_string(),
            line: origin.line,
            operation: match judgement.operation {
                Operation::Create => "create",
                Operation::Update => "update",
            },
            verdict: judgement.verdict.name(),
            reasons: judgement
                .reasons
                .iter()
                .map(|reason| ReasonEntry { rule: rule(reason.topic).id, message: reason.to_string() })
                .collect(),
            warnings: judgement.warnings.iter().map(ToString::to_string).collect(),
            changes: changes(judgement),
            charges: charges.collect(),
        }
    }
}

fn rule(topic: Topic) -> &'static Rule {
    match topic {
        Topic::Limits => &LIMITS,
        Topic::Quota => &QUOTA,
        Topic::Unreadable => &UNREADABLE,
        Topic::MissingContext => &MISSING_CONTEXT,
    }
}

/// The values that are filled in, if the object is changed.
fn changes(judgement: &Judgement) -> Vec<Change> {
    if judgement.changed.is_none() {
        return Vec::new();
    }
    let containers = judgement.pod.iter().flatten();
    let changes = containers.flat_map(|container| {
        let name = format!("{} {}", container.role.noun(), container.name);
        container.values.iter().filter(|value| value.is_new).map(move |value| Change {
            container: name.clone(),
            field: format!("{}.{}", value.requirement.field(), value.resource),
            value: value.quantity.clone(),
            reason: value.reason.clone(),
        })
    });
    changes.collect()
}

/// A line an object, with what there is to say below it, and the sum of all.
pub fn table(judged: &[Judged], paint: Paint) -> String {
    let mut table = Table::new(&["VERDICT", "OBJECT", "NAMESPACE", "FILE"]);
    for Judged { origin, judgement } in judged {
        let verdict = judgement.verdict.name();
        let painted = match judgement.verdict {
            Verdict::Admitted => paint.good(verdict),
            Verdict::Changed => paint.fresh(verdict),
            Verdict::Refused | Verdict::NotJudged => paint.bad(verdict),
        };
        let plain = |text: String| (text.clone(), text);
        let place = origin.to_string();
        table.painted_row([
            (verdict.to_owned(), painted),
            plain(judgement.told()),
            plain(judgement.namespace.clone()),
            (place.clone(), paint.faint(&place)),
        ]);
    }
    let mut lines = table.lines().into_iter();
    let mut text = paint.strong(&lines.next().unwrap_or_default()) + "\n";
    for (line, Judged { judgement, .. }) in lines.zip(judged) {
        text.push_str(&line);
        text.push('\n');
        for line in details(judgement, paint) {
            text.push_str(&format!("  {line}\n"));
        }
    }
    format!("{text}\n{}\n", Summary::of(judged))
}

/// What there is to say about an object: why it is refused, what is filled in, and warnings.
fn details(judgement: &Judgement, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for reason in &judgement.reasons {
        lines.extend(reason.lines().into_iter().map(str::to_owned));
    }
    for Change { container, field, value, reason } in changes(judgement) {
        lines.push(format!("{container}: {field} {}, {reason}", paint.fresh(&value)));
    }
    for warning in &judgement.warnings {
        lines.push(format!("{} {warning}", paint.doubtful("warning:")));
    }
    lines
}

/// `3 objects: 1 admitted, 2 refused; 1 with warnings`
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.admitted, Verdict::Admitted),
            (self.changed, Verdict::Changed),
            (self.refused, Verdict::Refused),
            (self.not_judged, Verdict::NotJudged),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, verdict)| format!("{count} {}", verdict.name())).collect();
        let noun = if self.objects == 1 { "object" } else { "objects" };
        write!(f, "{} {noun}: {}", self.objects, counts.join(", "))?;
        if self.warned > 0 { write!(f, "; {} with warnings", self.warned) } else { Ok(()) }
    }
}

pub fn findings(judged: &[Judged]) -> Vec<Finding> {
    judged.iter().flat_map(findings_of).collect()
}

fn findings_of(Judged { origin, judgement }: &Judged) -> Vec<Finding> {
    let subject = match judgement.namespace.as_str() {
        "" => judgement.told(),
        namespace => format!("{namespace}/{}", judgement.told()),
    };
    let finding = |rule, level, text: &str| Finding {
        rule,
        level,
        text: text.to_owned(),
        subject: subject.clone(),
        origin: Some(origin.clone()),
    };
    let mut findings = Vec::new();
    for reason in &judgement.reasons {
        findings.push(finding(rule(reason.topic), Level::Error, &reason.to_string()));
    }
    for warning in &judgement.warnings {
        findings.push(finding(&WARNING, Level::Warning, &warning.to_string()));
    }
    let changes: Vec<String> = changes(judgement)
        .iter()
        .map(|Change { container, field, value, reason }| format!("{container}: {field} {value}, {reason}"))
        .collect();
    if !changes.is_empty() {
        findings.push(finding(&FILLED_IN, Level::Note, &changes.join("; ")));
    }
    findings
}

/// An object is a case, its file the class.
pub fn cases(judged: &[Judged]) -> Vec<Case> {
    judged
        .iter()
        .map(|judged| Case {
            name: judged.judgement.told(),
            group: judged.origin.file.display().to_string(),
            findings: findings_of(judged),
            is_error: judged.judgement.verdict == Verdict::NotJudged,
        })
        .collect()
}
