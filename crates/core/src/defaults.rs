//! Fills in missing values, as LimitRanger does, and repairs default limits below their requests.
//!
//! The first range that has a default for a name supplies it. A present key is not changed, even if it is zero.

use std::fmt;

use crate::amount::{Quantity, Requirement, ResourceName};
use crate::cut::shortened;
use crate::ranges::Range;
use crate::request::{Container, Origin, Pod, RangeName, Repair, Resources, Value};

/// Adds the default limits and requests of the ranges, for the resources that `may_set` allows.
pub fn fill<'d>(pod: &mut Pod<'d>, ranges: &[Range<'d>], may_set: impl Fn(&str) -> bool) {
    for container in &mut pod.containers {
        for range in ranges {
            for item in range.items_for(container) {
                for requirement in [Requirement::Limit, Requirement::Request] {
                    for (name, quantity) in item.defaults(requirement).iter() {
                        let values = container.resources.of_mut(requirement);
                        if !values.contains(name) && may_set(name) {
                            let origin = Origin::Default(range.name());
                            values.set(name.clone(), Value { quantity: quantity.clone(), origin });
                        }
                    }
                }
            }
        }
    }
}

/// A default limit below the request of the same resource, which makes the API server refuse the pod.
#[derive(Debug, Clone)]
pub struct LimitBelowRequest<'d> {
    pub container: String,
    pub resource: ResourceName<'d>,
    pub limit: Quantity,
    pub request: Quantity,
}

impl fmt::Display for LimitBelowRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { container, resource, limit, request } = self;
        write!(
            f,
            "container {container}: the default {resource} limit of {limit} is below the request of {request}, which \
             the API server refuses; set a {resource} limit of at least {request}"
        )
    }
}

/// Raises default limits below the request to the request, but never above a maximum.
pub fn repair<'d>(pod: &mut Pod<'d>, ranges: &[Range<'d>]) {
    for container in &mut pod.containers {
        for found in below_request(container).collect::<Vec<_>>() {
            let is_above_max = ranges
                .iter()
                .flat_map(|range| range.items_for(container))
                .any(|item| item.max.get(&found.resource).is_some_and(|max| found.request > *max));
            if is_above_max {
                continue; // The check of the bounds reports the request.
            }
            let supplier = supplier(container, ranges, &found.resource);
            if let Some(limit) = container.resources.limits.get_mut(&found.resource) {
                *limit = Value {
                    quantity: found.request,
                    origin: Origin::Repaired(Box::new(Repair { from: found.limit, range: supplier })),
                };
            }
        }
    }
}

/// The default limits that are still below their requests.
pub fn limits_below_requests<'a, 'd>(pod: &'a Pod<'d>) -> impl Iterator<Item = LimitBelowRequest<'d>> + use<'a, 'd> {
    pod.containers.iter().flat_map(below_request)
}

fn below_request<'a, 'd>(container: &'a Container<'d>) -> impl Iterator<Item = LimitBelowRequest<'d>> + use<'a, 'd> {
    let Resources { requests, limits } = &container.resources;
    limits.paired_with(requests).filter_map(|(name, limit, request)| {
        let request = &request?.quantity;
        (!limit.origin.is_authored() && limit.quantity < *request).then(|| LimitBelowRequest {
            container: shortened(&container.name).into_owned(),
            resource: name.clone(),
            limit: limit.quantity.clone(),
            request: request.clone(),
        })
    })
}

/// The range that supplies a default limit.
fn supplier<'d>(container: &Container<'d>, ranges: &[Range<'d>], resource: &str) -> Option<RangeName<'d>> {
    let mut suppliers =
        ranges.iter().filter(|range| range.items_for(container).any(|item| item.default_limit.contains(resource)));
    suppliers.next().map(Range::name)
}
