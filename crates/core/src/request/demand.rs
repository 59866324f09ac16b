//! What a pod asks for in all.
//!
//! Main containers run together; init containers run one after another before them; a sidecar starts in its turn
//! among the init containers and stays. So the total of a resource is the largest of what runs together in the end
//! and of each moment on the way there. See <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>.
//!
//! LimitRanges and quotas start from that total and go on differently: quotas add the overhead of the sandbox, and
//! count a pod that is being resized by the most it may hold.

use super::resize;
use super::template::{Bound, PodTemplate, Role};
use crate::amount::{Quantity, ResourceList, ResourceName};
use crate::json::Malformed;

/// The total over the containers, requests or limits. A name counts if any container has it.
pub fn of_containers<'d>(pod: &PodTemplate<'d>, bound: Bound) -> ResourceList<'d> {
    total(pod.containers.iter().map(|container| {
        let asked = container.resources.of(bound).iter();
        (container.role, asked.map(|(name, value)| (name, &value.quantity)))
    }))
}

/// The total of what single containers ask for.
pub(super) fn total<'a, 'd: 'a, A>(containers: impl Iterator<Item = (Role, A)>) -> ResourceList<'d>
where
    A: Iterator<Item = (&'a ResourceName<'d>, &'a Quantity)>,
{
    let mut together = ResourceList::default();
    let mut sidecars = ResourceList::default();
    let mut peaks = ResourceList::default();
    for (role, asked) in containers {
        match role {
            Role::Main => asked.for_each(|(name, quantity)| together.add(name, quantity)),
            Role::Sidecar => asked.for_each(|(name, quantity)| sidecars.add(name, quantity)),
            Role::Init => {
                let mut peak = sidecars.clone();
                asked.for_each(|(name, quantity)| peak.add(name, quantity));
                peaks.raise_to(&peak);
            }
        }
    }
    // The peak of a sidecar is the sum of the sidecars up to it, which the sum of all of them covers.
    together.add_all(&sidecars);
    together.raise_to(&peaks);
    together
}

/// The total as LimitRanges of type Pod see it: pod-level cpu and memory replace the sum, even if smaller.
pub fn as_limit_ranges_see_it<'d>(pod: &PodTemplate<'d>, bound: Bound) -> ResourceList<'d> {
    let mut total = of_containers(pod, bound);
    for (name, value) in pod.resources.of(bound).iter() {
        if matches!(name.as_ref(), "cpu" | "memory") {
            total.set(name.clone(), value.quantity.clone());
        }
    }
    total
}

/// The total as quotas see it: what a resize in progress may hold, pod-level resources in the place of the sum, even
/// if smaller, and the overhead on top; on a limit only where there is one.
pub fn as_quotas_see_it<'d>(pod: &PodTemplate<'d>, bound: Bound) -> Result<ResourceList<'d>, Malformed> {
    let mut total = match resize::largest_total(pod, bound)? {
        Some(largest) => largest,
        None => of_containers(pod, bound),
    };
    for (name, value) in pod.resources.of(bound).iter() {
        if is_pod_level(name) {
            total.set(name.clone(), value.quantity.clone());
        }
    }
    for (name, overhead) in pod.overhead.iter() {
        if bound == Bound::Request || total.get(name).is_some_and(|limit| !limit.is_zero()) {
            total.add(name, overhead);
        }
    }
    Ok(total)
}

/// Whether a pod may set the resource for all its containers together.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}
