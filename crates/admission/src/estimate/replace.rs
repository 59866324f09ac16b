//! Decides whether an estimate takes the place of an author's value, where that was asked for: only on the workload's own
//! history, only for a change that is worth it, and never to the pod's harm. Otherwise the author's value stays, and the estimate
//! is reported beside it with the reason.

use std::borrow::Cow;

use super::explanation::{Adjustment, AdjustmentReason};
use super::fit_to_limits::units;
use super::history_lookup::Chosen;
use super::{Estimate, Estimates, readable};
use crate::actions::Purpose;
use crate::amount::{Quantity, Requirement, ResourceList};
use crate::cluster::Context;
use crate::cluster::lookup::Lookup;
use crate::cluster::usage::{Resource, Window};
use crate::request::{Container, EstimateOrigin, Pod, Value, ValueOrigin};
use crate::truncate::count_of;

/// The annotation of a pod that allows its limits to change with the requests that estimates replace.
pub const LIMITS: &str = "headroom.dev/limits";
pub const SCALE: &str = "scale";

/// The least days of the workload's own history.
const LEAST_DAYS: u64 = 7;
/// The least change, in percent of the author's value; and it is at least a small amount.
const LEAST_PERCENT: u64 = 20;

/// Removes the limit that a container's author set beside a request.
pub fn take_limit(container: &mut Container<'_>, resource: &str) -> Option<Quantity> {
    let is_authored =
        |requirement| container.resources.of(requirement).get(resource).is_some_and(|value| value.origin.is_authored());
    if !is_authored(Requirement::Request) || !is_authored(Requirement::Limit) {
        return None;
    }
    let limit = container.resources.quantity(Requirement::Limit, resource).cloned();
    container.resources.limits.remove(resource);
    limit
}

/// The most memory that the workload itself was seen to use; only where a limit moves, too, also what no request covers: at the
/// limit it would be killed.
pub fn peak(chosen: Option<&Chosen<'_>>, resource: Resource, moves_limit: bool) -> Option<Quantity> {
    let chosen = chosen.filter(|_| resource == Resource::Memory)?;
    let observed = chosen.history.observed(Window::Month, resource).ok().flatten().unwrap_or(chosen.observed);
    let (peak, not_covered) = (observed.peak().ok()?, observed.not_covered().ok()?);
    Some(not_covered.filter(|_| moves_limit).map_or_else(|| peak.clone(), |most| most.max(peak.clone())))
}

impl Estimate<'_> {
    /// Keeps the author's value if there is a reason to. `peak` is the most memory that was seen.
    pub fn replace_or_keep(&mut self, chosen: Option<&Chosen<'_>>, peak: Option<&Quantity>, context: &Context<'_>) {
        let Some(set) = self.set.clone() else { return };
        let own = chosen.filter(|chosen| chosen.is_of_workload);
        let days = own.and_then(|own| own.history.days().ok()?).unwrap_or(0);
        let is_unread = context.missing.iter().any(|missing| matches!(missing.lookup, Lookup::Autoscalers { .. }));
        let change = if self.quantity > set { self.quantity.minus(&set) } else { set.minus(&self.quantity) };
        let least = match self.target.resource {
            Resource::Cpu => Quantity::from_milli(10),
            Resource::Memory | Resource::EphemeralStorage => Quantity::from_bytes(16 << 20),
        };
        let why = if own.is_none() {
            "the workload has no history of its own".into()
        } else if days < LEAST_DAYS {
            format!("its own history has {}, {LEAST_DAYS} needed", count_of(days, "day")).into()
        } else if is_unread {
            "an unread autoscaler may scale by it".into()
        } else if change < least || change < set.scaled(LEAST_PERCENT, 100) {
            "the change is small".into()
        } else if let Some(peak) = peak.filter(|peak| self.quantity < **peak) {
            format!("the container has used {peak}").into()
        } else {
            return;
        };
        self.keep(why);
    }

    fn keep(&mut self, why: Cow<'static, str>) {
        self.target.purpose = Purpose::Comparison;
        self.only_reported = true;
        self.adjustments.push(Adjustment { from: self.quantity.clone(), reason: AdjustmentReason::Kept(why) });
    }

    /// The author's limit, changed in proportion to the request.
    pub fn scaled_limit<'o>(&self) -> Option<Value<'o>> {
        let (limit, set) = (self.limit.as_ref()?, self.set.as_ref().filter(|_| self.replaces())?);
        let quantity = if limit == set {
            self.quantity.clone()
        } else {
            readable(limit.scaled(units(&self.quantity), units(set)), self.target.resource)
        };
        let basis = format!("scaled with the request; in place of {limit} in the manifest");
        Some(Value {
            quantity,
            origin: ValueOrigin::Estimate(Box::new(EstimateOrigin { basis, skipped: String::new() })),
        })
    }

    pub fn replaces(&self) -> bool {
        self.target.purpose == Purpose::Replacement
    }

    /// True if the pod gets more than its author wrote.
    pub fn raises(&self) -> bool {
        self.replaces() && self.set.as_ref() < Some(&self.quantity)
    }
}

impl Estimates<'_> {
    pub fn keep_class(&mut self) {
        let replacements = self.estimates.iter_mut().filter(|estimate| estimate.replaces());
        replacements.for_each(|estimate| estimate.keep("the pod would get another QoS class".into()));
    }

    /// Keeps authors' values where a larger one does not fit a quota. Returns true if there were any.
    pub fn keep_within_quota(&mut self, exceeded: &ResourceList<'_>) -> bool {
        let mut any = false;
        for estimate in &mut self.estimates {
            if estimate.raises() && exceeded.get(estimate.target.resource.name()).is_some() {
                estimate.keep("a quota has no room for more".into());
                any = true;
            }
        }
        any
    }
}

/// The part of a pod's QoS class that requests can change: true if all its containers have limits that equal their requests.
pub fn is_guaranteed(pod: &Pod<'_>) -> bool {
    pod.containers.iter().all(|container| {
        [Resource::Cpu, Resource::Memory].iter().all(|resource| {
            let amount = |requirement| {
                container.resources.quantity(requirement, resource.name()).filter(|amount| amount.is_positive())
            };
            let limit = amount(Requirement::Limit);
            limit.is_some() && amount(Requirement::Request) == limit
        })
    })
}
