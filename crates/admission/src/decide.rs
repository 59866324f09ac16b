//! Turns what each step finds into the decision: what is refused, what is only warned of, and what is changed.
//!
//! Everything but the quotas is decided first, as a [`Draft`], because the usage of quotas may have to be read again.

use crate::actions::{Actions, EstimateTarget, RequestKind, Subject, estimate_targets};
use crate::charge::Charges;
use crate::cluster::Context;
use crate::cluster::limit_range::{CLAIM, CONTAINER};
use crate::cluster::lookup::{Lookup, Missing};
use crate::defaults;
use crate::estimate::Estimates;
use crate::fill::{Filled, FilledPods, Filling};
use crate::json::Malformed;
use crate::limit_rules;
use crate::limits;
use crate::quota;
use crate::request::{Pod, Request, api_server_defaults, rollout};
use crate::settings::{Mode, Settings};
use crate::truncate::shortened;
use crate::verdict::{Cause, Decision, Violation};

/// A decision without the quotas.
#[derive(Debug)]
pub struct Draft<'d> {
    pub pods: FilledPods<'d>,
    decision: Decision<'d>,
}

impl<'d> Draft<'d> {
    /// Fills in missing values and checks the bounds of the ranges. `notes` are warnings about the estimates to make.
    pub fn of(
        request: &Request<'d>,
        actions: &Actions,
        subject: Subject<'d>,
        context: &Context<'d>,
        settings: &'d Settings<'d>,
        notes: &[String],
    ) -> Result<Self, Malformed> {
        let Some(object) = &request.object else {
            return Err(Malformed { path: "object".to_owned(), problem: "is missing".to_owned() });
        };
        let mut decision = Decision::default();
        decision.omits_annotations = settings.omits_annotations;
        report_missing(&mut decision, actions, context, settings);
        let Subject { pod, ranges, targets } = subject;
        let fills = actions.is_defaulted || actions.is_estimated;
        let filling = Filling { request, context, settings, ranges: &ranges, is_defaulted: actions.is_defaulted };
        let filled = |mut pod: Pod<'d>, targets: &[EstimateTarget]| {
            if fills {
                return filling.fill(pod, targets);
            }
            api_server_defaults::of_version(&mut pod, settings.server);
            Ok(Filled { pod, estimates: Estimates::default(), breaches: None })
        };
        let mut pods = FilledPods::default();
        let mut breaches = None;
        if let Some(pod) = pod {
            let only_counts = actions.may_change && actions.is_defaulted && settings.limit_ranges.mode == Mode::Off;
            let undefaulted = Filling { is_defaulted: false, ..filling };
            let written = only_counts.then(|| undefaulted.fill(pod.clone(), &targets)).transpose()?;
            let filled = filled(pod, &targets)?;
            report_estimates(&mut decision, actions.kind, written.as_ref().unwrap_or(&filled), notes, settings);
            pods.written = written.map(|written| written.pod);
            breaches = filled.breaches;
            pods.new = Some(filled.pod);
        }
        pods.old = match actions.kind {
            RequestKind::Resize | RequestKind::Deadline => request.old_pod()?.map(|mut pod| {
                api_server_defaults::of_version(&mut pod, settings.server);
                pod
            }),
            // The existing pods were filled in, too.
            RequestKind::Workload if actions.rollout.is_some() => {
                let old = request.old_pod()?.map(|mut pod| {
                    limit_rules::bounded(pod.containers.len(), ("containers", pod.node), CONTAINER, &ranges)?;
                    let mut ignored = Vec::new();
                    let targets =
                        actions.prepare(&mut pod, &request.namespace, &ranges, context, settings, &mut ignored)?;
                    let (may_replace, namespace) = (actions.may_replace, context.namespace);
                    let targets = estimate_targets::chosen_by_namespace(targets, may_replace, namespace, &mut ignored)?;
                    Ok(filled(pod, &targets)?.pod)
                });
                old.transpose()?
            }
            _ => None,
        };
        if actions.limits != Mode::Off {
            if let Some(pod) = &pods.new {
                let breaches = breaches.unwrap_or_else(|| limits::check_pod(pod, &ranges));
                warn_of_low_limits(&mut decision, pod, &breaches);
                add_limit_breaches(&mut decision, actions, request, breaches);
            } else if actions.kind == RequestKind::Claim {
                let skips_unchanged = settings.server.skips_unchanged_claims();
                let breaches = limits::check_claim(object, request.old(), skips_unchanged, &ranges)?;
                add_limit_breaches(&mut decision, actions, request, breaches);
            }
            if actions.kind == RequestKind::Workload && actions.adds_pods(request) {
                let templates = rollout::claim_templates(request, object.node)?;
                limit_rules::bounded(templates.len(), ("claims", object.node), CLAIM, &ranges)?;
                // Nothing is refused by them: a StatefulSet that is restored finds its claims there, and creates none.
                let breaches = limits::check_claim_templates(&templates, &ranges)?;
                warn_of_limits(&mut decision, "its claims would be rejected", &breaches);
            }
        }
        Ok(Self { pods, decision })
    }

    /// Adds warnings of the quotas whose live usage could not be read.
    pub fn with_stale_quotas(mut self, context: &Context<'d>) -> Self {
        let is_stale = |missing: &&Missing<'d>| matches!(missing.lookup, Lookup::FreshQuota { .. });
        context.missing.iter().filter(is_stale).for_each(|missing| self.decision.warn(|| of_missing(missing)));
        self
    }

    pub fn finish(self, request: &Request<'d>, actions: &Actions, charges: Charges<'d>) -> Decision<'d> {
        let Self { pods, mut decision } = self;
        let Charges { of_object, of_pods, .. } = charges;
        add_quota_breaches(&mut decision, actions.quotas, request, false, of_object.breaches);
        add_quota_breaches(&mut decision, actions.pods, request, true, of_pods.breaches);
        (decision.charges, decision.pod_charges) = (of_object.charges, of_pods.charges);
        if let Some(pod) = pods.written.or(pods.new).filter(|_| actions.may_change) {
            decision.change(pod);
        }
        if !decision.is_admitted() {
            decision.set_nothing();
        }
        decision.end_warnings();
        decision
    }
}

