//! LimitRanger's own annotation: the values that the API server's plugin set before we saw the pod, and the same text
//! for the defaults that we set.
//!
//! The annotation is trusted only for a value that still is a range's default, so that a person who copies a running
//! pod and edits a value is its author. Where several ranges set defaults, LimitRanger overwrites its annotation with
//! what the last one set; for the others, `managedFields` shows what the author sent.

use std::borrow::Cow;

use super::headroom_annotation;
use crate::find;
use crate::json::{Document, Malformed, Node};
use crate::limit_rules::Range;
use crate::request::pod::ContainerIndex;
use crate::request::{Container, Pod, Requirement, Resources, ValueOrigin};
use crate::sort;
use crate::truncate::shortened;

pub const LIMIT_RANGER: &str = "kubernetes.io/limit-ranger";
const PREFIX: &str = "LimitRanger plugin set: ";

/// Marks LimitRanger's values, except those known to be ours. `ranges` are those that it may have used, if known.
pub fn mark<'d>(pod: &mut Pod<'d>, ranges: Option<&[Range<'d>]>) -> Result<(), Malformed> {
    let Some(text) = pod.annotation(LIMIT_RANGER)? else { return Ok(()) };
    let Some(clauses) = text.strip_prefix(PREFIX) else { return Ok(()) };
    let index = ContainerIndex::of(&pod.containers);
    let defaults = ranges.map(|ranges| defaults(pod, ranges));
    // If we evaluated the pod before, these values are ours, or we left them as they were: they are not replaced.
    let is_evaluated = pod.annotation(headroom_annotation::NAME)?.is_some();
    let origin = if is_evaluated { ValueOrigin::Earlier("".into()) } else { ValueOrigin::LimitRanger };
    for clause in find::split(clauses, "; ") {
        mark_clause(pod, &index, clause, defaults.as_deref(), &origin);
    }
    let (Some(ranges), Some(defaults)) = (ranges, defaults) else { return Ok(()) };
    mark_unnamed(pod, &index, ranges, &defaults)?;
    pod.containers.iter_mut().for_each(|container| mark_copies(container, ranges));
    Ok(())
}

/// A value of a container: the place of the container, and what the value is of.
type Place<'n> = (usize, Requirement, Cow<'n, str>);

