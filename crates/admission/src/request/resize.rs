//! The resources that a running pod may hold while it is being resized, read from its status.
//!
//! Three amounts can differ then: those of the spec, those allocated by the node, and the container's actual ones. A
//! quota counts the largest. A spec that the node reports as infeasible is left out, as far as [`InfeasibleSpec`] says.
//! See <https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/>.

use super::pod::{Container, ContainerIndex, InfeasibleSpec, Pod, Role};
use super::total::total;
use crate::amount::{Requirement, ResourceList};
use crate::json::{Malformed, Node};

/// The largest total of spec, allocated and actual resources, and whether the spec is left out; none if the status reports
/// no amounts.
pub(super) fn largest_total<'d>(
    pod: &Pod<'d>,
    requirement: Requirement,
    of_spec: &ResourceList<'d>,
) -> Result<Option<(ResourceList<'d>, bool)>, Malformed> {
    let Some(status) = pod.status else { return Ok(None) };
    let reported = read_all(status, pod, requirement)?;
    let is_left_out = is_spec_left_out(pod, status)?;
    if pod.is_largest_by_container {
        return Ok(Some((largest_by_container(pod, requirement, &reported, is_left_out), is_left_out)));
    }
    if !is_left_out && reported.iter().all(|reported| reported.allocated.is_none() && reported.actual.is_none()) {
        return Ok(None);
    }
    let total_of = |list_of: for<'r> fn(&'r Reported<'d>) -> Option<&'r ResourceList<'d>>| {
        total(pod.containers.iter().zip(&reported).map(|(container, reported)| {
            let list = list_of(reported);
            // A container without reported amounts counts with its spec in every total, unless the spec is left out.
            let spec = (list.is_none() && !is_left_out).then(|| container.resources.of(requirement).iter());
            let spec = spec.into_iter().flatten().map(|(name, value)| (name, &value.quantity));
            (container.role, list.into_iter().flat_map(ResourceList::iter).chain(spec))
        }))
    };
    let mut largest = total_of(|reported| reported.actual.as_ref().or(reported.allocated.as_ref()));
    if requirement == Requirement::Request {
        largest.raise_to(&total_of(|reported| reported.allocated.as_ref()));
    }
    if !is_left_out {
        largest.raise_to(of_spec);
    }
    Ok(Some((largest, is_left_out)))
}

/// The total of the largest amounts of each container. Without reported resources, and before the main containers run,
/// the spec counts in any case.
fn largest_by_container<'d>(
    pod: &Pod<'d>,
    requirement: Requirement,
    reported: &[Reported<'d>],
    is_left_out: bool,
) -> ResourceList<'d> {
    let largest = |(container, reported): (&Container<'d>, &Reported<'d>)| {
        let counts = reported.has_resources && container.role != Role::Init;
        let spec = container.resources.of(requirement).iter().filter(|_| !(counts && is_left_out));
        let mut largest = ResourceList::in_order(spec.map(|(name, value)| (name.clone(), value.quantity.clone())));
        for list in [&reported.allocated, &reported.actual].into_iter().flatten().filter(|_| counts) {
            largest.raise_to(list);
        }
        (container.role, largest)
    };
    let largest: Vec<_> = pod.containers.iter().zip(reported).map(largest).collect();
    total(largest.iter().map(|(role, list)| (*role, list.iter())))
}

/// The amounts that the status reports for one container.
#[derive(Default)]
struct Reported<'d> {
    has_resources: bool,
    allocated: Option<ResourceList<'d>>,
    actual: Option<ResourceList<'d>>,
}

fn read_all<'d>(status: Node<'d>, pod: &Pod<'d>, requirement: Requirement) -> Result<Vec<Reported<'d>>, Malformed> {
    let mut all: Vec<Reported<'d>> = pod.containers.iter().map(|_| Reported::default()).collect();
    let index = ContainerIndex::of(&pod.containers);
    for (field, is_init) in [("containerStatuses", false), ("initContainerStatuses", true)] {
        for entry in status.list(field)? {
            let name = entry.string("name")?.unwrap_or_default();
            let place = index.find(&pod.containers, is_init, &name);
            let Some(reported) = place.and_then(|place| all.get_mut(place)) else { continue };
            // Nodes allocate requests only.
            if requirement == Requirement::Request {
                reported.allocated = entry.get("allocatedResources")?.map(ResourceList::read).transpose()?;
            }
            reported.has_resources = entry.get("resources")?.is_some();
            reported.actual = entry.at(&["resources", requirement.field()])?.map(ResourceList::read).transpose()?;
        }
    }
    Ok(all)
}

fn is_spec_left_out(pod: &Pod<'_>, status: Node<'_>) -> Result<bool, Malformed> {
    if pod.infeasible_spec == InfeasibleSpec::Counts {
        return Ok(false);
    }
    for condition in status.list("conditions")? {
        if condition.string("type")?.as_deref() != Some("PodResizePending") {
            continue;
        }
        let is_infeasible = condition.string("reason")?.as_deref() == Some("Infeasible");
        let is_reported = || -> Result<bool, Malformed> {
            let generation = pod.node.at(&["metadata", "generation"])?.map(Node::integer).transpose()?;
            let observed = condition.get("observedGeneration")?.map(Node::integer).transpose()?;
            Ok(observed.is_some() && observed == generation)
        };
        return Ok(is_infeasible && (pod.infeasible_spec == InfeasibleSpec::LeftOut || is_reported()?));
    }
    Ok(false)
}
