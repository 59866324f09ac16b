//! What of a request is to be judged, by what, and what is done about it: decided once, in one place, so that what is
//! read and what is judged never differ.
//!
//! [`Plan::of`] needs the request alone, and says what to read; [`Plan::complete`] adds what depends on the ranges;
//! [`Plan::heed_namespace`] takes out what the namespace does not want.

pub mod exempt;
pub mod subject;
pub mod wants;

use crate::annotations::{limit_ranger, ours};
use crate::cluster::Context;
use crate::json::Malformed;
use crate::ranges::{self, Range};
use crate::request::rollout::{self, Rollout};
use crate::request::{Pod, Request};
use crate::settings::{EstimateMode, Mode, OnQuota, Role, Settings};

pub use subject::Subject;
pub use wants::Want;

/// The plan for one request.
#[derive(Debug)]
pub struct Plan<'d> {
    pub subject: Subject,
    /// What is done about a breach of the ranges.
    pub limits: Mode,
    /// What is done about a breach of a quota by the object itself.
    pub quotas: Mode,
    /// What is done about a breach of a quota by the pods that a workload would bring.
    pub pods: Mode,
    /// Those pods, if there are any.
    pub rollout: Option<Rollout>,
    /// Whether missing values get the defaults of the ranges.
    pub is_defaulted: bool,
    pub is_estimated: bool,
    /// Whether what is filled in is also written into the object.
    pub may_change: bool,
    /// The pod, each value with its origin; of a `scale`, once the workload was read.
    pub pod: Option<Pod<'d>>,
    pub ranges: Vec<Range<'d>>,
    /// The estimates that the pod is to get.
    pub wants: Vec<Want>,
}

impl<'d> Plan<'d> {
    /// The plan for a request; none if there is nothing to judge.
    pub fn of(request: &'d Request<'d>, settings: &'d Settings<'d>) -> Result<Option<Self>, Malformed> {
        let Some(subject) = Subject::of(request)? else { return Ok(None) };
        let role = settings.role;
        let judges = role != Role::Fill;
        let is_workload = matches!(subject, Subject::Workload | Subject::Scale);
        let pods = if is_workload && !request.is_audit { settings.quotas.of_workloads() } else { Mode::Off };
        let rollout = if pods == Mode::Off { None } else { rollout::rollout(request)? };
        let has_rollout = rollout.is_some();
        let limits = match subject {
            Subject::Workload => settings.limit_ranges.of_workloads(),
            Subject::Pod | Subject::Resize | Subject::Claim => settings.limit_ranges.mode,
            Subject::Deadline | Subject::Scale | Subject::ClaimStatus | Subject::Counted => Mode::Off,
        };
        let mut plan = Self {
            subject,
            limits,
            quotas: if judges && subject.is_counted(request) { settings.quotas.mode } else { Mode::Off },
            pods: if has_rollout { pods } else { Mode::Off },
            rollout,
            is_defaulted: subject != Subject::Claim && limits != Mode::Off
                || has_rollout && settings.limit_ranges.mode != Mode::Off,
            is_estimated: subject.makes_pods() && settings.estimates.mode != EstimateMode::Never,
            may_change: false,
            pod: None,
            ranges: Vec::new(),
            wants: Vec::new(),
        };
        plan.may_change = match subject {
            Subject::Pod => role != Role::Judge,
            // Where the ranges are not to be looked at for controllers, their defaults only count the pods for a quota.
            Subject::Workload => {
                role != Role::Judge
                    && settings.mutate_templates
                    && (limits != Mode::Off || !plan.is_defaulted)
                    && rollout::decides_template(request)?
            }
            _ => false,
        };
        plan.keep_to(role);
        let is_touched = plan.limits != Mode::Off || plan.is_defaulted || plan.is_estimated;
        if is_touched && request.old().map_or(Ok(false), |old| old.is_being_deleted())? {
            // Its resources are not held against it any more.
            (plan.limits, plan.is_defaulted, plan.is_estimated) = (Mode::Off, has_rollout && plan.is_defaulted, false);
        }
        if plan.is_off() {
            return Ok(None);
        }
        if subject.is_pod() || subject == Subject::Workload {
            plan.pod = request.pod()?;
        }
        // Without a pod that could use one, there is no estimate, and nothing is read for one. Where the ranges are read
        // in any case, they will tell better.
        if plan.is_estimated && (plan.limits == Mode::Off && !plan.is_defaulted || settings.estimates.reads_more()) {
            plan.is_estimated =
                plan.pod.as_ref().map_or(Ok(false), |pod| wants::is_possible(pod, &settings.estimates))?;
        }
        Ok(Some(plan))
    }

