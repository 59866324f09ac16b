//! Keeps an estimate within what the ranges allow in the container, so that no estimate causes a refusal.

use super::explanation::{Adjustment, AdjustmentReason};
use super::rounding;
use crate::amount::Quantity;
use crate::cluster::usage::Resource;
use crate::limit_rules::Range;
use crate::request::{Container, RangeName, Requirement};

#[derive(Debug)]
pub struct Capped<'d> {
    pub quantity: Quantity,
    /// The least that the ranges allow.
    pub least: Quantity,
    pub adjustments: Vec<Adjustment<'d>>,
}

/// Lowers to the maximum, then raises to the minimum and to what the ratio of limit to request requires. A default
/// limit below the estimate bounds it only if such limits are not raised (`repairs`).
pub fn fit<'d>(
    estimate: Quantity,
    container: &Container<'d>,
    resource: Resource,
    ranges: &[Range<'d>],
    repairs: bool,
) -> Capped<'d> {
    let mut capped = Capped { quantity: estimate, least: Quantity::ZERO, adjustments: Vec::new() };
    let name = resource.name();
    let items = || ranges.iter().flat_map(|range| range.items_for(container).map(move |item| (range, item)));
    for (range, item) in items() {
        if let Some(max) = item.max.get(name) {
            capped.lower_to(max, AdjustmentReason::Max(range.name()));
        }
    }
    let limit = final_limit(container, ranges, name);
    if let Some((limit, range)) = &limit
        && !repairs
    {
        capped.lower_to(limit, AdjustmentReason::Limit(range.clone()));
    }
    for (range, item) in items() {
        if let Some(min) = item.min.get(name) {
            capped.raise_to(min, AdjustmentReason::Min(range.name()));
        }
    }
    if let Some((limit, _)) = &limit {
        for (range, item) in items() {
            let Some(ratio) = item.max_ratio.get(name).filter(|ratio| ratio.is_positive()) else { continue };
            if let Ok(milli @ 1..) = u64::try_from(ratio.milli_value()) {
                let least = limit.scaled(1_000, milli);
                // A rounded amount is easier to read, as long as it does not exceed the limit.
                let rounded = least.rounded_up_to_multiple_of(&rounding(resource));
                let least = if rounded <= *limit { rounded } else { least };
                capped.raise_to(&least, AdjustmentReason::Ratio(range.name()));
            }
        }
    }
    capped
}

/// The limit that the container has or will get, and the range that sets it, if that is known.
fn final_limit<'d>(
    container: &Container<'d>,
    ranges: &[Range<'d>],
    resource: &str,
) -> Option<(Quantity, Option<RangeName<'d>>)> {
    if let Some(limit) = container.resources.quantity(Requirement::Limit, resource) {
        return Some((limit.clone(), None));
    }
    ranges.iter().find_map(|range| {
        let limit = range.items_for(container).find_map(|item| item.default_limit.get(resource))?;
        Some((limit.clone(), Some(range.name())))
    })
}

impl<'d> Capped<'d> {
    fn lower_to(&mut self, most: &Quantity, reason: AdjustmentReason<'d>) {
        if self.quantity > *most {
            self.adjustments.push(Adjustment { from: self.quantity.clone(), reason });
            self.quantity = most.clone();
        }
    }

    fn raise_to(&mut self, least: &Quantity, reason: AdjustmentReason<'d>) {
        if self.quantity < *least {
            self.adjustments.push(Adjustment { from: self.quantity.clone(), reason });
            self.quantity = least.clone();
        }
        self.least = self.least.clone().max(least.clone());
    }
}
