//! Recommendations as a snapshot carries them to the page, which has no engine for them: a line for each container and
//! resource, with amounts as people write them and as numbers to draw.

use headroom_core::amount::Quantity;
use headroom_kube::shell::quoted;
use serde::Serialize;

use super::distribution::thousandths;
use super::patches::{Patch, RecommendedChange};
use super::price::Money;
use super::quota_effect::QuotaEffect;
use super::report::{Report, Total};
use super::risk::Risk;
use super::rows::Row;
use super::timeline::Timeline;
use super::workload::{ResourceAdvice, Severity, Workload};

/// A report in short, which owns what it says: the report itself is several times as large.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Risks, and containers without usage data; empty if there are none.
    headline: String,
    /// The context of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// The source of usage.
    source: String,
    /// The cost of the requests and how it would change, at which prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    money: Option<String>,
    total: Total,
    /// A line for each recommendation that would be blocked, in the order in which they were tried.
    blocked: Vec<String>,
    /// As in the report, the worst first.
    risks: Vec<Risk>,
    lines: Vec<Line>,
    workloads: Vec<OfWorkload>,
    quotas: Vec<QuotaEffect>,
    notes: Vec<String>,
    /// A line for each flag that some container has.
    flags_explained: Vec<String>,
}

/// A workload with the patches that are handed out for it, in the order in which they are applied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OfWorkload {
    namespace: String,
    /// `deployment/web`
    object: String,
    /// That of its worst container.
    severity: Severity,
    qos_class: &'static str,
    qos_class_after: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_by: Option<String>,
    /// A line for each autoscaler that would scale differently; their targets are in the patches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    autoscalers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The reason why there are no patches: the change would be blocked, and what fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<String>,
    /// The reason why it cannot be patched, whatever is recommended.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpatched: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    patches: Vec<OfPatch>,
}

#[derive(Debug, Serialize)]
struct OfPatch {
    /// `horizontalpodautoscaler/web`
    object: String,
    /// `strategic` or `json`, as `kubectl patch --type` has it.
    #[serde(rename = "type")]
    how: &'static str,
    /// The patch as a file: YAML, or JSON.
    text: String,
    /// The command that applies it.
    command: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    namespace: String,
    /// `deployment/web`
    object: String,
    pods: u64,
    container: String,
    is_init: bool,
    resource: &'static str,
    /// That of the container, on each of its lines.
    severity: Severity,
    request: Option<Amount>,
    limit: Option<Amount>,
    recommended: Option<Amount>,
    recommended_limit: Option<Amount>,
    /// The typical request of the image, if neither usage nor the author sets one.
    typical: Option<Amount>,
    evidence: Option<String>,
    too_brief: bool,
    /// `oom 3`, `hpa`: of the container, on each of its lines.
    flags: Vec<String>,
    /// The change of the request, with its sign.
    change: String,
    /// The observed usage, in rising order.
    usage: Vec<Level>,
    /// Explains the recommendation, or why there is none.
    source: String,
    /// The course of the container's usage, on the first of its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    course: Option<Timeline>,
    /// The money that the container saves, on the first of its lines; none without prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_a_month: Option<Money>,
}

#[derive(Debug, Serialize)]
struct Amount {
    text: String,
    /// In thousandths.
    value: u64,
}

#[derive(Debug, Serialize)]
struct Level {
    /// `p95`
    at: &'static str,
    text: String,
    /// In thousandths.
    value: u64,
}

const DRAWN: [&str; 5] = ["p50", "p90", "p95", "p99", "peak"];

