//! Charges a request to the namespace's quotas: the object itself, then the pods that it would create.

use std::borrow::Cow;

use crate::actions::{Actions, RequestKind};
use crate::cluster::Context;
use crate::cluster::resource_quota::ResourceQuota;
use crate::fill::FilledPods;
use crate::json::Malformed;
use crate::quota::{
    self, Added, Bounds, ChargedKind, DeviceContext, QuotaChange, QuotaFault, QuotaObject, QuotaOutcome,
};
use crate::request::rollout::claim_templates;
use crate::request::{self, Operation, Request};
use crate::settings::{Mode, Settings};

pub mod devices;
mod tenants;

#[derive(Debug, Default)]
pub struct Charges<'d> {
    pub of_object: QuotaOutcome<'d>,
    pub of_pods: QuotaOutcome<'d>,
    /// Quotas whose latest usage could change the outcome; filled only if the settings ask for live usage.
    pub near_limit: Vec<Cow<'d, str>>,
}

/// Checks the namespace's quotas. Without quotas there is nothing to check.
pub fn charge<'d>(
    request: &Request<'d>,
    actions: &Actions,
    pods: &FilledPods<'d>,
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Charges<'d>, Malformed> {
    let mut charges = Charges::default();
    let (Some(quotas), Some(object)) = (&context.quotas, request.object) else { return Ok(charges) };
    let bounds = Bounds { quotas, limited_resources: &settings.quotas.limited_resources, now: context.now };
    if actions.quotas != Mode::Off {
        charges.of_object = of_object(request, actions, object, pods, &bounds, context)?;
    }
    if let (Some(pod), Some(rollout), true) = (&pods.new, &actions.rollout, actions.pods != Mode::Off) {
        let rollout = &rollout.clone().of_scaled(context.scaled)?;
        let tenant = tenants::charged(&context.tenant_quotas, &request.namespace, context.namespace)?;
        charges.of_pods = quota::forecast::check(rollout, pod, pods.old.as_ref(), &bounds, &tenant)?;
        let workload = context.scaled.unwrap_or(object.node);
        let templates = claim_templates(request, workload)?;
        let of_claims = quota::forecast::check_claims(rollout, &templates, &bounds, &tenant)?;
        charges.of_pods.breaches.extend(of_claims.breaches);
        charges.of_pods.charges.extend(of_claims.charges);
    }
    if settings.quotas.is_live {
        for outcome in [&charges.of_object, &charges.of_pods] {
            add_near_limit(&mut charges.near_limit, outcome, quotas);
        }
    }
    Ok(charges)
}

/// A quota is close to its bound if this many more requests like this one would not fit.
const CLOSE: u64 = 10;

/// Adds the quotas whose latest usage could change the outcome: those that refuse, then those that are close to refusing.
fn add_near_limit<'d>(names: &mut Vec<Cow<'d, str>>, outcome: &QuotaOutcome<'d>, quotas: &[ResourceQuota<'d>]) {
    let by_level =
        |fault: &QuotaFault<'_>| matches!(fault, QuotaFault::Exceeded { .. } | QuotaFault::UnknownStatus { .. });
    // The ledger publishes no newer usage of TenantQuotas than this.
    let refusing = outcome.breaches.iter().filter(|breach| by_level(&breach.fault) && !breach.is_tenant);
    let is_close = |Added { amount, used, hard, .. }: &Added<'_>| used.plus(&amount.times_count(CLOSE)) > *hard;
    let close = quotas.iter().map(|quota| &quota.name).filter(|name| {
        let mut charges = outcome.charges.iter().filter(|charge| !charge.is_tenant && charge.quota == **name);
        charges.any(|charge| charge.added.iter().any(is_close))
    });
    for name in refusing.filter_map(|breach| breach.quota.as_ref()).chain(close) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
}

fn of_object<'d>(
    request: &Request<'d>,
    actions: &Actions,
    source: request::Object<'d>,
    pods: &FilledPods<'d>,
    bounds: &Bounds<'_, 'd>,
    context: &Context<'d>,
) -> Result<QuotaOutcome<'d>, Malformed> {
    let kind = ChargedKind::of(request);
    let share = |claim: &request::Object<'d>| {
        devices::of_pod(request, claim, context.pod_of_claim, context.resource_claims, bounds.now)
    };
    let (of_pod, of_pod_before) = (share(&source)?, request.old().map(share).transpose()?.unwrap_or_default());
    let classes = context.device_classes.as_deref().unwrap_or_default();
    let devices = DeviceContext { classes, of_pod: &of_pod };
    let is_pod = actions.kind.is_pod();
    let pod = pods.new.as_ref().filter(|_| is_pod);
    let object = QuotaObject { kind, source, pod, replaces: request.old(), devices };
    let change = match &request.operation {
        _ if request.is_audit => QuotaChange::Counted,
        Operation::Update { old } => {
            let pod = pods.old.as_ref().filter(|_| is_pod);
            let devices = DeviceContext { classes, of_pod: &of_pod_before };
            let old = old.map(|source| QuotaObject { kind, source, pod, replaces: None, devices });
            QuotaChange::Update { old, has_happened: actions.kind == RequestKind::ClaimStatus }
        }
        Operation::Create | Operation::Other => QuotaChange::Create,
    };
    quota::check(&object, &change, bounds)
}
