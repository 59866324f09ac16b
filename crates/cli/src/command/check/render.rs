//! Decisions on manifests: as a table, as JSON, as Markdown, as findings and as test cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use headroom_admission::truncate::count_of;
use headroom_dry_run::evaluate::{ObjectDecision, ResourceValue, Verdict};
use headroom_objects::manifest::Origin;
use headroom_objects::shell::ShellCommand;
use headroom_output::junit::Case;
use headroom_output::{Finding, FindingLevel, FindingRule, Page, Paint, Table, markdown_cell};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::command::decision;
use crate::command::manifests::ManifestError;

/// The decision on one object and where its manifest stands.
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
        let reasons = self
            .decision
            .reasons
            .iter()
            .map(|reason| (format!("{}: ", reason.topic), reason.lines.iter().map(String::as_str).collect()));
        let blocking = self.decision.warnings.iter().filter_map(|warning| {
            Some((format!("{}: {}", warning.blocks_pods?, warning.about), vec![warning.text.as_str()]))
        });
        reasons.chain(blocking)
    }

    /// Warnings that block nothing.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        let warnings = self.decision.warnings.iter().filter(|warning| warning.blocks_pods.is_none());
        warnings.map(|warning| (warning.about.as_str(), warning.text.as_str()))
    }
}

static REJECTED: FindingRule = FindingRule {
    id: "rejected",
    title: "rejected",
    help: "A LimitRange or a ResourceQuota of the namespace, or the policy, rejects the object.",
};
static PODS_BLOCKED: FindingRule = FindingRule {
    id: "pods-blocked",
    title: "pods blocked",
    help: "The object is stored, but a LimitRange or a ResourceQuota rejects some or all of the pods that it creates.",
};
static INVALID: FindingRule = FindingRule {
    id: "invalid",
    title: "invalid object",
    help: "The API server's validation does not accept the object.",
};
static ERROR: FindingRule = FindingRule {
    id: "error",
    title: "not evaluated",
    help: "The document, or something of the cluster that the decision needs, cannot be read.",
};
static WARNING: FindingRule = FindingRule {
    id: "warning",
    title: "policy warning",
    help: "The object is admitted, and kubectl apply shows this warning.",
};
static CHANGED: FindingRule = FindingRule {
    id: "changed",
    title: "values set at admission",
    help: "The object does not set requests or limits that the policy fills in.",
};

/// All rules that findings may name: one for each verdict that has something to say, and warnings.
pub static RULES: [&FindingRule; 6] = [&REJECTED, &PODS_BLOCKED, &INVALID, &ERROR, &WARNING, &CHANGED];

/// The JSON and YAML output.
#[derive(Debug, Serialize)]
pub struct CheckReport<'e> {
    summary: CheckSummary<'e>,
    objects: &'e [CheckedObject],
}

pub fn report(entries: &[CheckedObject]) -> CheckReport<'_> {
    CheckReport { summary: CheckSummary(entries), objects: entries }
}

/// The verdicts, the worst first, as they are counted for programs and for people.
const COUNTED: [(Verdict, &str, &str); 7] = [
    (Verdict::Error, "errors", "not evaluated"),
    (Verdict::Invalid, "invalid", "invalid"),
    (Verdict::Rejected, "rejected", "rejected"),
    (Verdict::PodsBlocked, "podsBlocked", "with pods blocked"),
    (Verdict::Changed, "changed", "changed"),
    (Verdict::Admitted, "admitted", "admitted"),
    (Verdict::NotChecked, "notChecked", "not checked"),
];

#[derive(Debug)]
struct CheckSummary<'e>(&'e [CheckedObject]);

impl CheckSummary<'_> {
    fn count(&self, verdict: Verdict) -> usize {
        self.0.iter().filter(|entry| entry.decision.verdict == verdict).count()
    }

    /// Objects with warnings, whatever the verdict.
    fn warned(&self) -> usize {
        self.0.iter().filter(|entry| entry.warnings().next().is_some()).count()
    }
}

impl Serialize for CheckSummary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = COUNTED.map(|(verdict, field, _)| (field, self.count(verdict)));
        let objects = [("objects", self.0.len())].into_iter();
        serializer.collect_map(objects.chain(counts).chain([("warned", self.warned())]))
    }
}

