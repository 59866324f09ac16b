//! Matches objects with the scopes of quotas. Only pods and claims have scopes; nothing else ever matches one.

use std::borrow::Cow;

use super::{Measure, QuotaObject};
use crate::amount::Requirement;
use crate::cluster::label_selector;
use crate::cluster::resource_quota::ResourceQuota;
use crate::json::{Malformed, Node};
use crate::request::pod::has_deadline;
use crate::request::{self, Pod, Resources};

/// True if the object matches all scopes and scope selectors of the quota.
pub fn matches_all(object: &QuotaObject<'_, '_>, quota: &ResourceQuota<'_>) -> Result<bool, Malformed> {
    for requirement in quota.requirements() {
        if !matches(object, &requirement)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub fn matches(object: &QuotaObject<'_, '_>, requirement: &label_selector::Requirement<'_>) -> Result<bool, Malformed> {
    match (object.kind.measure, object.pod) {
        (Measure::Pod, Some(pod)) => match requirement.key.as_ref() {
            "Terminating" => has_deadline(pod.spec),
            "NotTerminating" => has_deadline(pod.spec).map(|has| !has),
            "BestEffort" => is_best_effort(pod),
            "NotBestEffort" => is_best_effort(pod).map(|is| !is),
            "PriorityClass" => {
                let class = pod.spec.string("priorityClassName")?.filter(|class| !class.is_empty());
                Ok(requirement.matches(class.as_slice()))
            }
            "CrossNamespacePodAffinity" => reaches_other_namespaces(pod.spec),
            _ => Ok(false),
        },
        (Measure::Claim, _) if requirement.key == "VolumeAttributesClass" => {
            Ok(requirement.matches(&attributes_classes(&object.source)?))
        }
        _ => Ok(false),
    }
}

/// True if the pod has neither cpu nor memory, requests nor limits. The QoS class is set when a pod is created, and
/// never changes. If there are pod-level resources, only they count.
fn is_best_effort(pod: &Pod<'_>) -> Result<bool, Malformed> {
    if let Some(class) = pod.status.map(|status| status.string("qosClass")).transpose()?.flatten()
        && !class.is_empty()
    {
        return Ok(class == "BestEffort");
    }
    if !pod.resources.is_empty() {
        return Ok(!asks_for_any(&pod.resources));
    }
    Ok(!pod.containers.iter().any(|container| asks_for_any(&container.resources)))
}

fn asks_for_any(resources: &Resources<'_>) -> bool {
    let is_positive =
        |requirement, name| resources.quantity(requirement, name).is_some_and(|quantity| quantity.is_positive());
    Requirement::BOTH.into_iter().any(|of| is_positive(of, "cpu") || is_positive(of, "memory"))
}

/// True if any affinity or anti-affinity, required or preferred, names other namespaces.
fn reaches_other_namespaces(spec: Node<'_>) -> Result<bool, Malformed> {
    let Some(affinity) = spec.get("affinity")? else { return Ok(false) };
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = affinity.get(field)? else { continue };
        for term in affinity.list("requiredDuringSchedulingIgnoredDuringExecution")? {
            if names_namespaces(term)? {
                return Ok(true);
            }
        }
        for weighted in affinity.list("preferredDuringSchedulingIgnoredDuringExecution")? {
            if let Some(term) = weighted.get("podAffinityTerm")?
                && names_namespaces(term)?
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn names_namespaces(term: Node<'_>) -> Result<bool, Malformed> {
    Ok(term.list("namespaces")?.next().is_some() || term.get("namespaceSelector")?.is_some())
}

/// The volume attributes classes that a claim requests, has, or is changing to.
pub fn attributes_classes<'d>(claim: &request::Object<'d>) -> Result<Vec<Cow<'d, str>>, Malformed> {
    let nodes = [
        claim.spec_at(&["volumeAttributesClassName"])?,
        claim.status_at(&["currentVolumeAttributesClassName"])?,
        claim.status_at(&["modifyVolumeStatus", "targetVolumeAttributesClassName"])?,
    ];
    let mut classes: Vec<Cow<'d, str>> = Vec::new();
    for node in nodes.into_iter().flatten() {
        let class = node.str()?;
        if !class.is_empty() && !classes.contains(&class) {
            classes.push(class);
        }
    }
    Ok(classes)
}
