//! Fills in missing values, as LimitRanger does, and repairs default limits below their requests.
//!
//! The first range that has a default for a name supplies it. A present key is not changed, even if it is zero.

use crate::amount::{ByResource, Quantity, Requirement, ResourceName};
use crate::limit_rules::Range;
use crate::request::{Container, Pod, RangeName, Repair, Resources, Value, ValueOrigin};

/// Adds the default limits and requests of the ranges, for the resources that `may_set` allows.
pub fn fill<'d>(pod: &mut Pod<'d>, ranges: &[Range<'d>], may_set: impl Fn(&str) -> bool) {
    for container in &mut pod.containers {
        for range in ranges {
            for item in range.items_for(container) {
                for requirement in [Requirement::Limit, Requirement::Request] {
                    for (name, quantity) in item.defaults(requirement).iter() {
                        let values = container.resources.of_mut(requirement);
                        if !values.contains(name) && may_set(name) {
                            let origin = ValueOrigin::Default(range.name());
                            values.set(name.clone(), Value { quantity: quantity.clone(), origin });
                        }
                    }
                }
            }
        }
    }
}

/// A default limit that is to be raised to the request.
struct Raise<'d> {
    limit: Quantity,
    request: Quantity,
    is_above_max: bool,
    /// The range that supplies the limit.
    supplier: Option<RangeName<'d>>,
}

/// Raises default limits below the request to the request, but never above a maximum.
pub fn repair<'d>(pod: &mut Pod<'d>, ranges: &[Range<'d>]) {
    for container in &mut pod.containers {
        let raise = |(name, limit, request): (&ResourceName<'d>, &Quantity, &Quantity)| {
            let (limit, request) = (limit.clone(), request.clone());
            (name.clone(), Raise { limit, request, is_above_max: false, supplier: None })
        };
        let mut raises = ByResource::in_order(limits_below_requests(container).map(raise));
        if raises.is_empty() {
            continue;
        }
        for range in ranges {
            for item in range.items_for(container) {
                for (name, max) in item.max.iter() {
                    if let Some(raise) = raises.get_mut(name) {
                        raise.is_above_max |= raise.request > *max;
                    }
                }
                for name in item.default_limit.names() {
                    if let Some(raise) = raises.get_mut(name) {
                        raise.supplier.get_or_insert_with(|| range.name());
                    }
                }
            }
        }
        for (name, Raise { limit: from, request: quantity, is_above_max, supplier: range }) in raises {
            if is_above_max {
                continue; // The check of the bounds reports the request.
            }
            if let Some(limit) = container.resources.limits.get_mut(&name) {
                *limit = Value { quantity, origin: ValueOrigin::Repaired(Box::new(Repair { from, range })) };
            }
        }
    }
}

/// Default limits below the request of the same resource, which make the API server refuse the pod: resource, limit and
/// request.
pub fn limits_below_requests<'a, 'd>(
    container: &'a Container<'d>,
) -> impl Iterator<Item = (&'a ResourceName<'d>, &'a Quantity, &'a Quantity)> {
    let Resources { requests, limits } = &container.resources;
    limits.paired_with(requests).filter_map(|(name, limit, request)| {
        let request = &request?.quantity;
        (!limit.origin.is_authored() && limit.quantity < *request).then_some((name, &limit.quantity, request))
    })
}
