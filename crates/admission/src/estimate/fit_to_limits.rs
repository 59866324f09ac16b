//! Shrinks or drops estimates where the whole pod would not fit: under the pod's maximum, within a quota, or within any
//! other bound of the ranges that only the estimates break.

use super::explanation::{Adjustment, AdjustmentReason};
use super::{Estimate, Estimates};
use crate::amount::{Quantity, ResourceList};
use crate::cluster::usage::Resource;
use crate::limits::{BoundTarget, Breach, Breaches, LimitFault};
use crate::request::{Pod, Requirement, Role};
use crate::settings::PerResource;

/// At most this many rounds shrink. One may not be enough, because limits derived from the requests change with them.
const MAX_ROUNDS: u8 = 4;

pub fn may_shrink(round: u8) -> bool {
    round < MAX_ROUNDS
}

impl<'d> Estimates<'d> {
    /// Changes the estimates that make `filled`, the pod with estimates and defaults, break bounds. Returns whether
    /// anything changed; then the pod must be filled again.
    pub fn fit_to_limits(&mut self, filled: &Pod<'d>, breaches: &Breaches<'d>, round: u8) -> bool {
        let mut changed = false;
        for breach in breaches.first.iter().filter(|breach| is_about_an_amount(&breach.fault)) {
            let resource = breach.resource.as_ref();
            if !self.estimates.iter().any(|estimate| estimate.is_part_of(&breach.subject, resource, filled)) {
                continue;
            }
            changed |= match (&breach.subject, &breach.fault) {
                (BoundTarget::Pod, LimitFault::AboveMax { max, requirement, .. }) if may_shrink(round) => {
                    let reason = AdjustmentReason::PodMax(breach.range.clone());
                    self.shrink_to(max, *requirement, resource, filled, &Quantity::ZERO, &reason)
                        || self.withdraw(breach, filled)
                }
                _ => self.withdraw(breach, filled),
            };
        }
        if !changed && breaches.more > 0 && self.sets_any_value() {
            // The breaches beyond the first ones are not known individually.
            self.estimates.retain(|estimate| estimate.only_reported);
            self.notes.push("no estimates, because too many bounds are broken".to_owned());
            changed = true;
        }
        changed
    }

    /// Raises the largest estimate of each resource of which the pod requests less than it must. Admission does not: the author chooses
    /// the container that takes what the others leave.
    pub fn reach_pod_min(&mut self, breaches: &Breaches<'d>, round: u8) -> bool {
        let mut changed = false;
        for breach in breaches.first.iter().filter(|breach| breach.subject == BoundTarget::Pod && may_shrink(round)) {
            let LimitFault::BelowMin { min, requirement: Requirement::Request, found, .. } = &breach.fault else {
                continue;
            };
            let of_resource =
                self.estimates.iter_mut().filter(|of| of.target.resource.name() == breach.resource.as_ref());
            let Some(largest) = of_resource.max_by(|a, b| a.quantity.cmp(&b.quantity)) else { continue };
            let quantity = largest.quantity.plus(&min.minus(found));
            let from = std::mem::replace(&mut largest.quantity, quantity);
            largest.adjustments.push(Adjustment { from, reason: AdjustmentReason::PodMin(breach.range.clone()) });
            changed = true;
        }
        changed
    }

    /// Shrinks estimates so that the pod's requests fit into what the quotas have left (`free`), but not below `floor`.
    /// If that is not enough, nothing changes, and the quota evaluates the estimates as they are.
    pub fn fit_to_quota(&mut self, filled: &Pod<'d>, free: &ResourceList<'_>, floor: &PerResource<Quantity>) -> bool {
        let mut changed = false;
        for resource in Resource::ALL {
            let (name, floor, reason) = (resource.name(), floor.of(resource), AdjustmentReason::Quota);
            if let Some(free) = free.get(name) {
                changed |= self.shrink_to(free, Requirement::Request, name, filled, floor, &reason);
            }
        }
        changed
    }

    /// Drops estimates; then the ranges evaluate the pod without them.
    fn withdraw(&mut self, breach: &Breach<'d>, pod: &Pod<'d>) -> bool {
        let resource = breach.resource.as_ref();
        let before = self.estimates.len();
        let subject = &breach.subject;
        self.estimates.retain(|estimate| !estimate.is_part_of(subject, resource, pod));
        let changed = self.estimates.len() < before;
        if changed {
            self.notes.push(format!("{subject}: {resource} estimate dropped: {breach} ({})", breach.range));
        }
        changed
    }

