//! The decision: the only place that knows the order of the steps.

mod quotas;
pub mod recommend;
mod verdict;

use crate::context::Context;
use crate::context::lookup::Lookup;
use crate::json::Malformed;
use crate::request::workload::{self, Rollout};
use crate::request::{PodTemplate, Request, template};
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
    let rollout = match subject.pods_quota_mode(&settings.quotas) {
        Mode::Enforce | Mode::Warn if !request.is_audit()? => workload::rollout(request)?,
        _ => None,
    };
    let makes_estimates = estimate::is_on(subject, settings) && !is_being_deleted(request)?;
    let modes = Modes::of(subject, request, rollout.as_ref(), settings)?;
    if modes.are_off() && !makes_estimates {
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
        let is_fatal = missing.lookup.is_required(settings)
            && modes.without(&missing.lookup) == Mode::Enforce
            && settings.on_missing_context == OnMissingContext::Deny;
        let violation = Violation::MissingContext(missing.clone());
        if is_fatal {
            findings.decision.violations.push(violation)
        } else {
            findings.decision.warn(violation.to_string())
        }
    }
    let ranges = ranges::applicable(request, pod.as_ref(), context, settings)?;
    let is_filled =
        makes_estimates || modes.limits != Mode::Off || (rollout.is_some() && settings.limit_ranges.mode != Mode::Off);
    let fill = |pod| match is_filled {
        true => fill(subject, request, pod, &ranges, context, settings),
        false => Ok(Filled::without_estimates(pod)),
    };
    let pod = match pod.map(fill).transpose()? {
        Some(Filled { pod, estimated }) => {
            if let Some((estimates, as_written)) = estimated {
                findings.tell(&estimates, &as_written);
            }
            Some(pod)
        }
        None => None,
    };
    let old_pod = match (subject, request.old()) {
        (Subject::Resize | Subject::Deadline, Some(old)) => PodTemplate::within(old, &[])?,
        (Subject::Workload, Some(old)) if rollout.is_some() => {
            let path = template::path_to_pod(request).unwrap_or_default();
            PodTemplate::within(old, path)?.map(fill).transpose()?.map(|filled| filled.pod)
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
        && is_filled
    {
        findings.decision.change(pod);
    }
    Ok(findings.decision)
}

/// A pod with everything filled in that is to be.
struct Filled<'d> {
    pod: PodTemplate<'d>,
    /// What was estimated, if that was tried, and the pod before us, marked with who spoke each value.
    estimated: Option<(estimate::Estimates<'d>, PodTemplate<'d>)>,
}

impl<'d> Filled<'d> {
    fn without_estimates(pod: PodTemplate<'d>) -> Self {
        Self { pod, estimated: None }
    }
}

/// Fills the pod as the API server, its history and the ranges would.
fn fill<'d>(
    subject: Subject,
    request: &Request<'d>,
    mut pod: PodTemplate<'d>,
    ranges: &[Range<'_, 'd>],
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Filled<'d>, Malformed> {
    pod = pod.as_the_api_server_completes_it(request);
    authored::mark(&mut pod, context.limit_ranges.is_some().then_some(ranges))?;
    // With `mode: off` the ranges only bound estimates.
    let defaulting = if settings.limit_ranges.mode == Mode::Off { &[] } else { ranges };
    let default = |pod: &mut PodTemplate<'d>| {
        defaults::fill(pod, defaulting);
        if settings.limit_ranges.repair_default_limit {
            defaults::repair(pod, ranges);
        }
    };
    if !estimate::is_on(subject, settings) {
        default(&mut pod);
        return Ok(Filled::without_estimates(pod));
    }
    let mut estimates = estimate::make(request, &pod, ranges, context, settings)?;
    let mut round = 0;
    loop {
        let mut filled = pod.clone();
        estimates.apply(&mut filled);
        default(&mut filled);
        let breaches = if estimates.set_anything() { limits::check_pod(&filled, None, ranges) } else { Vec::new() };
        if !estimates.give_way(&filled, &breaches, round) {
            return Ok(Filled { pod: filled, estimated: Some((estimates, pod)) });
        }
        round += 1;
    }
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
            Lookup::Autoscalers { .. } | Lookup::UsageProfile { .. } => Vec::new(),
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
