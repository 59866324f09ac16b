//! The quota steps of a decision: the object itself, then the pods that it would bring.

use super::{Findings, Pods, Violation};
use crate::amount::ResourceList;
use crate::context::Context;
use crate::context::resource_quota::ResourceQuota;
use crate::context::usage::Resource;
use crate::json::{Malformed, Node};
use crate::request::workload::Rollout;
use crate::request::{Operation, PodTemplate, Request};
use crate::settings::{Freshness, Mode, Settings};
use crate::stage::quota::{self, Bounds, Change, Kind, Object, Outcome};
use crate::subject::Subject;

/// Judges by the namespace's quotas; without them, by nothing.
pub(super) fn judge<'d>(
    findings: &mut Findings<'_, 'd>,
    object: Node<'d>,
    pods: &Pods<'_, 'd>,
    rollout: Option<&Rollout>,
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<(), Malformed> {
    let Some(quotas) = &context.quotas else { return Ok(()) };
    let bounds = Bounds { quotas, limited_resources: &settings.quotas.limited_resources, now: context.now };
    let is_live = settings.quotas.freshness == Freshness::Live;
    if findings.modes.quotas != Mode::Off {
        let outcome = of_object(findings, object, pods, &bounds)?;
        if is_live {
            findings.doubt(&outcome, quotas);
        }
        findings.take_quota_breaches(findings.modes.quotas, false, outcome.breaches);
        findings.decision.charges = outcome.charges;
    }
    if let (Some(pod), Some(rollout)) = (pods.new, rollout) {
        let outcome = quota::workload::check(rollout, pod, pods.old, &bounds)?;
        if is_live {
            findings.doubt(&outcome, quotas);
        }
        findings.take_quota_breaches(findings.modes.pods, true, outcome.breaches);
        findings.decision.pod_charges = outcome.charges;
    }
    Ok(())
}

/// What the quotas that a new pod exceeds would let its containers have.
pub(super) fn free_for<'d>(
    request: &Request<'d>,
    pod: &PodTemplate<'d>,
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<ResourceList<'d>, Malformed> {
    let mut free = ResourceList::default();
    let (Some(quotas), Some(node)) = (&context.quotas, request.object) else { return Ok(free) };
    let bounds = Bounds { quotas, limited_resources: &settings.quotas.limited_resources, now: context.now };
    let object = Object { kind: Kind::of(request), node, pod: Some(pod) };
    for breach in quota::check(&object, &Change::Create, &bounds)?.breaches {
        let quota::Fault::Exceeded { excesses, .. } = breach.fault else { continue };
        for excess in excesses {
            let Some(resource) = Resource::ALL.iter().find(|resource| {
                let name = excess.name.strip_prefix("requests.").unwrap_or(&excess.name);
                name == resource.name()
            }) else {
                continue;
            };
            let mut left = excess.hard.minus(&excess.used);
            if let Some(overhead) = pod.overhead.get(resource.name()) {
                left = left.minus(overhead);
            }
            if free.get(resource.name()).is_none_or(|least| left < *least) {
                free.set(resource.name().into(), left);
            }
        }
    }
    Ok(free)
}

/// The object that the request is about.
fn of_object<'d>(
    findings: &Findings<'_, 'd>,
    object: Node<'d>,
    pods: &Pods<'_, 'd>,
    bounds: &Bounds<'_, 'd>,
) -> Result<Outcome<'d>, Malformed> {
    let request = findings.request;
    let kind = Kind::of(request);
    let is_pod = matches!(findings.subject, Subject::Pod | Subject::Deadline | Subject::Resize);
    let object = Object { kind, node: object, pod: pods.new.filter(|_| is_pod) };
    let change = match request.operation {
        _ if request.is_audit()? => Change::Counted,
        Operation::Update { old } => {
            let old = old.map(|node| Object { kind, node, pod: pods.old.filter(|_| is_pod) });
            if findings.subject == Subject::ClaimStatus { Change::Report { old } } else { Change::Update { old } }
        }
        Operation::Create | Operation::Delete | Operation::Connect => Change::Create,
    };
    quota::check(&object, &change, bounds)
}

impl<'d> Findings<'_, 'd> {
    fn take_quota_breaches(&mut self, mode: Mode, is_workload: bool, breaches: Vec<quota::Breach<'d>>) {
        let (refusing, telling): (Vec<_>, Vec<_>) =
            breaches.into_iter().partition(|breach| mode == Mode::Enforce && !breach.only_slows());
        if !refusing.is_empty() {
            self.decision.violations.push(Violation::Quotas {
                resource: self.request.qualified_resource(),
                name: self.request.name.to_string(),
                is_workload,
                breaches: refusing,
            });
        }
        for breach in telling {
            let whose = if is_workload { "its pods would be refused" } else { "would be refused" };
            self.decision.warn(format!("{whose}: {}", breach.advice()));
        }
    }

    /// Notes the quotas whose latest usage could change this outcome.
    fn doubt(&mut self, outcome: &Outcome<'d>, quotas: &[ResourceQuota<'d>]) {
        for name in quota::doubtful(outcome, quotas) {
            if !self.decision.doubtful_quotas.contains(&name) {
                self.decision.doubtful_quotas.push(name);
            }
        }
    }
}
