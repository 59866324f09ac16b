//! The decision: the only place that knows the order of the steps.

mod verdict;

use crate::context::Context;
use crate::json::Malformed;
use crate::request::{PodTemplate, Request};
use crate::settings::{Mode, OnMissingContext, Settings};
use crate::stage::ranges::Range;
use crate::stage::{authored, defaults, estimate, exempt, limits, ranges};
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
    let is_ours = mode != Mode::Off || estimate::is_on(subject, settings);
    if !is_ours || is_being_deleted(request)? {
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
        let is_required = mode == Mode::Enforce && missing.lookup.is_required(settings);
        let is_fatal = is_required && settings.on_missing_context == OnMissingContext::Deny;
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
            if may_change {
                findings.decision.change(filled);
            }
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
    pod = pod.as_the_api_server_completes_it(findings.request);
    authored::mark(&mut pod, context.limit_ranges.is_some().then_some(ranges))?;
    // With `mode: off` the ranges only bound estimates.
    let defaulting = if findings.mode == Mode::Off { &[] } else { ranges };
    let mut estimates = if estimate::is_on(subject, settings) {
        estimate::make(findings.request, &pod, ranges, context, settings)?
    } else {
        estimate::Estimates::default()
    };
    let mut round = 0;
    let filled = loop {
        let mut filled = pod.clone();
        estimates.apply(&mut filled);
        defaults::fill(&mut filled, defaulting);
        if settings.limit_ranges.repair_default_limit {
            defaults::repair(&mut filled, ranges);
        }
        let breaches = if estimates.set_anything() { limits::check_pod(&filled, None, ranges) } else { Vec::new() };
        if !estimates.give_way(&filled, &breaches, round) {
            break filled;
        }
        round += 1;
    };
    findings.tell(&estimates, &pod);
    for found in defaults::limits_below_requests(&filled) {
        findings.decision.warn(found.to_string());
    }
    Ok(filled)
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
    /// Tells every estimate, and what is wrong with the history.
    fn tell(&mut self, estimates: &estimate::Estimates<'d>, pod: &PodTemplate<'d>) {
        let whose = if self.subject == Subject::Workload { "its pods: " } else { "" };
        for told in estimates.told(pod) {
            let text = format!("{whose}{}", told.text);
            if told.is_worth_a_warning {
                self.decision.warn(text.clone());
            }
            self.decision.estimates.push(text);
        }
        for note in &estimates.notes {
            self.decision.warn(format!("{whose}{note}"));
        }
    }

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