/// The values that equal the default of some range; in order, if they are many. They are listed once, because an
/// annotation may name a value many times, and whether a rule by image applies takes as long as the image's name.
fn defaults<'d>(pod: &Pod<'d>, ranges: &[Range<'d>]) -> Vec<Place<'d>> {
    let mut found = Vec::new();
    for (place, container) in pod.containers.iter().enumerate() {
        for item in ranges.iter().flat_map(|range| range.items_for(container)) {
            for requirement in Requirement::BOTH {
                for (name, default) in item.defaults(requirement).iter() {
                    if container.resources.quantity(requirement, name) == Some(default) {
                        found.push((place, requirement, name.clone()));
                    }
                }
            }
        }
    }
    if found.len() > FEW {
        sort_values(&mut found);
    }
    found
}

/// Sorts values as their tuples compare.
fn sort_values(values: &mut Vec<Place<'_>>) {
    if values.is_sorted() {
        return;
    }
    sort::by_text(values, |(_, _, name)| name);
    sort::by_number(values, |(container, requirement, _)| container * 2 + *requirement as usize);
}

/// Up to this many values a scan is cheaper than sorting and searching.
const FEW: usize = 16;

fn contains(defaults: &[Place<'_>], value: &Place<'_>) -> bool {
    if defaults.len() <= FEW { defaults.contains(value) } else { defaults.binary_search(value).is_ok() }
}

/// `<names> request for container <c>` or `<names> limit for init container <i>`
fn mark_clause<'d>(
    pod: &mut Pod<'d>,
    index: &ContainerIndex,
    clause: &str,
    defaults: Option<&[Place<'d>]>,
    origin: &ValueOrigin<'d>,
) {
    let Some((what, container)) = find::split_once(clause, " for ") else { return };
    let (is_init, name) = match container.strip_prefix("init container ") {
        Some(name) => (true, name),
        None => (false, container.strip_prefix("container ").unwrap_or_default()),
    };
    let Some((names, requirement)) = what.rsplit_once(' ') else { return };
    let Some(requirement) = Requirement::BOTH.into_iter().find(|have| have.noun() == requirement) else { return };
    let Some(place) = index.find(&pod.containers, is_init, name) else { return };
    let Some(container) = pod.containers.get_mut(place) else { return };
    for resource in find::split(names, ", ") {
        let named = (place, requirement, Cow::Borrowed(resource));
        if defaults.is_none_or(|defaults| contains(defaults, &named)) {
            mark_authored(container, requirement, resource, origin);
        }
    }
}

fn mark_authored<'d>(
    container: &mut Container<'d>,
    requirement: Requirement,
    resource: &str,
    origin: &ValueOrigin<'d>,
) {
    // Unless the value is known to be ours.
    if let Some(value) = container.resources.of_mut(requirement).get_mut(resource)
        && value.origin.is_authored()
    {
        value.origin = origin.clone();
    }
}

/// Marks the defaults of the ranges that LimitRanger used before the last one, which its annotation no longer names.
fn mark_unnamed<'d>(
    pod: &mut Pod<'d>,
    index: &ContainerIndex,
    ranges: &[Range<'d>],
    defaults: &[Place<'d>],
) -> Result<(), Malformed> {
    let of_cluster = ranges.iter().filter(|range| matches!(range, Range::LimitRange(_)));
    if of_cluster.count() < 2 {
        return Ok(());
    }
    let Some(managed) = pod.node.at(&["metadata", "managedFields"])? else { return Ok(()) };
    let Some(sent) = sent_values(managed, &pod.containers, index) else { return Ok(()) };
    for default in defaults {
        let (place, requirement, name) = default;
        if let (Err(_), Some(container)) = (sent.binary_search(default), pod.containers.get_mut(*place)) {
            mark_authored(container, *requirement, name, &ValueOrigin::LimitRanger);
        }
    }
    Ok(())
}

/// The values that a client sent: all with a field manager, in order; none if that cannot be read.
fn sent_values<'n>(managed: Node<'_>, containers: &[Container<'_>], index: &ContainerIndex) -> Option<Vec<Place<'n>>> {
    // Read only here, because nothing else needs it.
    let document = Document::read(managed.text()).ok()?;
    let mut sent = Vec::new();
    for manager in document.root().items().ok()? {
        let Some(spec) = manager.at(&["fieldsV1", "f:spec"]).ok()? else { continue };
        for (field, is_init) in [("f:containers", false), ("f:initContainers", true)] {
            let Some(list) = spec.get(field).ok()? else { continue };
            for (key, fields) in list.fields().ok()? {
                let place = container_of(&key.str().ok()?, containers, index, is_init);
                let (Some(place), Some(resources)) = (place, fields.get("f:resources").ok()?) else { continue };
                for (requirement, field) in [(Requirement::Request, "f:requests"), (Requirement::Limit, "f:limits")] {
                    for (name, _) in resources.get(field).ok()?.into_iter().flat_map(Node::fields).flatten() {
                        let name = name.str().ok()?;
                        sent.extend(name.strip_prefix("f:").map(|name| (place, requirement, name.to_owned().into())));
                    }
                }
            }
        }
    }
    sort_values(&mut sent);
    Some(sent)
}

/// The container of a key such as `k:{"name":"web"}`.
fn container_of(key: &str, containers: &[Container<'_>], index: &ContainerIndex, is_init: bool) -> Option<usize> {
    let document = Document::read(key.strip_prefix("k:")?).ok()?;
    index.find(containers, is_init, &document.root().string("name").ok()??)
}

/// Marks copies of LimitRanger's limits. After a webhook's change the API server copies a limit without a request into
/// the request, and such a copy is not the author's. But if a range has a default request, LimitRanger would have set
/// and annotated that one, so an equal request is the author's own.
fn mark_copies<'d>(container: &mut Container<'d>, ranges: &[Range<'d>]) {
    let Resources { requests, limits } = &container.resources;
    let mut copies: Vec<Cow<'d, str>> = Vec::new();
    for (name, limit, request) in limits.paired_with(requests) {
        if limit.origin == ValueOrigin::LimitRanger && request.is_some_and(|request| request.quantity == limit.quantity)
        {
            copies.push(name.clone());
        }
    }
    if copies.is_empty() {
        return;
    }
    for item in ranges.iter().flat_map(|range| range.items_for(container)) {
        copies.retain(|name| !item.default_request.contains(name));
    }
    for name in copies {
        // An estimate of ours may be equal to the limit.
        mark_authored(container, Requirement::Request, &name, &ValueOrigin::LimitRanger);
    }
}

/// The annotation as LimitRanger would write it for the defaults that we set, and for those that it set before us; none
/// if we set no default.
pub fn text(pod: &Pod<'_>) -> Option<String> {
    let mut has_new = false;
    let mut text = String::with_capacity(256);
    text.push_str(PREFIX);
    for container in &pod.containers {
        for requirement in Requirement::BOTH {
            let mut is_first = true;
            for (name, value) in container.resources.of(requirement).iter() {
                has_new |= matches!(value.origin, ValueOrigin::Default(_));
                if matches!(value.origin, ValueOrigin::Default(_) | ValueOrigin::LimitRanger) {
                    text.push_str(match (is_first, text.len() == PREFIX.len()) {
                        (false, _) => ", ",
                        (true, true) => "",
                        (true, false) => "; ",
                    });
                    text.push_str(name);
                    is_first = false;
                }
            }
            if !is_first {
                for piece in [" ", requirement.noun(), " for ", container.role.noun(), " ", &shortened(&container.name)]
                {
                    text.push_str(piece);
                }
            }
        }
    }
    has_new.then_some(text)
}
