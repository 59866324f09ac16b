//! A quota on cpu or memory demands that every container says how much of it it wants.

use super::{Breach, Fault, Measure, Object};
use crate::context::resource_quota::ResourceQuota;
use crate::json::Malformed;
use crate::request::demand;
use crate::request::template::Bound;

/// The names that demand it, sorted, and what each asks of a container.
const DEMANDED: [(&str, Bound, &str); 6] = [
    ("cpu", Bound::Request, "cpu"),
    ("limits.cpu", Bound::Limit, "cpu"),
    ("limits.memory", Bound::Limit, "memory"),
    ("memory", Bound::Request, "memory"),
    ("requests.cpu", Bound::Request, "cpu"),
    ("requests.memory", Bound::Request, "memory"),
];

/// The containers of a pod that leave out what the quota demands. Zero is said too.
pub(super) fn check<'d>(object: &Object<'_, '_>, quota: &ResourceQuota<'d>) -> Result<Option<Breach<'d>>, Malformed> {
    let Some(pod) = object.pod.filter(|_| object.kind.measure() == Measure::Pod) else { return Ok(None) };
    let speaks_for_all = [Bound::Request, Bound::Limit]
        .into_iter()
        .any(|bound| pod.resources.of(bound).names().any(|name| demand::is_pod_level(name)));
    if speaks_for_all {
        return Ok(None);
    }
    let mut missing = Vec::new();
    for (name, bound, resource) in DEMANDED {
        if !quota.hard.contains(name) {
            continue;
        }
        let silent = pod.containers.iter().filter(|container| !container.resources.of(bound).contains(resource));
        let mut containers: Vec<String> = silent.map(|container| container.name.to_string()).collect();
        if !containers.is_empty() {
            containers.sort();
            containers.dedup();
            missing.push((name, containers));
        }
    }
    let breach = Breach { quota: Some(quota.name.clone()), fault: Fault::MustSpecify { missing } };
    Ok(match &breach.fault {
        Fault::MustSpecify { missing } if missing.is_empty() => None,
        _ => Some(breach),
    })
}
