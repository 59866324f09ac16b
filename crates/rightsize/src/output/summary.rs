//! Recommendations as a snapshot carries them to the page, which has no engine for them: a line for each container and
//! resource, with amounts as people write them and as numbers to draw.

use std::ops::Not;

use headroom_core::amount::Quantity;
use headroom_kube::shell::quoted;
use serde::{Serialize, Serializer};

use crate::advice::quota_effect::QuotaEffect;
use crate::advice::risk::Risk;
use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Severity, Workload};
use crate::history::distribution::thousandths;
use crate::history::timeline::Timeline;
use crate::report::price::Money;
use crate::report::{Recommendations, Total};
use crate::write::patches::{Patch, RecommendedChange};

/// A report in short.
#[derive(Debug)]
pub struct RecommendationSummary(Recommendations);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Short<'r, Lines, Workloads> {
    /// Risks, and containers without usage data; empty if there are none.
    headline: String,
    /// The context of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'r str>,
    /// The source of usage.
    source: String,
    /// The cost of the requests and how it would change, at which prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    money: Option<String>,
    total: &'r Total,
    /// Lines for the first recommendations that would be blocked, in the order in which they were tried.
    blocked: Vec<String>,
    /// As in the report, the worst first.
    risks: &'r [Risk],
    lines: Lines,
    workloads: Workloads,
    quotas: &'r [QuotaEffect],
    notes: Vec<String>,
    /// A line for each flag that some container has.
    flags_explained: Vec<String>,
}

/// The items of a list, which are made while they are written: those of a large cluster take hundreds of megabytes.
struct Each<Items>(Items);

impl<Items: Fn() -> Made, Made: Iterator<Item: Serialize>> Serialize for Each<Items> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// The most recommendations that would be blocked and are listed; each workload names its own.
const MAX_BLOCKED: usize = 20;

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
    #[serde(skip_serializing_if = "Not::not")]
    is_init: bool,
    resource: &'static str,
    /// That of the container, on each of its lines.
    severity: Severity,
    request: Option<AmountText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<AmountText>,
    recommended: Option<AmountText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended_limit: Option<AmountText>,
    /// The typical request of the image, if neither usage nor the author sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    typical: Option<AmountText>,
    evidence: Option<String>,
    #[serde(skip_serializing_if = "Not::not")]
    too_brief: bool,
    /// `oom 3`, `hpa`: of the container, on each of its lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flags: Vec<String>,
    /// The change of the request, with its sign.
    change: String,
    /// The observed usage, in rising order.
    usage: Vec<PercentileValue>,
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
struct AmountText {
    text: String,
    /// In thousandths.
    value: u64,
}

#[derive(Debug, Serialize)]
struct PercentileValue {
    /// `p95`
    at: &'static str,
    /// In thousandths.
    value: u64,
}

const DRAWN: [&str; 5] = ["p50", "p90", "p95", "p99", "peak"];

/// None if nothing runs.
pub fn of(report: Recommendations) -> Option<RecommendationSummary> {
    let is_of_something = report.containers().any(|(_, container)| !container.resources.is_empty());
    is_of_something.then_some(RecommendationSummary(report))
}

impl Serialize for RecommendationSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report) = self;
        let cluster = report.cluster.as_deref();
        let mut blocked = report.blocked();
        blocked.truncate(MAX_BLOCKED);
        let short = Short {
            headline: report.headline(),
            cluster,
            source: report.source.to_string(),
            money: report.money(),
            total: &report.total,
            blocked,
            risks: &report.risks,
            lines: Each(|| report.containers().flat_map(|(of, container)| Line::all(report, of, container))),
            workloads: Each(|| report.workloads.iter().map(|of| OfWorkload::of(of, cluster))),
            quotas: &report.quotas,
            notes: report.all_notes(),
            flags_explained: report.flags_explained(),
        };
        short.serialize(serializer)
    }
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

impl RecommendationSummary {
    /// Yields the request and the recommendation of each container, named as `shop/deployment/web/nginx`, and resource.
    pub fn requests(&self) -> impl Iterator<Item = (String, &'static str, [Option<String>; 2])> {
        self.0.containers().flat_map(|(of, container)| Line::all(&self.0, of, container)).map(|line| {
            let Line { namespace, object, container, resource, request, recommended, .. } = line;
            let pair = [request, recommended].map(|amount| amount.map(|amount| amount.text));
            (format!("{namespace}/{object}/{container}"), resource, pair)
        })
    }
}

impl Line {
    /// The lines of a container, one for each resource.
    fn all(report: &Recommendations, workload: &Workload, container: &ContainerAdvice) -> Vec<Self> {
        let of = |advice| Self::of(workload, container, advice);
        let mut lines: Vec<Self> = container.resources.iter().map(of).collect();
        if let Some(first) = lines.first_mut() {
            (first.course, first.saved_a_month) = (container.timeline.clone(), report.money_of(workload, container));
        }
        lines
    }

    fn of(workload: &Workload, container: &ContainerAdvice, advice: &ResourceAdvice) -> Self {
        let amount = |amount: &Quantity| AmountText::new(amount.to_string(), amount);
        let levels = advice.used.iter().flat_map(|used| used.at(&DRAWN));
        Self {
            namespace: workload.key.namespace.clone(),
            object: workload.key.to_string(),
            pods: workload.pods,
            container: container.name.clone(),
            is_init: container.is_init,
            resource: advice.resource.name(),
            severity: container.severity,
            request: advice.request.as_ref().map(|request| AmountText::new(request.to_string(), &request.value)),
            limit: advice.limit.as_ref().map(amount),
            recommended: advice.recommended.as_ref().map(amount),
            recommended_limit: advice.recommended_limit.as_ref().map(amount),
            typical: advice.typical.as_ref().map(amount),
            evidence: container.evidence.as_ref().map(ToString::to_string),
            too_brief: container.is_too_brief(),
            flags: container.flags.iter().map(ToString::to_string).collect(),
            change: advice.change.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            usage: levels.map(|(at, value)| PercentileValue { at, value }).collect(),
            source: advice.explained(),
            course: None,
            saved_a_month: None,
        }
    }
}

impl AmountText {
    fn new(text: String, amount: &Quantity) -> Self {
        Self { text, value: thousandths(amount) }
    }
}
