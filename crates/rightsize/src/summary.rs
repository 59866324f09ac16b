//! Recommendations as a snapshot carries them to the page, which has no engine for them: a line for each container and
//! resource, with amounts as people write them and as numbers to draw.

use headroom_core::amount::Quantity;
use serde::Serialize;

use super::distribution::thousandths;
use super::quota_effect::QuotaEffect;
use super::report::{Report, Total};
use super::risk::Risk;
use super::rows::Row;
use super::timeline::Timeline;
use super::workload::ResourceAdvice;

/// A report in short, which owns what it says: the report itself is several times as large.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Risks, and containers without usage data; empty if there are none.
    headline: String,
    /// The source of usage.
    source: String,
    total: Total,
    /// As in the report.
    risks: Vec<Risk>,
    lines: Vec<Line>,
    quotas: Vec<QuotaEffect>,
    notes: Vec<String>,
    /// A line for each flag that some container has.
    flags_explained: Vec<String>,
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
                ..Line::of(&row, advice)
            })
            .collect::<Vec<_>>()
    };
    let lines: Vec<Line> = report.rows().flat_map(lines).collect();
    let is_of_something = !lines.is_empty();
    is_of_something.then(|| Summary {
        headline: report.headline(),
        source: report.source.to_string(),
        notes: report.all_notes(),
        flags_explained: report.flags_explained(),
        total: report.total,
        risks: report.risks,
        lines,
        quotas: report.quotas,
    })
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
        }
    }
}

impl Amount {
    fn new(text: String, amount: &Quantity) -> Self {
        Self { text, value: thousandths(amount) }
    }
}
