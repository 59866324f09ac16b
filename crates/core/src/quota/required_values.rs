//! A quota on cpu or memory requires every container to set that value; and the sources of these values.

use super::charged_names::Charged;
use super::{ApplyingQuota, Breach, Measure, Names, QuotaFault, QuotaObject};
use crate::amount::Requirement;
use crate::request::Pod;
use crate::request::pod_totals;
use crate::sort;

/// The value that a name of a quota requires in each container, if any.
fn required(charged: Charged<'_>) -> Option<(Requirement, &str)> {
    match charged {
        Charged::Request(name @ ("cpu" | "memory")) => Some((Requirement::Request, name)),
        Charged::Limit(name @ ("cpu" | "memory")) => Some((Requirement::Limit, name)),
        _ => None,
    }
}

/// A breach if containers of a pod leave out a value that the quota requires. Zero counts as set.
pub(super) fn check<'d>(object: &QuotaObject<'_, '_>, quota: &ApplyingQuota<'_, 'd>) -> Option<Breach<'d>> {
    let pod = object.pod.filter(|_| object.kind.measure == Measure::Pod)?;
    let is_set_for_all = Requirement::BOTH
        .into_iter()
        .any(|requirement| pod.resources.of(requirement).names().any(|name| pod_totals::is_pod_level(name)));
    if is_set_for_all {
        return None;
    }
    let mut missing = Vec::new();
    for super::Bound { name, charged, .. } in &quota.bounds {
        let Some((requirement, resource)) = required(*charged) else { continue };
        let without = pod.containers.iter().filter(|container| !container.resources.of(requirement).contains(resource));
        let mut containers: Vec<&str> = without.map(|container| container.name.as_ref()).collect();
        if !containers.is_empty() {
            sort::by_text(&mut containers, |name| name);
            containers.dedup();
            missing.push(((*name).clone(), Names::of(&containers)));
        }
    }
    if missing.is_empty() {
        return None;
    }
    Some(quota.breach(QuotaFault::MustSpecify { missing }))
}

/// The sources of the amounts under a name that no author wrote: `500m of container web: default of LimitRange limits`.
pub(super) fn origins(pod: &Pod<'_>, charged: Charged<'_>) -> Names {
    let Some((requirement, resource)) = required(charged) else { return Names::default() };
    let mut origins = Names::default();
    for container in &pod.containers {
        let Some(value) = container.resources.of(requirement).get(resource) else { continue };
        if !value.origin.is_authored() {
            origins.add_with(|| {
                format!("{} of {} {}: {}", value.quantity, container.role.noun(), container.name, value.origin)
            });
        }
    }
    origins
}
