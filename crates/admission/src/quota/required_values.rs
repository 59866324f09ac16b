//! A quota on cpu or memory requires every container to set that value; and the sources of these values.

use std::cell::OnceCell;

use super::charged_names::Charged;
use super::{ApplyingQuota, Breach, Measure, Names, QuotaFault, QuotaObject};
use crate::amount::Requirement;
use crate::request::{Pod, pod_totals};
use crate::sort;

/// The values that a name of a quota may require in each container.
const REQUIRED: [(Requirement, &str); 4] = [
    (Requirement::Request, "cpu"),
    (Requirement::Request, "memory"),
    (Requirement::Limit, "cpu"),
    (Requirement::Limit, "memory"),
];

/// The index of the value that a name requires, if any.
fn required(charged: Charged<'_>) -> Option<usize> {
    let wanted = match charged {
        Charged::Request(name) => (Requirement::Request, name),
        Charged::Limit(name) => (Requirement::Limit, name),
        _ => return None,
    };
    REQUIRED.iter().position(|value| *value == wanted)
}

/// The values of a pod's containers that quotas may require. Each list is made once, however many quotas ask for it.
#[derive(Debug)]
pub(super) struct RequiredValues<'a, 'd> {
    /// None for other objects.
    pod: Option<&'a Pod<'d>>,
    /// True if each container has to set them.
    is_required: bool,
    without: [OnceCell<Names>; REQUIRED.len()],
    origins: [OnceCell<Names>; REQUIRED.len()],
}

impl<'a, 'd> RequiredValues<'a, 'd> {
    pub fn of(object: &QuotaObject<'a, 'd>) -> Self {
        let sets_for_all = |pod: &Pod<'_>| {
            let mut names = Requirement::BOTH.into_iter().flat_map(|requirement| pod.resources.of(requirement).names());
            names.any(|name| pod_totals::is_pod_level(name))
        };
        let is_required = object.kind.measure == Measure::Pod && object.pod.is_some_and(|pod| !sets_for_all(pod));
        Self { pod: object.pod, is_required, without: Default::default(), origins: Default::default() }
    }

    /// A breach if containers leave out a value that the quota requires. Zero counts as set.
    pub fn check<'q>(&self, quota: &ApplyingQuota<'_, 'q>) -> Option<Breach<'q>> {
        let mut missing = Vec::new();
        for super::Bound { name, charged, .. } in quota.bounds.iter().filter(|_| self.is_required) {
            let Some(index) = required(*charged) else { continue };
            let without = self.without.get(index)?.get_or_init(|| self.containers_without(index));
            if !without.is_empty() {
                missing.push(((*name).clone(), without.clone()));
            }
        }
        (!missing.is_empty()).then(|| quota.breach(QuotaFault::MustSpecify { missing }))
    }

    fn containers_without(&self, index: usize) -> Names {
        let (Some(pod), Some((requirement, resource))) = (self.pod, REQUIRED.get(index)) else {
            return Names::default();
        };
        let without =
            pod.containers.iter().filter(|container| !container.resources.of(*requirement).contains(resource));
        let mut containers: Vec<&str> = without.map(|container| container.name.as_ref()).collect();
        sort::by_text(&mut containers, |name| name);
        containers.dedup();
        Names::of(&containers)
    }

    /// The sources of the amounts under a name that no author wrote.
    pub fn origins(&self, charged: Charged<'_>) -> Names {
        let Some(index) = required(charged) else { return Names::default() };
        let origins = self.origins.get(index).map(|origins| origins.get_or_init(|| self.origins_of(index)));
        origins.cloned().unwrap_or_default()
    }

    fn origins_of(&self, index: usize) -> Names {
        let (Some(pod), Some((requirement, resource))) = (self.pod, REQUIRED.get(index)) else {
            return Names::default();
        };
        pod_totals::origins(pod, *requirement, resource)
    }
}