    /// Shrinks estimates until the total of a resource is at most `most`. If that is impossible, nothing changes and
    /// the result is false.
    fn shrink_to(
        &mut self,
        most: &Quantity,
        requirement: Requirement,
        resource: &str,
        pod: &Pod<'d>,
        floor: &Quantity,
        reason: &AdjustmentReason<'d>,
    ) -> bool {
        let mut smaller = Vec::new();
        for together in running_together(pod) {
            let values = together
                .iter()
                .filter_map(|index| pod.containers.get(*index)?.resources.quantity(requirement, resource));
            let total = values.fold(Quantity::ZERO, |total, value| total.plus(value));
            if total <= *most {
                continue;
            }
            let Some(found) = self.shares(&total.minus(most), resource, &together, floor) else { return false };
            smaller.extend(found);
        }
        let changed = !smaller.is_empty();
        for (index, quantity) in smaller {
            let Some(estimate) = self.estimates.get_mut(index) else { continue };
            if quantity < estimate.quantity {
                let from = std::mem::replace(&mut estimate.quantity, quantity);
                // Several rounds are shown as one change.
                if !matches!(estimate.adjustments.last(), Some(last) if last.reason == *reason) {
                    estimate.adjustments.push(Adjustment { from, reason: reason.clone() });
                }
            }
        }
        changed
    }

    /// Shrinks the estimates of some containers, so that their sum is smaller by `excess`: each shrinks in
    /// proportion to its distance from its minimum.
    fn shares(
        &self,
        excess: &Quantity,
        resource: &str,
        containers: &[usize],
        floor: &Quantity,
    ) -> Option<Vec<(usize, Quantity)>> {
        let mut spare = Vec::new();
        let mut total_spare = Quantity::ZERO;
        for (index, estimate) in self.estimates.iter().enumerate() {
            let is_among =
                containers.contains(&estimate.target.container) && estimate.target.resource.name() == resource;
            if is_among && !estimate.only_reported {
                let least = estimate.least.clone().max(floor.clone());
                let spared = estimate.quantity.minus(&least);
                if spared.is_positive() {
                    total_spare = total_spare.plus(&spared);
                    spare.push((index, least, spared));
                }
            }
        }
        if total_spare < *excess {
            return None;
        }
        let den = units(&total_spare);
        let mut shrunk = Vec::new();
        for (index, least, spared) in spare {
            let quantity = &self.estimates.get(index)?.quantity;
            let share = excess.scaled(units(&spared), den).min(spared);
            shrunk.push((index, rounded_down(&quantity.minus(&share)).max(least)));
        }
        Some(shrunk)
    }
}

impl Estimate<'_> {
    /// True if it contributes to a breach of this resource by a subject.
    fn is_part_of(&self, subject: &BoundTarget<'_>, resource: &str, pod: &Pod<'_>) -> bool {
        let is_of = match subject {
            BoundTarget::Container(name) => {
                pod.containers.get(self.target.container).is_some_and(|container| container.name == *name)
            }
            BoundTarget::Pod => true,
            BoundTarget::Claim | BoundTarget::ClaimTemplate(_) => false,
        };
        is_of && !self.only_reported && self.target.resource.name() == resource
    }
}

/// Faults that another amount of the request may cause or fix. A missing limit is not one of them.
fn is_about_an_amount(fault: &LimitFault) -> bool {
    match fault {
        LimitFault::BelowMin { .. } | LimitFault::AboveMax { .. } | LimitFault::AboveRatio { .. } => true,
        LimitFault::NoValueForRatio { requirement, .. } => *requirement == Requirement::Request,
        LimitFault::NoRequestForMin { .. } | LimitFault::NoValueForMax { .. } => false,
    }
}

/// The groups of containers that run at the same time: the main containers with all sidecars, and each init container
/// with the sidecars before it.
fn running_together(pod: &Pod<'_>) -> Vec<Vec<usize>> {
    let mut main = Vec::new();
    let mut sidecars = Vec::new();
    let mut groups = Vec::new();
    for (index, container) in pod.containers.iter().enumerate() {
        match container.role {
            Role::Main => main.push(index),
            Role::Sidecar => sidecars.push(index),
            Role::Init => groups.push(sidecars.iter().copied().chain([index]).collect()),
        }
    }
    main.extend(sidecars);
    groups.insert(0, main);
    groups
}

/// The amount in thousandths, at least 1; precise enough for proportions.
pub(super) fn units(quantity: &Quantity) -> u64 {
    u64::try_from(quantity.milli_value()).unwrap_or(u64::MAX).max(1)
}

/// Rounded down to thousandths, or to whole Mi from 1Mi on, so that the sum stays within the bound.
fn rounded_down(quantity: &Quantity) -> Quantity {
    let step = if *quantity >= Quantity::from_units(1 << 20) {
        Quantity::from_bytes(1 << 20)
    } else {
        Quantity::from_milli(1)
    };
    let up = quantity.rounded_up_to_multiple_of(&step);
    if up > *quantity { up.minus(&step) } else { up }
}
