//! The request of a whole pod, as the scheduler and quotas count it, and what each recommendation changes of it.

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;

use crate::advice::workload::ContainerAdvice;

/// The amount that a pod requests less with the recommendation for the container at a place; less than nothing if it requests more.
/// All of a pod add up to its whole change.
pub fn saved(containers: &[ContainerAdvice], place: usize, resource: Resource) -> Option<Quantity> {
    containers.get(place)?.resource(resource)?.recommended.as_ref()?;
    Some(of_pod(containers, place, resource).minus(&of_pod(containers, place + 1, resource)))
}

/// The request of a pod in which the first containers have what is recommended: that of the containers that run together, or of an
/// init container with the sidecars before it, if that is more.
fn of_pod(containers: &[ContainerAdvice], changed: usize, resource: Resource) -> Quantity {
    let [mut main, mut sidecars, mut start] = [Quantity::ZERO, Quantity::ZERO, Quantity::ZERO];
    for (place, container) in containers.iter().enumerate() {
        let Some(advice) = container.resource(resource) else { continue };
        let now = advice.request.as_ref().map(|request| &request.value);
        let then = advice.recommended.as_ref().filter(|_| place < changed);
        let Some(amount) = then.or(now) else { continue };
        if container.runs_at_start {
            start = start.max(sidecars.plus(amount));
        } else if container.is_init {
            sidecars = sidecars.plus(amount);
        } else {
            main = main.plus(amount);
        }
    }
    main.plus(&sidecars).max(start)
}

/// The largest request of an init container, if a lower request of the container at a place frees less because of it.
pub fn held_by_init(containers: &[ContainerAdvice], place: usize, resource: Resource) -> Option<Quantity> {
    let advice = containers.get(place).filter(|of| !of.runs_at_start)?.resource(resource)?;
    let own = advice.request.as_ref()?.value.minus(advice.recommended.as_ref()?);
    let largest = containers.iter().filter(|of| of.runs_at_start);
    let largest = largest.filter_map(|of| Some(&of.resource(resource)?.request.as_ref()?.value)).max()?;
    (saved(containers, place, resource)? < own).then(|| largest.clone())
}
