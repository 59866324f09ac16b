//! What a pod asks for in total.
//!
//! Main containers run together; init containers run one after another before them; a sidecar starts in its turn
//! among the init containers and stays. So the total of a resource is the largest of what runs together in the end
//! and of each moment on the way there. See <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>.
//!
//! LimitRanges and quotas start from that total and go on differently: quotas add the overhead of the sandbox, and
//! count a pod that is being resized by the most it may hold.

use super::pod::{Pod, Role};
use super::resize;
use crate::amount::{Bound, Quantity, ResourceList, ResourceName};
use crate::json::Malformed;
use crate::order;

/// The total over the containers, requests or limits. A name counts if any container has it.
pub fn of_containers<'d>(pod: &Pod<'d>, bound: Bound) -> ResourceList<'d> {
    total(pod.containers.iter().map(|container| {
        let asked = container.resources.of(bound).iter();
        (container.role, asked.map(|(name, value)| (name, &value.quantity)))
    }))
}

/// The total of what single containers ask for, each name for itself.
pub(super) fn total<'a, 'd: 'a, A>(containers: impl Iterator<Item = (Role, A)>) -> ResourceList<'d>
where
    A: Iterator<Item = (&'a ResourceName<'d>, &'a Quantity)>,
{
    let mut asked: Vec<(&ResourceName<'d>, Role, &Quantity)> = Vec::new();
    for (role, list) in containers {
        asked.extend(list.map(|(name, quantity)| (name, role, quantity)));
    }
    // The sort is stable: within a name, containers stay in their order.
    order::sort_by(&mut asked, |(a, ..), (b, ..)| a.cmp(b));
    let mut total = ResourceList::default();
    for of_name in asked.chunk_by(|(a, ..), (b, ..)| a == b) {
        if let [(name, _, first), rest @ ..] = of_name {
            let total_of_name = if rest.is_empty() { (*first).clone() } else { total_of_name(of_name) };
            total.set((*name).clone(), total_of_name);
        }
    }
    total
}

fn total_of_name(asked: &[(&ResourceName<'_>, Role, &Quantity)]) -> Quantity {
    let (mut together, mut sidecars, mut peak) = (None, None, None::<Quantity>);
    let plus =
        |sum: &Option<Quantity>, more: &Quantity| sum.as_ref().map_or_else(|| more.clone(), |sum| sum.plus(more));
    for (_, role, quantity) in asked {
        match role {
            Role::Main => together = Some(plus(&together, quantity)),
            // The peak of a sidecar is the sum of the sidecars up to it, which the sum of all of them covers.
            Role::Sidecar => sidecars = Some(plus(&sidecars, quantity)),
            Role::Init => {
                let with_sidecars = plus(&sidecars, quantity);
                peak = peak.filter(|peak| *peak >= with_sidecars).or(Some(with_sidecars));
            }
        }
    }
    let at_last = match (together, &sidecars) {
        (Some(together), Some(sidecars)) => Some(together.plus(sidecars)),
        (together, sidecars) => together.or_else(|| sidecars.clone()),
    };
    match (at_last, peak) {
        (Some(at_last), Some(peak)) if peak > at_last => peak,
        (at_last, peak) => at_last.or(peak).unwrap_or(Quantity::ZERO),
    }
}

/// The total as LimitRanges of type Pod see it: pod-level cpu and memory replace the sum.
pub fn as_limit_ranges_see_it<'d>(pod: &Pod<'d>, bound: Bound) -> ResourceList<'d> {
    let mut total = of_containers(pod, bound);
    override_by_pod_level(&mut total, pod, bound, |name| matches!(name, "cpu" | "memory"));
    total
}

/// The total as quotas see it: what a resize in progress may hold, pod-level resources in the place of the sum, and
/// the overhead on top; on a limit only where there is one.
pub fn as_quotas_see_it<'d>(pod: &Pod<'d>, bound: Bound) -> Result<ResourceList<'d>, Malformed> {
    let of_spec = of_containers(pod, bound);
    if pod.resources.is_empty() {
        let mut total = resize::largest_total(pod, bound, &of_spec)?.unwrap_or(of_spec);
        add_overhead(&mut total, pod, bound);
        return Ok(total);
    }
    let mut total = of_spec;
    override_by_pod_level(&mut total, pod, bound, is_pod_level);
    // What the pod level does not cover may be resized by container.
    if let Some(largest) = resize::largest_total(pod, bound, &total)? {
        for (name, quantity) in largest.iter() {
            if !pod.resources.of(bound).contains(name) {
                total.set(name.clone(), quantity.clone());
            }
        }
    }
    add_overhead(&mut total, pod, bound);
    Ok(total)
}

/// Puts pod-level values in the place of sums. A request below the sum is one that the API server refuses, or drops.
fn override_by_pod_level<'d>(
    total: &mut ResourceList<'d>,
    pod: &Pod<'d>,
    bound: Bound,
    is_supported: impl Fn(&str) -> bool,
) {
    for (name, value) in pod.resources.of(bound).iter() {
        let is_below = bound == Bound::Request && total.get(name).is_some_and(|sum| *sum > value.quantity);
        if is_supported(name) && !is_below {
            total.set(name.clone(), value.quantity.clone());
        }
    }
}

fn add_overhead<'d>(total: &mut ResourceList<'d>, pod: &Pod<'d>, bound: Bound) {
    for (name, overhead) in pod.overhead.iter() {
        if bound == Bound::Request || total.get(name).is_some_and(|limit| !limit.is_zero()) {
            total.add(name, overhead);
        }
    }
}

/// Whether a pod may set the resource for all its containers together.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}