/// `3 objects: 2 rejected, 1 admitted; 1 with warnings`
impl fmt::Display for CheckSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = COUNTED.iter().map(|(verdict, _, name)| (self.count(*verdict), name));
        let counts = counts.filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
        write!(f, "{}: {}", count_of(self.0.len() as u64, "object"), counts.collect::<Vec<_>>().join(", "))?;
        let warned = self.warned();
        if warned > 0 { write!(f, "; {warned} with warnings") } else { Ok(()) }
    }
}

/// `not checked: 2 of 5 objects (ConfigMap, ServiceAccount)`; none if all were.
pub fn not_checked(entries: &[CheckedObject]) -> Option<String> {
    let decisions = entries.iter().map(|entry| &entry.decision);
    let unchecked = decisions.filter(|decision| decision.verdict == Verdict::NotChecked);
    let kinds: Vec<&str> = unchecked.map(|decision| decision.kind.kind.as_str()).collect();
    let names: BTreeSet<&str> = kinds.iter().copied().collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let all = count_of(entries.len() as u64, "object");
    (!kinds.is_empty()).then(|| format!("not checked: {} of {all} ({names})", kinds.len()))
}

/// Entries with the same verdict for the same reasons, the first one in front.
struct ObjectGroup<'e> {
    first: &'e CheckedObject,
    details: Vec<String>,
    others: Vec<&'e CheckedObject>,
}

/// Entries that have something to say are grouped; the others stand alone.
fn groups<'e>(entries: &'e [CheckedObject], details: impl Fn(&CheckedObject) -> Vec<String>) -> Vec<ObjectGroup<'e>> {
    let mut groups: Vec<ObjectGroup<'_>> = Vec::new();
    let mut known: BTreeMap<(Verdict, &str, Vec<String>), usize> = BTreeMap::new();
    for entry in entries {
        let details = details(entry);
        let nameless = |line: &String| {
            let quoted = format!("\"{}\"", entry.decision.name);
            line.replace(&quoted, "\"\"").replace(&format!("/{}", entry.decision.name), "/")
        };
        let key = (entry.decision.verdict, entry.decision.namespace.as_str(), details.iter().map(nameless).collect());
        match known.get(&key).and_then(|index| groups.get_mut(*index)) {
            Some(group) if !details.is_empty() => group.others.push(entry),
            _ => {
                known.insert(key, groups.len());
                groups.push(ObjectGroup { first: entry, details, others: Vec::new() });
            }
        }
    }
    groups
}

impl ObjectGroup<'_> {
    /// The command that explains a rejection or a warning.
    fn why(&self) -> Option<&ShellCommand> {
        let is_explained = self.details.iter().any(|line| line.contains("kubectl headroom why "));
        let ObjectDecision { reasons, warnings, .. } = &self.first.decision;
        self.first.why.as_ref().filter(|_| !(is_explained || reasons.is_empty() && warnings.is_empty()))
    }

    /// `and 2 more for the same reason: pod/b (app.yaml:7), pod/c (app.yaml:13)`
    fn others(&self) -> Option<String> {
        const MAX: usize = 5;
        let named = self.others.iter().take(MAX).map(|entry| format!("{} ({})", entry.decision.object, entry.origin));
        let mut named = named.collect::<Vec<_>>().join(", ");
        if self.others.len() > MAX {
            named.push_str(", …");
        }
        (!self.others.is_empty()).then(|| format!("and {} more for the same reason: {named}", self.others.len()))
    }
}

/// A line an object, with what there is to say below it, and the sum of all.
pub fn page(entries: &[CheckedObject], paint: Paint) -> Page {
    let groups = groups(entries, |entry| details(entry, paint));
    let mut table = Table::new(&["VERDICT", "OBJECT", "NAMESPACE", "FILE"]);
    let mut page = Page::new();
    for group in &groups {
        let CheckedObject { decision, origin, .. } = group.first;
        let ObjectDecision { object, namespace, .. } = decision;
        let place = origin.to_string();
        if let Some(url) = headroom_output::address(origin) {
            page.link(&place, url);
        }
        let verdict = decision::verdict(decision, paint);
        table.row([verdict, object.clone(), namespace.clone(), paint.dim(&paint.link(&place))]);
        let lines = group.details.iter().cloned().chain(group.others());
        lines.chain(group.why().map(|command| format!("$ {command}"))).for_each(|line| table.detail(&line));
    }
    page.table(table);
    writeln!(page, "\n{}", CheckSummary(entries));
    page
}

