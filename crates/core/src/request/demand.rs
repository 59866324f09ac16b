//! What a pod asks for in all.
//!
//! Main containers run together; init containers run one after another before them; a sidecar starts in its turn
//! among the init containers and stays. So the total of a resource is the largest of what runs together in the end
//! and of each moment on the way there. See <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>.

use super::template::{Bound, PodTemplate, Role};
use crate::amount::ResourceList;

/// The total over the containers, requests or limits. A name counts if any container has it.
pub fn of_containers<'d>(pod: &PodTemplate<'d>, bound: Bound) -> ResourceList<'d> {
    let mut together = ResourceList::default();
    let mut sidecars = ResourceList::default();
    let mut peaks = ResourceList::default();
    for container in &pod.containers {
        let asked = container.resources.of(bound);
        match container.role {
            Role::Main => asked.iter().for_each(|(name, value)| together.add(name, &value.quantity)),
            Role::Sidecar => asked.iter().for_each(|(name, value)| sidecars.add(name, &value.quantity)),
            Role::Init => {
                let mut peak = sidecars.clone();
                asked.iter().for_each(|(name, value)| peak.add(name, &value.quantity));
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
