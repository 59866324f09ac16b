//! The request of a whole pod, as the scheduler and quotas count it, and what each recommendation changes of it.

use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;

/// The change of a request that a pod has as a whole. It displays as `cpu 2 -> 350m`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLevel {
    pub resource: Resource,
    pub from: Quantity,
    pub to: Quantity,
}

impl fmt::Display for PodLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.resource.name(), self.from, self.to)
    }
}

/// A container of a pod, with its request of a resource now and as recommended.
pub struct PodPart<'a> {
    pub is_init: bool,
    pub runs_at_start: bool,
    pub now: Option<&'a Quantity>,
    pub then: Option<&'a Quantity>,
}

/// The amount that a pod requests less with the recommendation for the container at a place; less than nothing if it requests more.
/// All of a pod add up to its whole change.
pub fn saved(parts: &[PodPart<'_>], place: usize) -> Option<Quantity> {
    parts.get(place)?.then?;
    Some(of_pod(parts, place).minus(&of_pod(parts, place + 1)))
}

/// The request of a pod in which the first containers have what is recommended: that of the containers that run together, or of an
/// init container with the sidecars before it, if that is more.
pub fn of_pod(parts: &[PodPart<'_>], changed: usize) -> Quantity {
    let [mut main, mut sidecars, mut start] = [Quantity::ZERO, Quantity::ZERO, Quantity::ZERO];
    for (place, part) in parts.iter().enumerate() {
        let Some(amount) = part.then.filter(|_| place < changed).or(part.now) else { continue };
        if part.runs_at_start {
            start = start.max(sidecars.plus(amount));
        } else if part.is_init {
            sidecars = sidecars.plus(amount);
        } else {
            main = main.plus(amount);
        }
    }
    main.plus(&sidecars).max(start)
}

/// The largest request of an init container, if a lower request of the container at a place frees less because of it.
pub fn held_by_init(parts: &[PodPart<'_>], place: usize) -> Option<Quantity> {
    let part = parts.get(place).filter(|of| !of.runs_at_start)?;
    let own = part.now?.minus(part.then?);
    let largest = parts.iter().filter(|of| of.runs_at_start).filter_map(|of| of.now).max()?;
    (saved(parts, place)? < own).then(|| largest.clone())
}
