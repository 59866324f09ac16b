//! The decision: the only place that knows the order of the steps.

mod quotas;
pub mod recommend;
mod verdict;

use crate::context::Context;
use crate::context::lookup::Lookup;
use crate::json::Malformed;
use crate::request::workload::{self, Rollout};
use crate::request::{PodTemplate, Request, template};
use crate::settings::{Mode, OnMissingContext, OnQuota, Settings};
use crate::stage::estimate::{self, Estimates};
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
        Subject::Pod | Subject::Deadline | Subject::Resize | Subject::Workload => request.pod()?.cloned(),
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
        let is_fatal = modes.without(&missing.lookup, settings) == Mode::Enforce
            && settings.on_missing_context == OnMissingContext::Deny;
        let violation = Violation::MissingContext(missing.clone());
        if is_fatal {
            findings.decision.violations.push(violation)
        } else {
            findings.decision.warn(violation.to_string())
        }
    }
    let ranges = ranges::applicable(request, pod.as_ref(), context, settings)?;
    let is_defaulted = modes.limits != Mode::Off || (rollout.is_some() && settings.limit_ranges.mode != Mode::Off);
    let filling = Filling { request, context, settings, ranges: &ranges, is_defaulted, is_estimated: modes.estimates };
    let filled = |pod| if is_defaulted || modes.estimates { filling.fill(pod) } else { Ok(Filled::as_it_is(pod)) };
    let mut breaches = None;
    let pod = match pod.map(filled).transpose()? {
        Some(filled) => {
            breaches = filled.breaches;
            let mut pod = filled.pod;
            findings.tell(filled.estimates, &mut pod);
            Some(pod)
        }
        None => None,
    };
    let old_pod = match (subject, request.old()) {
        (Subject::Resize | Subject::Deadline, Some(old)) => PodTemplate::within(old, &[])?,
        (Subject::Workload, Some(old)) if rollout.is_some() => {
            let path = template::path_to_pod(request).unwrap_or_default();
            PodTemplate::within(old, path)?.map(filled).transpose()?.map(|filled| filled.pod)
        }
        _ => None,
    };
    if modes.limits != Mode::Off {
        if let Some(pod) = &pod {
            for found in defaults::limits_below_requests(pod) {
                findings.decision.warn(found.to_string());
            }
            let stored = old_pod.as_ref().filter(|_| subject == Subject::Resize);
            findings.take(breaches.unwrap_or_else(|| limits::check_pod(pod, stored, &ranges)));
        } else if subject == Subject::Claim {
            findings.take(limits::check_claim(object, request.old(), &ranges)?);
        }
    }
    let pods = Pods { new: pod.as_ref(), old: old_pod.as_ref() };
    quotas::judge(&mut findings, object, &pods, rollout.as_ref(), context, settings)?;
    let may_change = match subject {
        Subject::Pod | Subject::Resize => true,
        // Where the ranges are not to be looked at for controllers, their defaults only count the pods for a quota.
        Subject::Workload => settings.mutate_templates && (modes.limits != Mode::Off || !is_defaulted),
        Subject::Deadline | Subject::Scale | Subject::Claim | Subject::ClaimStatus | Subject::Counted => false,
    };
    if let Some(pod) = pod
        && may_change
        && (modes.limits != Mode::Off || modes.estimates)
    {
        findings.decision.change(pod);
    }
    Ok(findings.decision)
}

/// All that filling a pod depends on.
struct Filling<'a, 'd> {
    request: &'a Request<'d>,
    context: &'a Context<'d>,
    settings: &'a Settings<'d>,
    ranges: &'a [Range<'a, 'd>],
    /// Where not, the ranges only bound estimates.
    is_defaulted: bool,
    is_estimated: bool,
}

/// A pod with everything in it that its author left out.
struct Filled<'d> {
    pod: PodTemplate<'d>,
    /// What of that is estimated.
    estimates: Estimates<'d>,
    /// What of the ranges the pod breaks, where that had to be found out for the sake of its estimates.
    breaches: Option<Vec<limits::Breach<'d>>>,
}

impl<'d> Filled<'d> {
    fn as_it_is(pod: PodTemplate<'d>) -> Self {
        Self { pod, estimates: Estimates::default(), breaches: None }
    }
}

