//! Judges a request against the namespace's ResourceQuotas as Kubernetes' own admission does, and says what is
//! missing and what would fit.
//!
//! Only a quota's status counts: `status.hard` for the bounds, `status.used` for the level. A quota applies to an
//! object if it bounds a name that the object's kind is charged under, and the object matches all its scopes.
//! Kubernetes stops at the first refusal; here every quota that refuses is told, Kubernetes' own first.
//! See <https://kubernetes.io/docs/concepts/policy/resource-quotas/>.

mod breach;
mod charge;
mod cover;
mod doubt;
mod kind;
pub mod recalculate;
mod scope;
mod specify;
mod usage;
pub mod workload;

use crate::amount::{Quantity, ResourceList};
use crate::context::resource_quota::ResourceQuota;
use crate::json::{Malformed, Node};
use crate::request::PodTemplate;
use crate::settings::LimitedResource;
use crate::timestamp::Timestamp;

pub use breach::{Breach, Excess, Fault, Growth, Surge};
pub use charge::{Added, Change, Charge};
pub use doubt::doubtful;
pub use kind::{Kind, Measure};
pub use scope::{attributes_classes, matches as matches_scope};
pub use usage::of as usage_of;

/// An object as quotas see it.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a, 'd> {
    pub kind: Kind<'a>,
    pub node: Node<'d>,
    /// What the object says as a pod, if it is one.
    pub pod: Option<&'a PodTemplate<'d>>,
}

/// What an object is held against.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a, 'd> {
    /// In the order in which they are told.
    pub quotas: &'a [ResourceQuota<'d>],
    pub limited_resources: &'a [LimitedResource<'d>],
    pub now: Option<Timestamp>,
}

/// What quotas say to a request.
#[derive(Debug, Clone, Default)]
pub struct Outcome<'d> {
    /// Everything that refuses it, Kubernetes' own reason first.
    pub breaches: Vec<Breach<'d>>,
    /// What the request adds to each quota, or would add if nothing refused it.
    pub charges: Vec<Charge<'d>>,
}

/// Judges one object.
pub fn check<'d>(
    object: &Object<'_, 'd>,
    change: &Change<'_, 'd>,
    bounds: &Bounds<'_, 'd>,
) -> Result<Outcome<'d>, Malformed> {
    let Bounds { quotas, limited_resources, now } = *bounds;
    let mut outcome = Outcome::default();
    if quotas.is_empty() && limited_resources.is_empty() {
        return Ok(outcome);
    }
    let mut applying = Vec::new();
    for quota in applying_to(object, quotas)? {
        let mut refusal = specify::check(object, quota)?;
        if refusal.is_none() && change.refuses() {
            refusal = unknown_status(object, quota);
        }
        match refusal {
            Some(breach) => outcome.breaches.push(breach),
            None => applying.push(quota),
        }
    }
    if !change.charges() {
        return Ok(outcome);
    }
    let usage = usage::of(object, now)?;
    let negative: Vec<String> =
        usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name.to_string()).collect();
    if !negative.is_empty() {
        outcome.breaches.push(Breach { quota: None, fault: Fault::NegativeUsage { names: negative } });
        return Ok(outcome);
    }
    let Some(deltas) = charge::deltas(object, change, usage, &applying, now)? else {
        outcome.breaches.push(Breach { quota: None, fault: Fault::NoOldObject });
        return Ok(outcome);
    };
    if deltas.is_nothing() {
        return Ok(outcome);
    }
    if change.refuses() {
        outcome.breaches.extend(cover::check(object, &deltas.in_full, &applying, bounds)?);
    }
    for quota in applying {
        let delta = deltas.of(quota);
        let mut excesses = outcome.charge(quota, |name| delta.get(name).cloned());
        if let Some(pod) = object.pod {
            excesses.iter_mut().for_each(|excess| excess.origins = specify::origins(pod, &excess.name));
        }
        if change.refuses() && !excesses.is_empty() {
            let fault = Fault::Exceeded { excesses, growth: None };
            outcome.breaches.push(Breach { quota: Some(quota.name.clone()), fault });
        }
    }
    Ok(outcome)
}

impl<'d> Outcome<'d> {
    /// Charges a quota with the amounts asked for under its names, and tells the bounds that do not hold then.
    fn charge(&mut self, quota: &ResourceQuota<'d>, amount: impl Fn(&str) -> Option<Quantity>) -> Vec<Excess<'d>> {
        let (mut added, mut excesses) = (Vec::new(), Vec::new());
        for (name, hard) in quota.hard.iter() {
            let (Some(amount), Some(level)) = (amount(name), quota.used.get(name)) else { continue };
            let used = level.plus(&amount);
            if used > *hard {
                let (requested, used, hard) = (amount.clone(), level.clone(), hard.clone());
                excesses.push(Excess { name: name.clone(), requested, used, hard, origins: Vec::new() });
            }
            added.push(Added { name: name.clone(), amount, used });
        }
        if !added.is_empty() {
            self.charges.push(Charge { quota: quota.name.clone(), added });
        }
        excesses
    }
}

/// The quotas that apply to an object.
fn applying_to<'q, 'd>(
    object: &Object<'_, '_>,
    quotas: &'q [ResourceQuota<'d>],
) -> Result<Vec<&'q ResourceQuota<'d>>, Malformed> {
    let mut applying = Vec::new();
    for quota in quotas {
        if object.kind.names_in(&quota.hard).next().is_some() && scope::matches_all(object, quota)? {
            applying.push(quota);
        }
    }
    Ok(applying)
}

/// The quota controller has not counted yet what the quota bounds.
fn unknown_status<'d>(object: &Object<'_, '_>, quota: &ResourceQuota<'d>) -> Option<Breach<'d>> {
    let is_counted = object.kind.names_in(&quota.hard).all(|name| quota.used.contains(name));
    if is_counted {
        return None;
    }
    let names = object.kind.names_in(&quota.hard).map(ToString::to_string).collect();
    Some(Breach { quota: Some(quota.name.clone()), fault: Fault::UnknownStatus { names } })
}

/// What is left of a bound; never below zero.
fn free(quota: &ResourceQuota<'_>, name: &str) -> Option<Quantity> {
    let (hard, used) = (quota.hard.get(name)?, quota.used.get(name)?);
    Some(if used < hard { hard.minus(used) } else { Quantity::ZERO })
}

/// `list` without what it has none of.
fn without_zeros<'d>(list: ResourceList<'d>) -> ResourceList<'d> {
    list.into_iter().filter(|(_, amount)| !amount.is_zero()).collect()
}
