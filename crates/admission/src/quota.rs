//! Evaluates a request against the namespace's ResourceQuotas as Kubernetes' own admission does, and reports what is
//! missing and what would fit.
//!
//! Only a quota's status counts: `status.hard` for the bounds, `status.used` for the usage. A quota applies to an
//! object if it bounds a name that the object's kind is charged under, and the object matches all its scopes.
//! Kubernetes stops at the first refusal; here every refusing quota is reported, Kubernetes' choice first.
//! See <https://kubernetes.io/docs/concepts/policy/resource-quotas/>.

mod breach;
pub mod charged_names;

pub mod scope;
mod usage;

mod charge;
mod required_values;

mod limited_resources;

pub mod forecast;

use crate::amount::{Quantity, ResourceList, ResourceName};
use crate::cluster::devices::DeviceClass;
use crate::cluster::resource_quota::ResourceQuota;
use crate::json::{Malformed, Node};
use crate::request::{self, Pod};
use crate::settings::LimitedResource;
use crate::timestamp::Timestamp;
use crate::truncate::Names;
use charge::Deltas;
use required_values::RequiredValues;

pub use breach::{Breach, Excess, Forecast, QuotaFault, RolloutForecast};
pub use charge::{Added, QuotaChange, QuotaCharge};
pub use charged_names::{Charged, ChargedKind, Measure};
pub use usage::{ObjectUsage, is_live};

#[derive(Debug, Clone, Copy)]
pub struct QuotaObject<'a, 'd> {
    pub kind: ChargedKind<'a>,
    pub source: request::Object<'d>,
    pub pod: Option<&'a Pod<'d>>,
    /// The object that was stored before an update.
    pub replaces: Option<&'a request::Object<'d>>,
    pub devices: DeviceContext<'a, 'd>,
}

/// Other objects that decide how a resource claim's devices are charged.
#[derive(Debug, Clone, Copy)]
pub struct DeviceContext<'a, 'd> {
    pub classes: &'a [DeviceClass<'d>],
    /// The amounts that the claim's pod was charged already.
    pub of_pod: &'a ResourceList<'d>,
}

impl DeviceContext<'_, '_> {
    /// For every kind other than resource claims.
    pub const NONE: DeviceContext<'static, 'static> = DeviceContext { classes: &[], of_pod: &ResourceList::EMPTY };
}

impl<'a, 'd> QuotaObject<'a, 'd> {
    /// An object that replaces none; of a resource claim, without other objects.
    pub fn alone(kind: ChargedKind<'a>, source: request::Object<'d>, pod: Option<&'a Pod<'d>>) -> Self {
        Self { kind, source, pod, replaces: None, devices: DeviceContext::NONE }
    }

    /// A pod, stored or planned.
    pub fn of_pod(pod: &'a Pod<'d>, source: request::Object<'d>) -> Self {
        Self::alone(ChargedKind::POD, source, Some(pod))
    }

    /// Returns true if a bound on what is charged makes its quota apply. A quota that applies charges all its names.
    fn is_bounded_by(&self, charged: Charged<'_>) -> bool {
        match charged {
            Charged::ImplicitDevices(class) => self.devices.classes.iter().any(|have| have.name == class),
            Charged::ExtendedDevices(name) => self.devices.classes.iter().any(|have| have.extended_resource == name),
            _ => true,
        }
    }
}

/// A stored object, and what [`Self::object`] borrows.
#[derive(Debug, Clone)]
pub struct Stored<'d> {
    kind: ChargedKind<'d>,
    source: request::Object<'d>,
    pod: Option<Pod<'d>>,
}

impl<'d> Stored<'d> {
    pub fn read(kind: ChargedKind<'d>, node: Node<'d>) -> Result<Self, Malformed> {
        let source = request::Object::stored(node)?;
        let pod = (kind.measure == Measure::Pod).then(|| Pod::read(node, source.status)).transpose()?;
        Ok(Self { kind, source, pod })
    }

    pub fn object(&self) -> QuotaObject<'_, 'd> {
        QuotaObject::alone(self.kind, self.source, self.pod.as_ref())
    }
}

/// A quota that applies to an object, with those of its bounds that concern the object.
struct ApplyingQuota<'q, 'd> {
    quota: &'q ResourceQuota<'d>,
    bounds: Vec<Bound<'q, 'd>>,
}

struct Bound<'q, 'd> {
    name: &'q ResourceName<'d>,
    hard: &'q Quantity,
    charged: Charged<'q>,
    /// False if the bound alone would not make the quota apply.
    is_decisive: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a, 'd> {
    /// In the order in which they are reported.
    pub quotas: &'a [ResourceQuota<'d>],
    pub limited_resources: &'a [LimitedResource<'d>],
    pub now: Option<Timestamp>,
}

#[derive(Debug, Clone, Default)]
pub struct QuotaOutcome<'d> {
    /// Every reason to refuse it, Kubernetes' own reason first.
    pub breaches: Vec<Breach<'d>>,
    /// The amounts that the request adds to each quota, or would add if it were not refused.
    pub charges: Vec<QuotaCharge<'d>>,
}

