//! Decides once, in one place, which parts of a request are evaluated, by what, and with which consequence, so that what
//! is read always matches what is checked.
//!
//! The [`Actions`] follow from the request and the settings alone, and do not change. A [`Subject`] is what they are about:
//! the pod, the ranges that apply to it, and the estimates to make for it, as far as they are known.

pub mod estimate_targets;
pub mod exempt;
pub mod request_kind;

use crate::annotations::{headroom_annotation, limit_ranger};
use crate::cluster::Context;
use crate::json::Malformed;
use crate::limit_rules::{self, Range};
use crate::request::controllers::Rollout;
use crate::request::rollout;
use crate::request::{Pod, Request};
use crate::settings::{EstimateMode, Mode, Role, Settings, any_matches};

pub use estimate_targets::{EstimateTarget, Purpose};
pub use request_kind::RequestKind;

/// The steps of one request's evaluation, each check with its mode.
#[derive(Debug)]
pub struct Actions {
    pub kind: RequestKind,
    /// The mode for breaches of the ranges.
    pub limits: Mode,
    /// The mode for breaches of a quota by the object itself.
    pub quotas: Mode,
    /// The mode for breaches of a quota by the pods that a workload would create.
    pub pods: Mode,
    /// The rollout of these pods, if there is one.
    pub rollout: Option<Rollout>,
    /// Missing values get the defaults of the ranges.
    pub is_defaulted: bool,
    pub is_estimated: bool,
    /// Filled-in values are also written into the object.
    pub may_change: bool,
    /// Estimates may replace what authors set, where that is asked for. Templates keep what their authors set.
    pub may_replace: bool,
}