/// The lines below an object: why it fails, which values are set, and warnings.
fn details(entry: &CheckedObject, paint: Paint) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in entry.against().flat_map(|(_, lines)| lines) {
        // Advice that several reasons share is given once, after the last of them.
        lines.retain(|before| before != line);
        lines.push(line.to_owned());
    }
    lines.extend(changes(entry, paint));
    lines.extend(entry.warnings().map(|(_, text)| format!("{} {text}", paint.yellow("warning:"))));
    lines
}

/// The values that are filled in: `container web: requests.cpu 100m, default of LimitRange limits`.
fn changes(entry: &CheckedObject, paint: Paint) -> impl Iterator<Item = String> {
    entry.decision.changes().map(move |(container, ResourceValue { field, value, reason, .. })| {
        format!("{container}: {field} {}, {reason}", paint.cyan(value.as_deref().unwrap_or_default()))
    })
}

/// The sum, and a table of the objects that have something to say.
pub fn markdown(entries: &[CheckedObject]) -> String {
    let mut text = format!("**{}**\n", CheckSummary(entries));
    let groups = groups(entries, |entry| details(entry, Paint::OFF));
    let mut speaking = groups.iter().filter(|group| !group.details.is_empty()).peekable();
    if speaking.peek().is_some() {
        text.push_str("\n| Verdict | Object | Why |\n| --- | --- | --- |\n");
    }
    for group in speaking {
        let ObjectGroup { first: CheckedObject { decision, origin, .. }, details, .. } = group;
        let ObjectDecision { verdict, object, .. } = decision;
        let lines = details.iter().cloned().chain(group.others()).map(|line| markdown_cell(&line));
        let command = group.why().map(|command| format!("<code>{}</code>", markdown_cell(&command.to_string())));
        let why = lines.chain(command).collect::<Vec<_>>().join("<br>");
        let (object, origin) = (markdown_cell(object), markdown_cell(&origin.to_string()));
        text.push_str(&format!("| {verdict} | {object}<br>{origin} | {why} |\n"));
    }
    match not_checked(entries) {
        Some(note) => format!("{text}\n{}\n", markdown_cell(&note)),
        None => text,
    }
}

pub fn findings(entries: &[CheckedObject]) -> Vec<Finding> {
    entries.iter().flat_map(findings_of).collect()
}

fn findings_of(entry: &CheckedObject) -> Vec<Finding> {
    let ObjectDecision { object, namespace, verdict, .. } = &entry.decision;
    let subject = match namespace.as_str() {
        "" => object.clone(),
        namespace => format!("{namespace}/{object}"),
    };
    let finding = |rule, level, about: &str, text: &str| Finding {
        rule,
        level,
        text: text.to_owned(),
        about: about.to_owned(),
        subject: subject.clone(),
        origin: entry.origin.clone(),
    };
    let rule = match verdict {
        Verdict::Rejected => &REJECTED,
        Verdict::PodsBlocked => &PODS_BLOCKED,
        Verdict::Invalid => &INVALID,
        Verdict::Error => &ERROR,
        Verdict::Changed | Verdict::Admitted | Verdict::NotChecked => &WARNING,
    };
    let against = entry.against();
    let mut findings: Vec<Finding> =
        against.map(|(about, lines)| finding(rule, FindingLevel::Error, &about, &lines.join("; "))).collect();
    findings.extend(entry.warnings().map(|(about, text)| finding(&WARNING, FindingLevel::Warning, about, text)));
    let changes: Vec<String> = changes(entry, Paint::OFF).collect();
    if !changes.is_empty() {
        findings.push(finding(&CHANGED, FindingLevel::Note, "", &changes.join("; ")));
    }
    findings
}

/// An object is a case, its file the class.
pub fn cases(entries: &[CheckedObject]) -> Vec<Case> {
    let case = |entry: &CheckedObject| Case {
        name: entry.decision.object.clone(),
        group: entry.origin.file.display().to_string(),
        findings: findings_of(entry),
        is_error: entry.decision.verdict == Verdict::Error,
        is_skipped: entry.decision.verdict == Verdict::NotChecked,
    };
    entries.iter().map(case).collect()
}