impl<'d> Filling<'_, 'd> {
    /// Fills the pod as history, the API server and the ranges would.
    fn fill(&self, pod: PodTemplate<'d>) -> Result<Filled<'d>, Malformed> {
        let Self { request, context, settings, ranges, .. } = *self;
        let mut pod = authored::marked(pod, request, context.limit_ranges.is_some().then_some(ranges))?;
        let mut estimates = Estimates::default();
        if self.is_estimated {
            estimates = estimate::make(request, &pod, ranges, context, settings)?;
        }
        if !estimates.set_anything() {
            estimates.apply(&mut pod);
            self.default(&mut pod);
            return Ok(Filled { pod, estimates, breaches: None });
        }
        // Estimates give way to what the pod as a whole would break, and then it is filled anew.
        let mut round: u8 = 0;
        loop {
            let mut filled = pod.clone();
            estimates.apply(&mut filled);
            self.default(&mut filled);
            let breaches = limits::check_pod(&filled, None, ranges);
            if !estimates.give_way(&filled, &breaches, round)
                && !self.give_way_to_quota(&mut estimates, &filled, round)?
            {
                return Ok(Filled { pod: filled, estimates, breaches: Some(breaches) });
            }
            // It ends, because each round but the first few takes estimates away.
            round = round.saturating_add(1);
        }
    }

    fn default(&self, pod: &mut PodTemplate<'d>) {
        if self.is_defaulted {
            defaults::fill(pod, self.ranges);
        }
        if self.settings.limit_ranges.repair_default_limit {
            defaults::repair(pod, self.ranges);
        }
    }

    fn give_way_to_quota(
        &self,
        estimates: &mut Estimates<'d>,
        filled: &PodTemplate<'d>,
        round: u8,
    ) -> Result<bool, Malformed> {
        let Self { request, context, settings, .. } = *self;
        let is_new_pod = request.is("", "pods", "");
        if settings.estimates.on_quota == OnQuota::Keep || !is_new_pod || !estimate::may_shrink(round) {
            return Ok(false);
        }
        let free = quotas::free_for(request, filled, context, settings)?;
        Ok(estimates.give_way_to_quota(filled, &free, &settings.estimates.floor))
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
    /// Nothing breaks an estimate, but one may be all there is to do.
    estimates: bool,
}

impl Modes {
    fn of(
        subject: Subject,
        request: &Request<'_>,
        rollout: Option<&Rollout>,
        settings: &Settings<'_>,
    ) -> Result<Self, Malformed> {
        let limits = subject.mode(&settings.limit_ranges);
        let estimates = estimate::is_on(subject, settings);
        let is_let_go = (limits != Mode::Off || estimates) && is_being_deleted(request)?;
        Ok(Self {
            limits: if is_let_go { Mode::Off } else { limits },
            quotas: subject.quota_mode(request, &settings.quotas),
            pods: rollout.map_or(Mode::Off, |_| subject.pods_quota_mode(&settings.quotas)),
            estimates: estimates && !is_let_go,
        })
    }

    fn are_off(self) -> bool {
        !self.estimates && [self.limits, self.quotas, self.pods].iter().all(|mode| *mode == Mode::Off)
    }

    /// What is done when the answer to a lookup is missing: as much as for a breach of what it serves.
    fn without(self, lookup: &Lookup<'_>, settings: &Settings<'_>) -> Mode {
        let serves = match lookup {
            Lookup::LimitRanges { .. } if self.limits != Mode::Off => vec![self.limits],
            Lookup::LimitRanges { .. } | Lookup::Scaled { .. } => vec![self.pods],
            Lookup::Quotas { .. } => vec![self.quotas, self.pods],
            // What the list said of it stands.
            Lookup::FreshQuota { .. } => Vec::new(),
            Lookup::Namespace { .. } if settings.selects_by_namespace_labels() => {
                vec![self.limits, self.quotas, self.pods]
            }
            // Nobody is refused for want of an estimate.
            Lookup::Namespace { .. } | Lookup::Autoscalers { .. } | Lookup::UsageProfile { .. } => Vec::new(),
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
    fn tell(&mut self, estimates: Estimates<'d>, pod: &mut PodTemplate<'d>) {
        let whose = if self.subject == Subject::Workload { "its pods: " } else { "" };
        for told in estimates.tell(whose, pod) {
            if told.is_worth_a_warning {
                self.decision.warn(told.text.clone());
            }
            self.decision.estimates.push(told);
        }
        for note in estimates.notes {
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
