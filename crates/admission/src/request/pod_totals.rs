//! The total requests and limits of a pod.
//!
//! LimitRanges and quotas start from this total, but quotas also add the pod overhead, and count a pod that is being
//! resized by the most it may hold.

use std::cmp::Reverse;

use super::origin::ValueOrigin;
use super::pod::{Pod, Role};
use super::resize;
use super::total::total;
use crate::amount::{Quantity, Requirement, ResourceList};
use crate::json::Malformed;
use crate::truncate::Names;

/// The total over the containers, requests or limits. A name counts if any container has it.
pub fn of_containers<'d>(pod: &Pod<'d>, requirement: Requirement) -> ResourceList<'d> {
    of_some(pod, requirement, &|_| true)
}

fn of_some<'d>(pod: &Pod<'d>, requirement: Requirement, is_wanted: &dyn Fn(&str) -> bool) -> ResourceList<'d> {
    total(pod.containers.iter().map(|container| {
        let asked = container.resources.of(requirement).iter().filter(|(name, _)| is_wanted(name));
        (container.role, asked.map(|(name, value)| (name, &value.quantity)))
    }))
}

/// The place of the init container during which a pod has more of a resource than later, if there is one.
pub fn peak_at_start(pod: &Pod<'_>, requirement: Requirement, resource: &str) -> Option<usize> {
    let (mut main, mut sidecars, mut peak) = (Quantity::ZERO, Quantity::ZERO, None::<(Quantity, Reverse<usize>)>);
    for (place, container) in pod.containers.iter().enumerate() {
        let Some(amount) = container.resources.quantity(requirement, resource) else { continue };
        match container.role {
            Role::Main => main = main.plus(amount),
            Role::Sidecar => sidecars = sidecars.plus(amount),
            Role::Init => peak = peak.max(Some((sidecars.plus(amount), Reverse(place)))),
        }
    }
    peak.filter(|(most, _)| *most > main.plus(&sidecars)).map(|(_, Reverse(place))| place)
}

/// The sources of the amounts in a total that no author wrote: `500m of container web: default of LimitRange limits`.
pub fn origins(pod: &Pod<'_>, requirement: Requirement, resource: &str) -> Names {
    let mut origins = Names::default();
    let of_pod = pod.resources.of(requirement).get(resource);
    if of_pod.is_some_and(|value| value.origin == ValueOrigin::Author) {
        return origins;
    }
    let peak = peak_at_start(pod, requirement, resource);
    for (place, container) in pod.containers.iter().enumerate() {
        let is_charged = match container.role {
            Role::Init => peak == Some(place),
            Role::Sidecar => peak.is_none_or(|peak| place < peak),
            Role::Main => peak.is_none(),
        };
        let value = container.resources.of(requirement).get(resource);
        if let Some(value) = value.filter(|value| is_charged && !value.origin.is_authored()) {
            origins.add_with(|| {
                format!("{} of {} {}: {}", value.quantity, container.role.noun(), container.name, value.origin)
            });
        }
    }
    origins
}

/// The total as LimitRanges of type Pod see it: pod-level cpu and memory replace the sum. Only for the wanted names,
/// because a pod may have thousands of names that no LimitRange has.
pub fn as_limit_ranges_see_it<'d>(
    pod: &Pod<'d>,
    requirement: Requirement,
    is_wanted: &dyn Fn(&str) -> bool,
) -> ResourceList<'d> {
    let mut total = of_some(pod, requirement, is_wanted);
    override_by_pod_level(&mut total, pod, requirement, |name| matches!(name, "cpu" | "memory") && is_wanted(name));
    total
}

/// The total as quotas see it: the most that a resize in progress may hold, pod-level resources instead of the sum,
/// and the overhead added; to limits only where there is one.
pub fn as_quotas_see_it<'d>(pod: &Pod<'d>, requirement: Requirement) -> Result<ResourceList<'d>, Malformed> {
    let of_spec = of_containers(pod, requirement);
    if pod.resources.is_empty() {
        let mut total = resize::largest_total(pod, requirement, &of_spec)?.map_or(of_spec, |(largest, _)| largest);
        add_overhead(&mut total, pod, requirement);
        return Ok(total);
    }
    let mut total = of_spec;
    override_by_pod_level(&mut total, pod, requirement, is_pod_level);
    // Resources not set at pod level may be resized by container.
    if let Some((largest, is_spec_left_out)) = resize::largest_total(pod, requirement, &total)? {
        let of_pod = total.paired_with(pod.resources.of(requirement)).filter(|(.., of_pod)| of_pod.is_some());
        let mut of_both = ResourceList::in_order(of_pod.map(|(name, quantity, _)| (name.clone(), quantity.clone())));
        of_both.complete_with(&largest);
        if !is_spec_left_out {
            of_both.complete_with(&total);
        }
        total = of_both;
    }
    add_overhead(&mut total, pod, requirement);
    Ok(total)
}

/// Replaces sums by pod-level values. The API server refuses or drops a request below the sum.
fn override_by_pod_level<'d>(
    total: &mut ResourceList<'d>,
    pod: &Pod<'d>,
    requirement: Requirement,
    is_supported: impl Fn(&str) -> bool,
) {
    let of_pod = pod.resources.of(requirement);
    if of_pod.is_empty() {
        return;
    }
    let counts = |name: &str, value: &Quantity, sum: Option<&Quantity>| {
        let is_below = requirement == Requirement::Request && sum.is_some_and(|sum| sum > value);
        is_supported(name) && !is_below
    };
    let counted = of_pod.paired_with(total).filter(|(name, value, sum)| counts(name, &value.quantity, *sum));
    let mut counted = ResourceList::in_order(counted.map(|(name, value, _)| (name.clone(), value.quantity.clone())));
    counted.complete_with(total);
    *total = counted;
}

fn add_overhead<'d>(total: &mut ResourceList<'d>, pod: &Pod<'d>, requirement: Requirement) {
    if requirement == Requirement::Request {
        total.add_all(&pod.overhead);
        return;
    }
    for (name, overhead) in pod.overhead.iter() {
        if let Some(limit) = total.get_mut(name).filter(|limit| !limit.is_zero()) {
            *limit = limit.plus(overhead);
        }
    }
}

/// True if a pod may set the resource for all its containers together.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}
