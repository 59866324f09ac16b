//! Tells an author's values from those that others put in before we saw the pod.
//!
//! The API server's LimitRanger runs before any webhook and names what it added in an annotation; we do the same in
//! ours. Both are believed only where the value still is what they say, so that a person who copies a running pod
//! and edits a value remains its author.

use std::borrow::Cow;

use super::ranges::Range;
use crate::answer::annotation;
use crate::json::Malformed;
use crate::request::Request;
use crate::request::template::{Bound, Container, Origin, PodTemplate, Role};

pub const LIMIT_RANGER: &str = "kubernetes.io/limit-ranger";
pub const LIMIT_RANGER_PREFIX: &str = "LimitRanger plugin set: ";

/// The pod as the API server completes it, each value marked with who spoke it. `ranges` are those the LimitRanger may
/// have used, if known.
pub fn marked<'d>(
    pod: PodTemplate<'d>,
    request: &Request<'_>,
    ranges: Option<&[Range<'_, 'd>]>,
) -> Result<PodTemplate<'d>, Malformed> {
    let mut pod = pod.as_the_api_server_completes_it(request);
    if let Some(text) = pod.annotation(LIMIT_RANGER)? {
        mark_limit_rangers(&mut pod, &text, ranges);
    }
    if let Some(text) = pod.annotation(annotation::NAME)? {
        mark_earlier(&mut pod, &text);
    }
    Ok(pod)
}

/// `<names> request for container <c>; <names> limit for init container <i>; …`
fn mark_limit_rangers<'d>(pod: &mut PodTemplate<'d>, text: &str, ranges: Option<&[Range<'_, 'd>]>) {
    let Some(clauses) = text.strip_prefix(LIMIT_RANGER_PREFIX) else { return };
    for clause in clauses.split("; ") {
        let Some((what, container)) = clause.split_once(" for ") else { continue };
        let (is_init, name) = match container.strip_prefix("init container ") {
            Some(name) => (true, name),
            None => (false, container.strip_prefix("container ").unwrap_or_default()),
        };
        let Some((names, bound)) = what.rsplit_once(' ') else { continue };
        let bound = match bound {
            "request" => Bound::Request,
            "limit" => Bound::Limit,
            _ => continue,
        };
        let found = pod.containers.iter_mut().find(|have| have.name == name && (have.role != Role::Main) == is_init);
        let Some(container) = found else { continue };
        for resource in names.split(", ") {
            mark_if_default(container, bound, resource, ranges);
        }
    }
    for container in &mut pod.containers {
        mark_copies(container, ranges);
    }
}

fn mark_if_default(container: &mut Container<'_>, bound: Bound, resource: &str, ranges: Option<&[Range<'_, '_>]>) {
    let Some(quantity) = container.resources.quantity(bound, resource) else { return };
    let is_default = ranges.is_none_or(|ranges| {
        ranges.iter().flat_map(|range| range.items_for(container)).any(|item| {
            let list = match bound {
                Bound::Request => &item.default_request,
                Bound::Limit => &item.default_limit,
            };
            list.get(resource) == Some(quantity)
        })
    });
    if let Some(value) = container.resources.of_mut(bound).get_mut(resource)
        && is_default
    {
        value.origin = Origin::LimitRanger;
    }
}

/// After a webhook's change the API server copies a limit that has no request into the request. Such a copy of a
/// LimitRanger's limit is no author's; but where a range has a default request, LimitRanger would have set that one
/// and said so, and an equal request is the author's own.
fn mark_copies(container: &mut Container<'_>, ranges: Option<&[Range<'_, '_>]>) {
    let Some(ranges) = ranges else { return };
    let has_default_request = |container: &Container<'_>, resource: &str| {
        ranges.iter().flat_map(|range| range.items_for(container)).any(|item| item.default_request.contains(resource))
    };
    let copies: Vec<String> = container
        .resources
        .limits
        .iter()
        .filter(|(name, limit)| {
            limit.origin == Origin::LimitRanger
                && container.resources.quantity(Bound::Request, name) == Some(&limit.quantity)
                && !has_default_request(container, name)
        })
        .map(|(name, _)| name.to_string())
        .collect();
    for name in copies {
        if let Some(request) = container.resources.requests.get_mut(&name) {
            request.origin = Origin::LimitRanger;
        }
    }
}

fn mark_earlier(pod: &mut PodTemplate<'_>, text: &str) {
    annotation::read(text, |claim| {
        let found = pod.containers.iter_mut().find(|container| container.name == claim.container);
        let Some(container) = found else { return };
        if let Some(value) = container.resources.of_mut(claim.bound).get_mut(claim.resource)
            && value.quantity.to_string() == claim.value
        {
            value.origin = Origin::Earlier(Cow::Owned(claim.reason.to_owned()));
        }
    });
}