/// None if nothing runs.
pub fn of(report: Report) -> Option<Summary> {
    let lines = |row: Row<'_>| {
        row.container
            .resources
            .iter()
            .enumerate()
            .map(|(place, advice)| Line {
                course: row.container.timeline.clone().filter(|_| place == 0),
                saved_a_month: row.money.filter(|_| place == 0),
                ..Line::of(&row, advice)
            })
            .collect::<Vec<_>>()
    };
    let lines: Vec<Line> = report.rows().flat_map(lines).collect();
    let is_of_something = !lines.is_empty();
    is_of_something.then(|| Summary {
        headline: report.headline(),
        cluster: report.cluster.clone(),
        source: report.source.to_string(),
        money: report.money(),
        blocked: report.blocked(),
        workloads: report.workloads.iter().map(|of| OfWorkload::of(of, report.cluster.as_deref())).collect(),
        notes: report.all_notes(),
        flags_explained: report.flags_explained(),
        total: report.total,
        risks: report.risks,
        lines,
        quotas: report.quotas,
    })
}

impl OfWorkload {
    fn of(of: &Workload, context: Option<&str>) -> Self {
        let context = context.map(|context| format!(" --context {}", quoted(context))).unwrap_or_default();
        let kubectl = format!("kubectl{context}");
        let change = RecommendedChange::from(of);
        let is_handed_out = of.blocked.is_none() && !change.containers.is_empty();
        let patches = if is_handed_out { change.patches() } else { Vec::new() };
        Self {
            namespace: of.key.namespace.clone(),
            object: of.key.to_string(),
            severity: of.containers.iter().map(|of| of.severity).min().unwrap_or(Severity::Unknown),
            qos_class: of.qos,
            qos_class_after: of.qos_after,
            managed_by: of.managed_by.clone(),
            autoscalers: of.autoscalers.iter().map(ToString::to_string).collect(),
            notes: of.notes.clone(),
            blocked: of.blocked.as_ref().map(ToString::to_string),
            unpatched: of.why_unpatched(),
            patches: patches.iter().map(|patch| OfPatch::of(patch, &kubectl)).collect(),
        }
    }
}

impl OfPatch {
    fn of(patch: &Patch, kubectl: &str) -> Self {
        Self {
            object: format!("{}/{}", patch.kind.kind.to_lowercase(), patch.name),
            how: if patch.is_json() { "json" } else { "strategic" },
            text: patch.text(),
            command: patch.command(kubectl, &patch.body),
        }
    }
}

impl Summary {
    /// Yields the request and the recommendation of each container, named as `shop/deployment/web/nginx`, and resource.
    pub fn requests(&self) -> impl Iterator<Item = (String, &'static str, [Option<&str>; 2])> {
        self.lines.iter().map(|line| {
            let Line { namespace, object, container, resource, request, recommended, .. } = line;
            let pair = [request, recommended].map(|amount| amount.as_ref().map(|amount| amount.text.as_str()));
            (format!("{namespace}/{object}/{container}"), *resource, pair)
        })
    }
}

impl Line {
    fn of(row: &Row<'_>, advice: &ResourceAdvice) -> Self {
        let (workload, container) = (row.workload, row.container);
        let amount = |amount: &Quantity| Amount::new(amount.to_string(), amount);
        let levels = advice.used.iter().flat_map(|used| used.at(&DRAWN));
        Self {
            namespace: workload.key.namespace.clone(),
            object: workload.key.to_string(),
            pods: workload.pods,
            container: container.name.clone(),
            is_init: container.is_init,
            resource: advice.resource.name(),
            severity: container.severity,
            request: advice.request.as_ref().map(|request| Amount::new(request.to_string(), &request.value)),
            limit: advice.limit.as_ref().map(amount),
            recommended: advice.recommended.as_ref().map(amount),
            recommended_limit: advice.recommended_limit.as_ref().map(amount),
            typical: advice.typical.as_ref().map(amount),
            evidence: container.evidence.as_ref().map(ToString::to_string),
            too_brief: container.is_too_brief(),
            flags: row.flags.iter().map(ToString::to_string).collect(),
            change: advice.change.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            usage: levels.map(|(at, text, value)| Level { at, text, value }).collect(),
            source: advice.explained(),
            course: None,
            saved_a_month: None,
        }
    }
}

impl Amount {
    fn new(text: String, amount: &Quantity) -> Self {
        Self { text, value: thousandths(amount) }
    }
}
