//! The decision: the only place that knows the order of the steps.

mod quotas;
mod verdict;

use crate::context::Context;
use crate::context::lookup::Lookup;
use crate::json::Malformed;
use crate::request::workload::{self, Rollout};
use crate::request::{PodTemplate, Request, template};
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
    let rollout = match subject.pods_quota_mode(&settings.quotas) {
        Mode::Enforce | Mode::Warn if !request.is_audit()? => workload::rollout(request)?,
        _ => None,
    };
    let modes = Modes::of(subject, request, rollout.as_ref(), settings)?;
    if modes.are_off() {
        return Ok(Decision::out_of_scope());
    }
    let pod = match subject {
        Subject::Pod | Subject::Deadline | Subject::Resize | Subject::Workload => PodTemplate::locate(request)?,
        Subject::Scale => context.scaled.map(workload::template_of).transpose()?.flatten(),
        Subject::Claim | Subject::ClaimStatus | Subject::Counted => None,
    };
    if exempt::is_exempt(request, pod.as_ref(), context, settings)? {
        return Ok(Decision::out_of_scope());
    }
    let Some(object) = request.object else {
        return Err(Malformed { path: "object".to_owned(), problem: "is missing".to_owned() });
    };
    let mut findings = Findings { subject, modes, request, decision: Decision::admitting() };
    for missing in &context.missing {
        let is_fatal =
            modes.without(&missing.lookup) == Mode::Enforce && settings.on_missing_context == OnMissingContext::Deny;
        let violation = Violation::MissingContext(missing.clone());
        if is_fatal {
            findings.decision.violations.push(violation)
        } else {
            findings.decision.warn(violation.to_string())
        }
    }
    let ranges = ranges::applicable(request, pod.as_ref(), context, settings)?;
    let is_filled = modes.limits != Mode::Off || (rollout.is_some() && settings.limit_ranges.mode != Mode::Off);
    let filled = |pod| if is_filled { fill(subject, pod, &ranges, context, settings) } else { Ok(pod) };
    let pod = pod.map(filled).transpose()?;
    let old_pod = match (subject, request.old()) {
        (Subject::Resize | Subject::Deadline, Some(old)) => PodTemplate::within(old, &[])?,
        (Subject::Workload, Some(old)) if rollout.is_some() => {
            let path = template::path_to_pod(request).unwrap_or_default();
            PodTemplate::within(old, path)?.map(filled).transpose()?
        }
        _ => None,
    };
    if modes.limits != Mode::Off {
        if let Some(pod) = &pod {
            for found in defaults::limits_below_requests(pod) {
                findings.decision.warn(found.to_string());
            }
            let stored = old_pod.as_ref().filter(|_| subject == Subject::Resize);
            findings.take(limits::check_pod(pod, stored, &ranges));
        } else if subject == Subject::Claim {
            findings.take(limits::check_claim(object, request.old(), &ranges)?);
        }
    }
    let pods = Pods { new: pod.as_ref(), old: old_pod.as_ref() };
    quotas::judge(&mut findings, object, &pods, rollout.as_ref(), context, settings)?;
    let may_change = match subject {
        Subject::Pod | Subject::Resize => true,
        Subject::Workload => settings.mutate_templates,
        Subject::Deadline | Subject::Scale | Subject::Claim | Subject::ClaimStatus | Subject::Counted => false,
    };
    if let Some(pod) = pod
        && may_change
        && modes.limits != Mode::Off
    {
        findings.decision.change(pod);
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
) -> Result<PodTemplate<'d>, Malformed> {
    if matches!(subject, Subject::Workload | Subject::Scale) {
        pod.copy_limits_to_requests();
    }
    authored::mark(&mut pod, context.limit_ranges.is_some().then_some(ranges))?;
    defaults::fill(&mut pod, ranges);
    if settings.limit_ranges.repair_default_limit {
        defaults::repair(&mut pod, ranges);
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

/// What is done about a breach, by what breaks.
#[derive(Debug, Clone, Copy)]
struct Modes {
    limits: Mode,
    /// Quotas, by the object itself.
    quotas: Mode,
    /// Quotas, by the pods that a workload would bring.
    pods: Mode,
}

impl Modes {
    fn of(
        subject: Subject,
        request: &Request<'_>,
        rollout: Option<&Rollout>,
        settings: &Settings<'_>,
    ) -> Result<Self, Malformed> {
        let limits = subject.mode(&settings.limit_ranges);
        Ok(Self {
            limits: if limits != Mode::Off && is_being_deleted(request)? { Mode::Off } else { limits },
            quotas: subject.quota_mode(request, &settings.quotas),
            pods: rollout.map_or(Mode::Off, |_| subject.pods_quota_mode(&settings.quotas)),
        })
    }

    fn are_off(self) -> bool {
        [self.limits, self.quotas, self.pods].iter().all(|mode| *mode == Mode::Off)
    }

    /// What is done when the answer to a lookup is missing: as much as for a breach of what it serves.
    fn without(self, lookup: &Lookup<'_>) -> Mode {
        let serves = match lookup {
            Lookup::LimitRanges { .. } if self.limits != Mode::Off => vec![self.limits],
            Lookup::LimitRanges { .. } | Lookup::Scaled { .. } => vec![self.pods],
            Lookup::Quotas { .. } => vec![self.quotas, self.pods],
            // What the list said of it stands.
            Lookup::FreshQuota { .. } => Vec::new(),
            Lookup::Namespace { .. } => vec![self.limits, self.quotas, self.pods],
        };
        if serves.contains(&Mode::Enforce) { Mode::Enforce } else { Mode::Warn }
    }
}

/// The pod of a request as it is to be, and as it was, where that matters.
struct Pods<'a, 'd> {
    new: Option<&'a PodTemplate<'d>>,
    old: Option<&'a PodTemplate<'d>>,
}

/// What the steps find, on its way into the decision.
struct Findings<'r, 'd> {
    subject: Subject,
    modes: Modes,
    request: &'r Request<'d>,
    decision: Decision<'d>,
}

impl<'d> Findings<'_, 'd> {
    fn take(&mut self, breaches: Vec<limits::Breach<'d>>) {
        if breaches.is_empty() {
            return;
        }
        let is_workload = self.subject == Subject::Workload;
        match self.modes.limits {
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
