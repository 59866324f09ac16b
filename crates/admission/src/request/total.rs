//! The sum of a resource over the containers of a pod, by the phases in which they run.
//!
//! Main containers run together; init containers run one after another before them; a sidecar starts in its place
//! among the init containers and keeps running. So the total is the largest over two phases: all main containers with
//! all sidecars, and each init container with the sidecars before it.
//! See <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>.

use super::pod::Role;
use crate::amount::{Quantity, ResourceList, ResourceName};
use crate::sort;

pub(super) fn total<'a, 'd: 'a, A>(containers: impl Iterator<Item = (Role, A)>) -> ResourceList<'d>
where
    A: Iterator<Item = (&'a ResourceName<'d>, &'a Quantity)>,
{
    /// Up to this many names are summed without sorting, which is cheaper. Most pods have no more.
    const FEW: usize = 8;
    let mut containers = containers;
    let mut first = containers.next();
    let second = containers.next();
    if let (Some((_, list)), None) = (&mut first, &second) {
        return ResourceList::in_order(list.map(|(name, quantity)| (name.clone(), quantity.clone())));
    }
    let mut few: Vec<(&'a ResourceName<'d>, Total)> = Vec::new();
    let mut others: Vec<(&'a ResourceName<'d>, Role, &'a Quantity)> = Vec::new();
    for (role, list) in first.into_iter().chain(second).chain(containers) {
        // No list has a name twice.
        let known = few.len();
        for (name, quantity) in list {
            let has_room = few.len() < FEW;
            match few.iter_mut().take(known).find(|(have, _)| *have == name) {
                Some((_, total)) => total.add(role, quantity),
                None if has_room => few.push((name, Total::of(role, quantity))),
                None => others.push((name, role, quantity)),
            }
        }
    }
    // For each name, containers stay in their order.
    sort::by_text(&mut others, |(name, ..)| name);
    let mut totals = Vec::with_capacity(few.len() + others.len());
    totals.extend(few.into_iter().map(|(name, total)| (name.clone(), total.amount())));
    for of_name in others.chunk_by(|(a, ..), (b, ..)| a == b) {
        let mut total = Total::default();
        of_name.iter().for_each(|(_, role, quantity)| total.add(*role, quantity));
        totals.extend(of_name.first().map(|(name, ..)| ((*name).clone(), total.amount())));
    }
    totals.into_iter().collect()
}

/// The total of one resource, added up container by container in their order.
#[derive(Default)]
struct Total {
    main: Option<Quantity>,
    sidecars: Option<Quantity>,
    /// The largest total at any moment before the main containers start.
    before: Option<Quantity>,
}

impl Total {
    fn of(role: Role, quantity: &Quantity) -> Self {
        let mut total = Self::default();
        total.add(role, quantity);
        total
    }

    fn add(&mut self, role: Role, quantity: &Quantity) {
        match role {
            Role::Main => self.main = Some(plus(&self.main, quantity)),
            // The peak of a sidecar is the sum of the sidecars up to it, which the sum of all of them covers.
            Role::Sidecar => self.sidecars = Some(plus(&self.sidecars, quantity)),
            Role::Init => {
                // In this order, because the sum is printed with the suffixes of its first amount.
                let with_sidecars = self.sidecars.as_ref().map_or_else(|| quantity.clone(), |sum| quantity.plus(sum));
                if self.before.as_ref().is_none_or(|before| *before < with_sidecars) {
                    self.before = Some(with_sidecars);
                }
            }
        }
    }

    fn amount(self) -> Quantity {
        let running = match (self.main, self.sidecars) {
            (Some(main), Some(sidecars)) => Some(main.plus(&sidecars)),
            (main, sidecars) => main.or(sidecars),
        };
        match (running, self.before) {
            (Some(running), Some(before)) if before > running => before,
            (running, before) => running.or(before).unwrap_or(Quantity::ZERO),
        }
    }
}

fn plus(sum: &Option<Quantity>, more: &Quantity) -> Quantity {
    sum.as_ref().map_or_else(|| more.clone(), |sum| sum.plus(more))
}