    /// Of two policies that share the work, each does its own part.
    fn keep_to(&mut self, role: Role) {
        let is_workload = matches!(self.subject, Subject::Workload | Subject::Scale);
        match role {
            Role::Both => {}
            // It refuses nothing; what it can say of the pods to come, it says.
            Role::Fill => {
                let told = |mode| if is_workload && mode == Mode::Warn { Mode::Warn } else { Mode::Off };
                (self.limits, self.pods) = (told(self.limits), told(self.pods));
                let fills = self.limits != Mode::Off || self.pods != Mode::Off || self.may_change;
                self.is_defaulted &= fills;
                self.is_estimated &= fills;
            }
            // It changes nothing, and what is only to be told was told by the other.
            Role::Judge if is_workload => {
                let judged = |mode| if mode == Mode::Enforce { Mode::Enforce } else { Mode::Off };
                (self.limits, self.pods) = (judged(self.limits), judged(self.pods));
                let judges = self.limits != Mode::Off || self.pods != Mode::Off;
                self.is_defaulted &= judges;
                self.is_estimated &= judges;
            }
            Role::Judge => {
                self.is_defaulted &= self.subject == Subject::Resize;
                self.is_estimated = false;
            }
        }
    }

    fn is_off(&self) -> bool {
        let judges = [self.limits, self.quotas, self.pods].iter().any(|mode| *mode != Mode::Off);
        // An estimate may be told even if it is not written.
        !(judges || self.is_estimated || self.may_change && self.is_defaulted)
    }

    pub fn needs_limit_ranges(&self) -> bool {
        self.limits != Mode::Off || self.is_defaulted || self.is_estimated
    }

    pub fn needs_quotas(&self, settings: &Settings<'_>) -> bool {
        let shrinks = settings.estimates.on_quota == OnQuota::Shrink && settings.quotas.mode != Mode::Off;
        self.quotas != Mode::Off || self.pods != Mode::Off || shrinks && self.is_estimated
    }

    /// Of the object itself the ledger is the judge: it knows more than it has published.
    pub fn needs_tenant_quotas(&self, settings: &Settings<'_>) -> bool {
        settings.quotas.tenant_quotas && self.pods != Mode::Off
    }

    /// Adds the ranges, and what follows from them: the origin of each value, and the estimates that are wanted.
    pub fn complete(
        &mut self,
        request: &'d Request<'d>,
        context: &Context<'d>,
        settings: &'d Settings<'d>,
        notes: &mut Vec<String>,
    ) -> Result<(), Malformed> {
        self.ranges = ranges::applicable(request, self.pod.as_ref(), context, settings)?;
        if let Some(mut pod) = self.pod.take() {
            self.wants = self.prepare(&mut pod, context, settings, notes)?;
            self.pod = Some(pod);
        }
        Ok(())
    }

    /// Marks a pod's values with their origins, and says which estimates it is to get.
    pub fn prepare(
        &self,
        pod: &mut Pod<'d>,
        context: &Context<'d>,
        settings: &Settings<'d>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Want>, Malformed> {
        if !self.is_defaulted && !self.is_estimated {
            return Ok(Vec::new());
        }
        ours::mark(pod)?;
        limit_ranger::mark(pod, context.limit_ranges.is_some().then_some(self.ranges.as_slice()))?;
        // Where the LimitRanges are unknown, an estimate could not be brought inside them.
        if !self.is_estimated || context.limit_ranges.is_none() {
            return Ok(Vec::new());
        }
        let mode = settings.estimates.mode.min(wants::chosen_by_pod(pod, notes)?);
        Ok(wants::all(pod, mode, &settings.estimates, notes))
    }

    /// Drops the estimates that the namespace does not want.
    pub fn heed_namespace(&mut self, context: &Context<'_>, notes: &mut Vec<String>) -> Result<(), Malformed> {
        self.wants = wants::heed_namespace(std::mem::take(&mut self.wants), context.namespace, notes)?;
        Ok(())
    }
}