impl Actions {
    /// The actions for a request, with the request's pod; none if there is nothing to evaluate.
    pub fn of<'d>(
        request: &'d Request<'d>,
        settings: &Settings<'_>,
    ) -> Result<Option<(Self, Option<Pod<'d>>)>, Malformed> {
        let Some(kind) = RequestKind::of(request)? else { return Ok(None) };
        let is_exempt = exempt::object(request, settings)?;
        if is_exempt && kind != RequestKind::Workload {
            return Ok(None);
        }
        let role = settings.role;
        let evaluates = role != Role::Mutate;
        let is_workload = matches!(kind, RequestKind::Workload | RequestKind::Scale);
        let pods = if is_workload && !request.is_audit { settings.quotas.workload_mode } else { Mode::Off };
        let may_keep_pods = kind == RequestKind::Workload && request.old().is_some();
        let rollout = if pods == Mode::Off && !may_keep_pods { None } else { rollout::rollout(request)? };
        if may_keep_pods && rollout.is_none() && rollout::keeps_template(request)? {
            // Neither the pods that it has nor their number change.
            return Ok(None);
        }
        let has_rollout = rollout.is_some() && pods != Mode::Off;
        let limits = match kind {
            RequestKind::Workload => settings.limit_ranges.workload_mode,
            RequestKind::Pod | RequestKind::Resize | RequestKind::Claim => settings.limit_ranges.mode,
            RequestKind::Deadline | RequestKind::Scale | RequestKind::ClaimStatus | RequestKind::Counted => Mode::Off,
        };
        let mut actions = Self {
            kind,
            limits,
            quotas: if evaluates && !is_exempt && kind.is_counted(request) { settings.quotas.mode } else { Mode::Off },
            pods: if has_rollout { pods } else { Mode::Off },
            rollout: rollout.filter(|_| has_rollout),
            // The API server fills in pods, too, whether this policy checks LimitRanges or not.
            is_defaulted: kind != RequestKind::Claim && limits != Mode::Off || has_rollout,
            is_estimated: kind.makes_pods() && settings.estimates.mode != EstimateMode::Never,
            may_change: false,
            may_replace: false,
        };
        actions.may_change = match kind {
            RequestKind::Pod => role != Role::Validate,
            // With `limitRanges` off for workloads alone, what is filled in serves only to count the pods for a quota.
            RequestKind::Workload => {
                role != Role::Validate
                    && settings.mutate_templates
                    && !is_exempt
                    && (limits != Mode::Off || settings.limit_ranges.mode == Mode::Off || !has_rollout)
                    && rollout::decides_template(request)?
            }
            _ => false,
        };
        let writes_template = kind == RequestKind::Workload && actions.may_change;
        actions.may_replace = !writes_template && settings.estimates.replaces();
        actions.restrict_to(role);
        let is_touched = actions.limits != Mode::Off || actions.is_defaulted || actions.is_estimated;
        if is_touched && request.old().map_or(Ok(false), |old| old.is_being_deleted())? {
            // The resources of an object that is being deleted are no longer checked.
            (actions.limits, actions.is_defaulted, actions.is_estimated) =
                (Mode::Off, has_rollout && actions.is_defaulted, false);
        }
        if actions.is_off() {
            return Ok(None);
        }
        let pod = if kind.is_pod() || kind == RequestKind::Workload { request.pod()? } else { None };
        if let Some(pod) = &pod
            && exempt::pods(request, pod, settings)?
        {
            // The workload itself is counted nevertheless.
            (actions.limits, actions.pods, actions.rollout) = (Mode::Off, Mode::Off, None);
            (actions.is_defaulted, actions.is_estimated, actions.may_change) = (false, false, false);
            return Ok((kind == RequestKind::Workload && !actions.is_off()).then_some((actions, None)));
        }
        // If the pod cannot use an estimate, nothing is read for one. If the ranges are read anyway, this is decided
        // later, when they are known.
        if actions.is_estimated
            && (actions.limits == Mode::Off && !actions.is_defaulted || settings.estimates.shrink_to_quota)
        {
            // The pod of a scale is not known yet.
            let unknown = Ok(kind == RequestKind::Scale);
            actions.is_estimated =
                pod.as_ref().map_or(unknown, |pod| estimate_targets::is_possible(pod, &settings.estimates))?;
        }
        Ok(Some((actions, pod)))
    }

    /// The actions for a recommendation: every bound is read, and no mode refuses anything.
    pub fn of_recommendation(settings: &Settings<'_>) -> Self {
        Self {
            kind: RequestKind::Pod,
            limits: settings.limit_ranges.mode,
            quotas: Mode::Warn,
            pods: Mode::Off,
            rollout: None,
            is_defaulted: settings.limit_ranges.mode != Mode::Off,
            is_estimated: true,
            may_change: false,
            may_replace: settings.estimates.replaces(),
        }
    }

    /// Leaves out the work of the other policy, where one fills in and one rejects (the setting `role`).
    fn restrict_to(&mut self, role: Role) {
        let is_workload = matches!(self.kind, RequestKind::Workload | RequestKind::Scale);
        let kept = match role {
            Role::Both => return,
            // This policy refuses nothing, but may warn about the pods of a workload.
            Role::Mutate => Mode::Warn,
            // This policy changes nothing, and the other one has already given the warnings.
            Role::Validate if is_workload => Mode::Enforce,
            Role::Validate => {
                // Pods come filled in; resizes are not sent to the policy that fills in.
                self.is_defaulted &= self.kind == RequestKind::Resize;
                self.is_estimated = false;
                return;
            }
        };
        let restricted = |mode| if is_workload && mode == kept { kept } else { Mode::Off };
        (self.limits, self.pods) = (restricted(self.limits), restricted(self.pods));
        let is_filled = self.limits != Mode::Off || self.pods != Mode::Off || self.may_change;
        self.is_defaulted &= is_filled;
        self.is_estimated &= is_filled;
    }

    fn is_off(&self) -> bool {
        let evaluates = [self.limits, self.quotas, self.pods].iter().any(|mode| *mode != Mode::Off);
        // An estimate may be reported even if it is not written.
        !(evaluates || self.is_estimated || self.may_change && self.is_defaulted)
    }

    /// True if a workload gets pods that it did not have.
    pub fn adds_pods(&self, request: &Request<'_>) -> bool {
        self.rollout.as_ref().map_or(request.is_create(), Rollout::adds_pods)
    }

    pub fn needs_limit_ranges(&self) -> bool {
        self.limits != Mode::Off || self.is_defaulted || self.is_estimated
    }

    pub fn needs_quotas(&self, settings: &Settings<'_>) -> bool {
        let shrinks = settings.estimates.shrink_to_quota && settings.quotas.mode != Mode::Off;
        self.quotas != Mode::Off || self.pods != Mode::Off || shrinks && self.is_estimated
    }

    /// Only for the pods of workloads. The ledger evaluates the object itself, because it knows more than it publishes.
    pub fn needs_tenant_quotas(&self, settings: &Settings<'_>) -> bool {
        settings.quotas.tenant_quotas && self.pods != Mode::Off
    }

    /// Marks a pod's values with their origins, and returns the estimates to make for it.
    pub fn prepare<'d>(
        &self,
        pod: &mut Pod<'d>,
        namespace: &str,
        ranges: &[Range<'d>],
        context: &Context<'d>,
        settings: &Settings<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<EstimateTarget>, Malformed> {
        if !self.is_defaulted && !self.is_estimated {
            return Ok(Vec::new());
        }
        headroom_annotation::mark(pod)?;
        limit_ranger::mark(pod, context.limit_ranges.is_some().then_some(ranges))?;
        // If the LimitRanges are unknown, estimates cannot be kept within them.
        if !self.is_estimated || context.limit_ranges.is_none() {
            return Ok(Vec::new());
        }
        let choice = estimate_targets::chosen("the pod", pod.annotation(estimate_targets::CHOICE)?, notes);
        let mode = settings.estimates.mode.min(choice.unwrap_or(EstimateMode::Always));
        let is_asked = choice == Some(EstimateMode::Always) || any_matches(&settings.estimates.replaced_in, namespace);
        Ok(estimate_targets::all(pod, mode, self.may_replace && is_asked, &settings.estimates, notes))
    }
}

/// The pod to evaluate, and what the ranges decide about it.
#[derive(Debug)]
pub struct Subject<'d> {
    /// Each value with its origin; none if the object has no pod.
    pub pod: Option<Pod<'d>>,
    pub ranges: Vec<Range<'d>>,
    pub targets: Vec<EstimateTarget>,
}

impl<'d> Subject<'d> {
    /// Finds the ranges for a pod, and what follows from them: the origin of each value, and the estimates to make.
    pub fn of(
        actions: &Actions,
        mut pod: Option<Pod<'d>>,
        request: &Request<'d>,
        context: &Context<'d>,
        settings: &'d Settings<'d>,
        notes: &mut Vec<String>,
    ) -> Result<Self, Malformed> {
        let ranges = limit_rules::applicable(request, pod.as_ref(), context, settings)?;
        let targets = match &mut pod {
            Some(pod) => actions.prepare(pod, &request.namespace, &ranges, context, settings, notes)?,
            None => Vec::new(),
        };
        Ok(Self { pod, ranges, targets })
    }
}