pub fn check<'d>(
    object: &QuotaObject<'_, 'd>,
    change: &QuotaChange<'_, 'd>,
    bounds: &Bounds<'_, 'd>,
) -> Result<QuotaOutcome<'d>, Malformed> {
    let Bounds { quotas, limited_resources, now } = *bounds;
    let mut outcome = QuotaOutcome::default();
    if quotas.is_empty() && limited_resources.is_empty() {
        return Ok(outcome);
    }
    let applying = applying_to(object, quotas)?;
    let (required, mut charging) = (RequiredValues::of(object), Vec::with_capacity(applying.len()));
    for quota in &applying {
        let refusal = required.check(quota).or_else(|| unknown_status(quota).filter(|_| change.refuses()));
        match refusal {
            Some(breach) => outcome.breaches.push(breach),
            None => charging.push(quota),
        }
    }
    if matches!(change, QuotaChange::Counted) || (charging.is_empty() && limited_resources.is_empty()) {
        return Ok(outcome);
    }
    let usage = ObjectUsage::of(object, now)?;
    if usage.has_negatives() {
        let list = usage.list(object.kind);
        let negative: Vec<&str> =
            list.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name.as_ref()).collect();
        if !negative.is_empty() {
            outcome.breaches.push(Breach::of_no_quota(QuotaFault::NegativeUsage { names: Names::of(&negative) }));
            return Ok(outcome);
        }
    }
    let Some(deltas) = Deltas::of(object, change, usage, &charging, now)? else {
        outcome.breaches.push(Breach::of_no_quota(QuotaFault::NoOldObject));
        return Ok(outcome);
    };
    if change.refuses() && !limited_resources.is_empty() && deltas.charge_anything(object.kind) {
        let applying: Vec<&ApplyingQuota<'_, 'd>> = applying.iter().collect();
        outcome.breaches.extend(limited_resources::check(object, &deltas.in_full, &applying, bounds)?);
    }
    for quota in charging {
        let (mut added, mut excesses) = (Vec::with_capacity(quota.bounds.len()), Vec::new());
        for &Bound { name, hard, charged, .. } in &quota.bounds {
            let amount = deltas.amount(quota.quota, charged);
            let (Some(amount), Some(level)) = (amount, quota.quota.used.get(name)) else { continue };
            let used = level.plus(&amount);
            if used > *hard {
                excesses.push(Excess {
                    name: name.clone(),
                    requested: amount.clone(),
                    used: level.clone(),
                    hard: hard.clone(),
                    origins: required.origins(charged),
                });
            }
            added.push(Added { name: name.clone(), amount, used, hard: hard.clone() });
        }
        outcome.charges.extend(quota.charge(added));
        if change.refuses() && !excesses.is_empty() {
            outcome.breaches.push(quota.breach(QuotaFault::Exceeded { excesses, forecast: None }));
        }
    }
    Ok(outcome)
}

fn applying_to<'q, 'd>(
    object: &QuotaObject<'_, 'd>,
    quotas: &'q [ResourceQuota<'d>],
) -> Result<Vec<ApplyingQuota<'q, 'd>>, Malformed> {
    let mut applying = Vec::with_capacity(quotas.len());
    for quota in quotas {
        let bounds = bounds_for(object, quota);
        if !bounds.is_empty() && scope::matches_all(object, quota)? {
            applying.push(ApplyingQuota { quota, bounds });
        }
    }
    Ok(applying)
}

/// The bounds of a quota that concern an object of this kind; none if none of them makes the quota apply.
fn bounds_for<'q, 'd>(object: &QuotaObject<'_, 'd>, quota: &'q ResourceQuota<'d>) -> Vec<Bound<'q, 'd>> {
    let bound = |(name, hard): (&'q ResourceName<'d>, &'q Quantity)| {
        let charged = object.kind.charged_under(name)?;
        Some(Bound { name, hard, charged, is_decisive: object.is_bounded_by(charged) })
    };
    let mut bounds: Vec<Bound<'q, 'd>> = quota.hard.iter().filter_map(bound).collect();
    if !bounds.iter().any(|bound| bound.is_decisive) {
        bounds.clear();
    }
    bounds
}

impl<'d> ApplyingQuota<'_, 'd> {
    /// None if nothing is added.
    fn charge(&self, added: Vec<Added<'d>>) -> Option<QuotaCharge<'d>> {
        let ResourceQuota { name, is_tenant, .. } = self.quota;
        (!added.is_empty()).then(|| QuotaCharge { quota: name.clone(), is_tenant: *is_tenant, added })
    }

    fn breach(&self, fault: QuotaFault<'d>) -> Breach<'d> {
        Breach { quota: Some(self.quota.name.clone()), is_tenant: self.quota.is_tenant, fault }
    }
}

/// A breach if the quota controller has not counted all that the quota bounds.
fn unknown_status<'d>(applying: &ApplyingQuota<'_, 'd>) -> Option<Breach<'d>> {
    let decisive = || applying.bounds.iter().filter(|bound| bound.is_decisive);
    if decisive().all(|bound| applying.quota.used.contains(bound.name)) {
        return None;
    }
    let names = decisive().map(|bound| bound.name.to_string()).collect();
    Some(applying.breach(QuotaFault::UnknownStatus { names }))
}

/// The amount that is available under a bound; never below zero.
fn free(hard: &Quantity, used: &Quantity) -> Quantity {
    if used < hard { hard.minus(used) } else { Quantity::ZERO }
}
