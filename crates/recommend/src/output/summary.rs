//! Recommendations as a snapshot carries them to the page, which has no engine for them: a line for each container and
//! resource, with amounts as people write them and as numbers to draw. `playground/site/src/types.ts` says what each field is.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use headroom_admission::truncate::count_of;
use headroom_api_server::shell::ShellCommand;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Severity, Workload};
use crate::history::distribution::thousandths;
use crate::report::Recommendations;
use crate::write::patches::{Patch, RecommendedChange};

/// A report in short, of a report that is kept or borrowed.
#[derive(Debug, Clone)]
pub struct RecommendationSummary<R = Recommendations>(pub R);

/// The items of a list, which are made while they are written: those of a large cluster take hundreds of megabytes.
struct Each<Items>(Items);

impl<Items: Fn() -> Made, Made: Iterator<Item: Serialize>> Serialize for Each<Items> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// The most recommendations that would be blocked and are listed; each workload names its own.
const MAX_BLOCKED: usize = 20;

const DRAWN: [&str; 5] = ["p50", "p90", "p95", "p99", "peak"];

/// None if nothing runs.
pub fn of(report: Recommendations) -> Option<RecommendationSummary> {
    let is_of_something = report.containers().any(|(_, container)| !container.resources.is_empty());
    is_of_something.then_some(RecommendationSummary(report))
}

impl<R: Borrow<Recommendations>> Serialize for RecommendationSummary<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0.borrow();
        let cluster = report.cluster.as_deref();
        let mut blocked = report.blocked();
        blocked.truncate(MAX_BLOCKED);
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("headline", &report.headline())?;
        if cluster.is_some() {
            fields.serialize_entry("cluster", &cluster)?;
        }
        fields.serialize_entry("source", &report.source.to_string())?;
        if let Some(money) = report.money() {
            fields.serialize_entry("money", &money)?;
        }
        fields.serialize_entry("total", &report.total)?;
        fields.serialize_entry("blocked", &blocked)?;
        fields.serialize_entry("risks", &report.risks)?;
        let lines = || report.workloads.iter().flat_map(|of| lines_of(report, of));
        fields.serialize_entry("lines", &Each(lines))?;
        fields.serialize_entry("workloads", &Each(|| report.workloads.iter().map(|of| workload(of, cluster))))?;
        fields.serialize_entry("quotas", &report.quotas)?;
        let untried = report.workloads.iter().filter(|of| of.is_untried).count() as u64;
        let untried = (untried > 0)
            .then(|| format!("recommendations for {} are not tried yet, and in no sum", count_of(untried, "workload")));
        let notes = || untried.iter().cloned().chain(report.all_notes()).collect::<Vec<_>>();
        fields.serialize_entry("notes", &notes())?;
        fields.serialize_entry("flagsExplained", &report.flags_explained())?;
        fields.end()
    }
}

impl RecommendationSummary {
    /// Yields the request and the recommendation of each container, named as `shop/deployment/web/nginx`, and resource.
    pub fn requests(&self) -> impl Iterator<Item = (String, BTreeMap<&'static str, [Option<String>; 2]>)> {
        self.0.containers().map(|(of, container)| {
            let pairs = container.resources.iter().map(|advice| {
                let pair = [
                    advice.request.as_ref().map(ToString::to_string),
                    advice.recommended.as_ref().map(ToString::to_string),
                ];
                (advice.resource.name(), pair)
            });
            (format!("{}/{}/{}", of.key.namespace, of.key, container.name), pairs.collect())
        })
    }
}

/// The rows of a namespace alone.
pub fn rows(RecommendationSummary(report): &RecommendationSummary, namespace: &str) -> Value {
    let of = || report.workloads.iter().filter(|of| of.key.namespace == namespace);
    let each = |of| lines_of(report, of);
    let workloads = of().map(|of| workload(of, report.cluster.as_deref()));
    json!({"lines": of().flat_map(each).collect::<Vec<_>>(), "workloads": workloads.collect::<Vec<_>>()})
}

