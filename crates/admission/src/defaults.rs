//! Fills in missing values, as LimitRanger does, and repairs default limits below their requests.
//!
//! The first range that has a default for a name supplies it. A present key is not changed, even if it is zero.

use std::fmt;

use crate::amount::{ByResource, Quantity, Requirement, ResourceName};
use crate::limit_rules::Range;
use crate::request::{Container, Pod, RangeName, Repair, Resources, Value, ValueOrigin};
use crate::truncate::shortened;

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
             the API server rejects; set a {resource} limit of at least {request}"
        )
    }
}

struct Raise<'d> {
    found: LimitBelowRequest<'d>,
    is_above_max: bool,
    /// The range that supplies the limit.
    supplier: Option<RangeName<'d>>,
}

/// Raises default limits below the request to the request, but never above a maximum.
pub fn repair<'d>(pod: &mut Pod<'d>, ranges: &[Range<'d>]) {
    for container in &mut pod.containers {
        let raise = |found: LimitBelowRequest<'d>| Raise { found, is_above_max: false, supplier: None };
        let found = below_request(container).map(|found| (found.resource.clone(), raise(found)));
        let mut raises = ByResource::in_order(found);
        if raises.is_empty() {
            continue;
        }
        for range in ranges {
            for item in range.items_for(container) {
                for (name, max) in item.max.iter() {
                    if let Some(raise) = raises.get_mut(name) {
                        raise.is_above_max |= raise.found.request > *max;
                    }
                }
                for name in item.default_limit.names() {
                    if let Some(raise) = raises.get_mut(name) {
                        raise.supplier.get_or_insert_with(|| range.name());
                    }
                }
            }
        }
        for (name, Raise { found, is_above_max, supplier }) in raises {
            if is_above_max {
                continue; // The check of the bounds reports the request.
            }
            if let Some(limit) = container.resources.limits.get_mut(&name) {
                *limit = Value {
                    quantity: found.request,
                    origin: ValueOrigin::Repaired(Box::new(Repair { from: found.limit, range: supplier })),
                };
            }
        }
    }
}

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
