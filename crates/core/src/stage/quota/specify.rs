//! A quota on cpu or memory demands that every container says how much of it it wants; and who said it.

use super::{Breach, Fault, Measure, Object};
use crate::context::resource_quota::ResourceQuota;
use crate::json::Malformed;
use crate::order;
use crate::request::demand;
use crate::request::template::{Bound, PodTemplate};

/// What a name of a quota demands of each container, if anything.
fn demanded(name: &str) -> Option<(Bound, &'static str)> {
    match name {
        "cpu" | "requests.cpu" => Some((Bound::Request, "cpu")),
        "memory" | "requests.memory" => Some((Bound::Request, "memory")),
        "limits.cpu" => Some((Bound::Limit, "cpu")),
        "limits.memory" => Some((Bound::Limit, "memory")),
        _ => None,
    }
}

/// The containers of a pod that leave out what the quota demands. Zero is said too.
pub(super) fn check<'d>(object: &Object<'_, '_>, quota: &ResourceQuota<'d>) -> Result<Option<Breach<'d>>, Malformed> {
    let Some(pod) = object.pod.filter(|_| object.kind.measure == Measure::Pod) else { return Ok(None) };
    let speaks_for_all = [Bound::Request, Bound::Limit]
        .into_iter()
        .any(|bound| pod.resources.of(bound).names().any(|name| demand::is_pod_level(name)));
    if speaks_for_all {
        return Ok(None);
    }
    let mut missing = Vec::new();
    for name in quota.hard.names() {
        let Some((bound, resource)) = demanded(name) else { continue };
        let silent = pod.containers.iter().filter(|container| !container.resources.of(bound).contains(resource));
        let mut containers: Vec<String> = silent.map(|container| container.name.to_string()).collect();
        if !containers.is_empty() {
            order::sort_by(&mut containers, |a, b| a.cmp(b));
            containers.dedup();
            missing.push((name.clone(), containers));
        }
    }
    if missing.is_empty() {
        return Ok(None);
    }
    Ok(Some(Breach { quota: Some(quota.name.clone()), fault: Fault::MustSpecify { missing } }))
}

/// Where the amounts under a name came from that no author wrote: `500m of container web: default of LimitRange limits`.
pub(super) fn origins(pod: &PodTemplate<'_>, name: &str) -> Vec<String> {
    let Some((bound, resource)) = demanded(name) else { return Vec::new() };
    let given = pod.containers.iter().filter_map(|container| {
        let value = container.resources.of(bound).get(resource)?;
        let told = || format!("{} of {} {}: {}", value.quantity, container.role.noun(), container.name, value.origin);
        (!value.origin.is_authored()).then(told)
    });
    given.collect()
}