/// The lines of a workload, one for each container and resource. The course of a container's usage and its money are on its first.
fn lines_of<'r>(report: &'r Recommendations, of: &'r Workload) -> impl Iterator<Item = Value> + 'r {
    of.containers.iter().flat_map(move |container| {
        let mut lines: Vec<Value> = container.resources.iter().map(|advice| line(of, container, advice)).collect();
        if let Some(Value::Object(first)) = lines.first_mut() {
            first.extend(container.timeline.iter().map(|course| ("course".to_owned(), json!(course))));
            first.extend(report.money_of(of, container).map(|money| ("savedAMonth".to_owned(), json!(money))));
        }
        lines
    })
}

/// A workload with the patches that are handed out for it, in the order in which they are applied.
fn workload(of: &Workload, context: Option<&str>) -> Value {
    let kubectl = ShellCommand::of("kubectl").words(context.into_iter().flat_map(|context| ["--context", context]));
    let change = RecommendedChange::from(of);
    let is_handed_out = of.is_handed_out() && !change.containers.is_empty();
    let patches = if is_handed_out { change.patches() } else { Vec::new() };
    let patch = |patch: &Patch| {
        json!({
            "object": format!("{}/{}", patch.kind.kind.to_lowercase(), patch.name),
            "type": if patch.is_json() { "json" } else { "strategic" },
            "text": patch.text(),
            "command": patch.command(kubectl.clone(), &patch.body),
        })
    };
    filled(json!({
        "namespace": of.key.namespace,
        "object": of.key.to_string(),
        "severity": of.containers.iter().map(|of| of.severity).min().unwrap_or(Severity::Unknown),
        "qosClass": of.qos,
        "qosClassAfter": of.qos_after,
        "managedBy": of.managed_by,
        "decidedBy": of.decided_by,
        "autoscalers": of.autoscalers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "notes": of.notes,
        "blocked": of.blocked.as_ref().map(ToString::to_string),
        "unpatched": of.why_unpatched(),
        "patches": patches.iter().map(patch).collect::<Vec<_>>(),
    }))
}

fn line(of: &Workload, container: &ContainerAdvice, advice: &ResourceAdvice) -> Value {
    let shown = |text: String, amount: &Quantity| json!({"text": text, "value": thousandths(amount)});
    let amount = |amount: &Option<Quantity>| amount.as_ref().map(|amount| shown(amount.to_string(), amount));
    let levels = advice.used.iter().flat_map(|used| used.at(&DRAWN));
    filled(json!({
        "namespace": of.key.namespace,
        "object": of.key.to_string(),
        "pods": of.pods,
        "container": container.name,
        "isInit": container.is_init,
        "resource": advice.resource.name(),
        "severity": container.severity,
        "request": advice.request.as_ref().map(|request| shown(request.to_string(), &request.value)),
        "limit": amount(&advice.limit),
        "recommended": amount(&advice.recommended),
        "recommendedLimit": amount(&advice.recommended_limit),
        "typical": amount(&advice.typical),
        "evidence": container.evidence.as_ref().map(ToString::to_string),
        "saved": of.saved_by(container, advice.resource).map(|saved| saved.milli_value()),
        "tooBrief": container.is_too_brief(),
        "flags": container.flags.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "change": advice.change.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        "usage": levels.map(|(at, value)| json!({"at": at, "value": value})).collect::<Vec<_>>(),
        "source": advice.explained(),
    }))
}

/// The same without what is not known, not true or empty; the page draws usage, if there is some.
fn filled(mut object: Value) -> Value {
    let is_empty = |value: &Value| value.is_null() || *value == false || value.as_array().is_some_and(Vec::is_empty);
    if let Value::Object(fields) = &mut object {
        fields.retain(|name, value| name == "usage" || !is_empty(value));
    }
    object
}
