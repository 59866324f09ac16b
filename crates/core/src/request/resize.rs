//! What a running pod may hold while it is being resized, read from its status.
//!
//! Three numbers can differ then: what the spec wishes, what the node has set aside, and what the container has. A
//! quota counts the largest. A wish that the node cannot ever grant is left out.
//! See <https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/>.

use super::demand;
use super::template::{Bound, Container, PodTemplate, Role};
use crate::amount::ResourceList;
use crate::json::{Malformed, Node};

/// The largest total of spec, allocated and actual resources; none if the status has no numbers.
pub(super) fn largest_total<'d>(pod: &PodTemplate<'d>, bound: Bound) -> Result<Option<ResourceList<'d>>, Malformed> {
    let Some(status) = pod.node.get("status")? else { return Ok(None) };
    if status.fields()?.next().is_none() {
        return Ok(None); // A new pod.
    }
    let mut containers = Vec::with_capacity(pod.containers.len());
    let mut has_numbers = false;
    for container in &pod.containers {
        let reported = Reported::read(status, container, bound)?;
        has_numbers |= reported.allocated.is_some() || reported.actual.is_some();
        containers.push((container, reported));
    }
    if !has_numbers {
        return Ok(None);
    }
    let is_infeasible = is_infeasible(status)?;
    let spec = |container: &Container<'d>| -> ResourceList<'d> {
        let values = container.resources.of(bound).iter();
        values.map(|(name, value)| (name.clone(), value.quantity.clone())).collect()
    };
    let total = |list_of: &dyn Fn(&Container<'d>, &Reported<'d>) -> ResourceList<'d>| {
        let lists: Vec<(Role, ResourceList<'d>)> =
            containers.iter().map(|(container, reported)| (container.role, list_of(container, reported))).collect();
        demand::total(lists.iter().map(|(role, list)| (*role, list.iter())))
    };
    // A container without numbers counts as its spec says, in every total, unless the spec is left out.
    let fallback = |container: &Container<'d>, reported: &Reported<'d>| {
        if is_infeasible && reported.is_there { ResourceList::default() } else { spec(container) }
    };
    let mut largest = total(&|container, reported| {
        let list = reported.actual.clone().or_else(|| reported.allocated.clone());
        list.unwrap_or_else(|| fallback(container, reported))
    });
    if bound == Bound::Request {
        largest.raise_to(&total(&|container, reported| {
            reported.allocated.clone().unwrap_or_else(|| fallback(container, reported))
        }));
    }
    if !is_infeasible {
        largest.raise_to(&demand::of_containers(pod, bound));
    }
    Ok(Some(largest))
}

/// What the status says of one container.
struct Reported<'d> {
    is_there: bool,
    allocated: Option<ResourceList<'d>>,
    actual: Option<ResourceList<'d>>,
}

impl<'d> Reported<'d> {
    fn read(status: Node<'d>, container: &Container<'d>, bound: Bound) -> Result<Self, Malformed> {
        let field = match container.role {
            Role::Main => "containerStatuses",
            Role::Init | Role::Sidecar => "initContainerStatuses",
        };
        let mut reported = Self { is_there: false, allocated: None, actual: None };
        for entry in status.list(field)? {
            if entry.string("name")?.as_deref() != Some(container.name.as_ref()) {
                continue;
            }
            reported.is_there = true;
            // Nodes set aside requests only.
            if bound == Bound::Request {
                reported.allocated = entry.get("allocatedResources")?.map(ResourceList::read).transpose()?;
            }
            reported.actual = entry.at(&["resources", bound.field()])?.map(ResourceList::read).transpose()?;
        }
        Ok(reported)
    }
}

fn is_infeasible(status: Node<'_>) -> Result<bool, Malformed> {
    for condition in status.list("conditions")? {
        if condition.string("type")?.as_deref() == Some("PodResizePending") {
            return Ok(condition.string("reason")?.as_deref() == Some("Infeasible"));
        }
    }
    Ok(false)
}
