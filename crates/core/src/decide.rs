//! The decision: the only place that knows the order of the steps.

mod verdict;

use crate::context::Context;
use crate::json::Malformed;
use crate::request::{PodTemplate, Request};
use crate::settings::{Mode, OnMissingContext, Settings};
use crate::stage::ranges::Range;
use crate::stage::{authored, defaults, exempt, limits, ranges};
use crate::subject::Subject;

pub use verdict::{Decision, Violation};

/// Judges a request.
pub fn decide<'d>(request: &Request<'d>, context: &Context<'d>, settings: &Settings<'d>) -> Decision<'d> {
    let Some(subject) = Subject::of(request) else { return Decision::out_of_scope() };
    judge(subject, request, context, settings)
        .unwrap_or_else(|malformed| Decision::refusing(vec![Violation::Unreadable(malformed)]))
}

fn judge<'d>(
    subject: Subject,
    request: &Request<'d>,
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Decision<'d>, Malformed> {
    let mode = subject.mode(&settings.limit_ranges);
    if mode == Mode::Off || is_being_deleted(request)? {
        return Ok(Decision::out_of_scope());
    }
    let pod = match subject {
        Subject::Claim => None,
        Subject::Pod | Subject::Resize | Subject::Workload => PodTemplate::locate(request)?,
    };
    if exempt::is_exempt(request, pod.as_ref(), context, settings)? {
        return Ok(Decision::out_of_scope());
    }
    let mut findings = Findings { subject, mode, request, decision: Decision::admitting() };
    for missing in &context.missing {
        let is_fatal = mode == Mode::Enforce && settings.on_missing_context == OnMissingContext::Deny;
        let violation = Violation::MissingContext(missing.clone());
        if is_fatal {
            findings.decision.violations.push(violation)
        } else {
            findings.decision.warn(violation.to_string())
        }
    }
    let ranges = ranges::applicable(request, pod.as_ref(), context, settings)?;
    match (pod, request.object) {
        (Some(pod), _) => {
            let filled = fill(subject, pod, &ranges, context, settings, &mut findings)?;
            let stored = match (subject, request.old()) {
                (Subject::Resize, Some(old)) => PodTemplate::within(old, &[])?,
                _ => None,
            };
            findings.take(limits::check_pod(&filled, stored.as_ref(), &ranges));
            let may_change = subject != Subject::Workload || settings.mutate_templates;
            findings.decision.pod = may_change.then_some(filled);
        }
        (None, Some(claim)) if subject == Subject::Claim => {
            findings.take(limits::check_claim(claim, request.old(), &ranges)?);
        }
        (None, Some(_)) => {}
        (None, None) => return Err(Malformed { path: "object".to_owned(), problem: "is missing".to_owned() }),
    }
    Ok(findings.decision)
}

/// Fills the pod as the API server and the ranges would.
fn fill<'d>(
    subject: Subject,
    mut pod: PodTemplate<'d>,
    ranges: &[Range<'_, 'd>],
    context: &Context<'d>,
    settings: &Settings<'d>,
    findings: &mut Findings<'_, 'd>,
) -> Result<PodTemplate<'d>, Malformed> {
    if subject == Subject::Workload {
        pod.copy_limits_to_requests();
    }
    authored::mark(&mut pod, context.limit_ranges.is_some().then_some(ranges))?;
    defaults::fill(&mut pod, ranges);
    if settings.limit_ranges.repair_default_limit {
        defaults::repair(&mut pod, ranges);
    }
    for found in defaults::limits_below_requests(&pod) {
        findings.decision.warn(found.to_string());
    }
    Ok(pod)
}

/// An object whose old version is marked for deletion is let go.
fn is_being_deleted(request: &Request<'_>) -> Result<bool, Malformed> {
    match request.old() {
        Some(old) => Ok(old.at(&["metadata", "deletionTimestamp"])?.is_some()),
        None => Ok(false),
    }
}

/// What the steps find, on its way into the decision.
struct Findings<'r, 'd> {
    subject: Subject,
    mode: Mode,
    request: &'r Request<'d>,
    decision: Decision<'d>,
}

impl<'d> Findings<'_, 'd> {
    fn take(&mut self, breaches: Vec<limits::Breach<'d>>) {
        if breaches.is_empty() {
            return;
        }
        let is_workload = self.subject == Subject::Workload;
        match self.mode {
            Mode::Enforce => self.decision.violations.push(Violation::Limits {
                resource: self.request.qualified_resource(),
                name: self.request.name.to_string(),
                is_workload,
                breaches,
            }),
            Mode::Warn => {
                for (text, advice) in verdict::told_apart(&breaches) {
                    let whose = if is_workload { "its pods would be refused" } else { "would be refused" };
                    self.decision.warn(format!("{whose}: {text}; {advice}"));
                }
            }
            Mode::Off => {}
        }
    }
}