/// A failed lookup refuses the request if a breach found with that lookup would, and if the settings say so.
fn report_missing<'d>(decision: &mut Decision<'d>, actions: &Actions, context: &Context<'d>, settings: &Settings<'d>) {
    for missing in &context.missing {
        let modes: &[Mode] = match missing.lookup {
            Lookup::LimitRanges { .. } if actions.limits != Mode::Off => &[actions.limits],
            // These fill in values that are only counted, or that another policy evaluates.
            Lookup::LimitRanges { .. } | Lookup::Scaled { .. } => &[actions.pods],
            Lookup::Quotas { .. } => &[actions.quotas, actions.pods],
            Lookup::Namespace { .. } if settings.selects_by_namespace_labels() => {
                &[actions.limits, actions.quotas, actions.pods]
            }
            Lookup::DeviceClasses => &[actions.quotas],
            // Without these, the quota from the list is used, a claim is charged in full, and estimates are left out.
            Lookup::FreshQuota { .. }
            | Lookup::PodOfClaim { .. }
            | Lookup::ResourceClaims { .. }
            | Lookup::TenantQuotas
            | Lookup::Namespace { .. }
            | Lookup::Autoscalers { .. }
            | Lookup::UsageProfile { .. } => &[],
        };
        if modes.contains(&Mode::Enforce) && !settings.admits_without_context {
            decision.violations.push(Violation::MissingContext(missing.clone()));
        } else {
            decision.warn(|| of_missing(missing));
        }
    }
}

/// Records every estimate, and warns of problems with the usage history.
fn report_estimates<'d>(
    decision: &mut Decision<'d>,
    kind: RequestKind,
    filled: &Filled<'d>,
    notes: &[String],
    settings: &Settings<'_>,
) {
    let whose = match kind {
        // The author of the template was warned when it was admitted.
        RequestKind::Scale => return,
        RequestKind::Workload => "its pods: ",
        _ => "",
    };
    for (index, estimate) in filled.estimates.estimates.iter().enumerate() {
        let mut report = estimate.report(whose);
        if settings.is_monitored {
            report.set_nothing();
        }
        if report.should_warn {
            decision.warn(|| (Cause::Estimate(index), report.text.clone()));
        }
        decision.estimates.push(report);
    }
    for note in notes.iter().chain(&filled.estimates.notes) {
        decision.warn(|| (Cause::Note, format!("{whose}{note}")));
    }
}

fn add_limit_breaches<'d>(
    decision: &mut Decision<'d>,
    actions: &Actions,
    request: &Request<'d>,
    breaches: limits::Breaches<'d>,
) {
    if breaches.is_empty() {
        return;
    }
    let is_workload = actions.kind == RequestKind::Workload;
    if actions.limits == Mode::Enforce {
        let (resource, name) = (request.qualified_resource(), request.name.to_string());
        decision.violations.push(Violation::Limits { resource, name, is_workload, breaches });
        return;
    }
    warn_of_limits(decision, would_be_rejected(is_workload), &breaches);
}

fn warn_of_low_limits(decision: &mut Decision<'_>, pod: &Pod<'_>, breaches: &limits::Breaches<'_>) {
    for container in &pod.containers {
        // A request above a maximum has to be lowered instead.
        let is_above_max = |of: &str| breaches.first.iter().any(|breach| breach.is_above_max(&container.name, of));
        let low = defaults::limits_below_requests(container).filter(|(resource, ..)| !is_above_max(resource));
        for (resource, limit, request) in low {
            decision.warn(|| {
                let text = format!(
                    "container {}: the default {resource} limit of {limit} is below the request of {request}, which \
                     the API server rejects; set a {resource} limit of at least {request}",
                    shortened(&container.name)
                );
                (Cause::Limits, text)
            });
        }
    }
}

fn warn_of_limits(decision: &mut Decision<'_>, what: &str, breaches: &limits::Breaches<'_>) {
    for (text, advice) in breaches.by_text() {
        decision.warn(|| (Cause::Limits, format!("{what}: {text}; {}", advice.join("; "))));
    }
}

fn add_quota_breaches<'d>(
    decision: &mut Decision<'d>,
    mode: Mode,
    request: &Request<'d>,
    is_workload: bool,
    breaches: Vec<quota::Breach<'d>>,
) {
    let (refusing, warning): (Vec<_>, Vec<_>) =
        breaches.into_iter().partition(|breach| mode == Mode::Enforce && !breach.only_warns());
    if !refusing.is_empty() {
        let (resource, name) = (request.qualified_resource(), request.name.to_string());
        decision.violations.push(Violation::Quotas { resource, name, is_workload, breaches: refusing });
    }
    for breach in warning {
        decision.warn(|| {
            let text = match breach.names_pods() {
                true => breach.advice(),
                false => format!("{}: {}", would_be_rejected(is_workload), breach.advice()),
            };
            (Cause::Quota(Box::new(breach)), text)
        });
    }
}

fn of_missing<'d>(missing: &Missing<'d>) -> (Cause<'d>, String) {
    (Cause::MissingContext(missing.clone()), format!("{missing:#}"))
}

fn would_be_rejected(is_workload: bool) -> &'static str {
    if is_workload { "its pods would be rejected" } else { "would be rejected" }
}
