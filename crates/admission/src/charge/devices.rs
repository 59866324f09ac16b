//! Finds the devices that were already charged with the pod of a resource claim.
//!
//! The scheduler creates a claim for a pod that requests devices as an extended resource. The pod was charged for
//! them when it was created, so the claim is charged only the difference. Any client can set the claim's annotation, so
//! the pod must be the claim's owner, and the claim must be the pod's first. If this cannot be looked up, the claim is
//! charged in full.

use std::borrow::Cow;

use crate::amount::{Requirement, ResourceList};
use crate::cluster::Context;
use crate::cluster::lookup::Lookup;
use crate::json::{Malformed, Node};
use crate::quota::charged_names::Charged;
use crate::quota::{self, ChargedKind, Measure};
use crate::request::{self, Request, controller_of, pod_totals};
use crate::settings::Settings;
use crate::timestamp::Timestamp;

/// The annotation of a claim that the scheduler made for a pod.
pub const MADE_FOR_A_POD: &str = "resource.kubernetes.io/extended-resource-claim";

/// True if any quota of the namespace bounds a name whose devices follow from device classes, or if such a name may be
/// limited.
pub fn needs_classes(request: &Request<'_>, context: &Context<'_>, settings: &Settings<'_>) -> bool {
    let limited = &settings.quotas.limited_resources;
    let kind = ChargedKind::of(request);
    let is_mapped = |name: &str| {
        matches!(kind.charged_under(name), Some(Charged::ExtendedDevices(_) | Charged::ImplicitDevices(_)))
    };
    settings.server.maps_extended_resources()
        && kind.measure == Measure::ResourceClaim
        && (context.quotas.iter().flatten().any(|quota| quota.hard.names().any(|name| is_mapped(name)))
            || limited.iter().any(|limited| limited.is_of(kind) && !limited.match_contains.is_empty()))
}

/// The lookups of the device classes, and of the pod that owns the claim of a request, according to the claim.
pub fn lookups<'d>(request: &'d Request<'d>) -> Result<Vec<Lookup<'d>>, Malformed> {
    let pod = owner_in(request)?.map(|(name, _)| Lookup::PodOfClaim { namespace: &request.namespace, name });
    Ok([Lookup::DeviceClasses].into_iter().chain(pod).collect())
}

/// True if the namespace's other claims are needed to see that this claim is the pod's first.
pub fn needs_claims(context: &Context<'_>) -> Result<bool, Malformed> {
    Ok(context.pod_of_claim.map(claim_of).transpose()?.is_some_and(|claim| claim.is_none()))
}

/// The name and the uid of a pod.
pub type Owner<'d> = (Cow<'d, str>, Cow<'d, str>);

/// The pod whose share counts: of the stored claim, if it has one, because without it an update that gives up the share
/// would look free.
pub fn owner_in<'d>(request: &Request<'d>) -> Result<Option<Owner<'d>>, Malformed> {
    for claim in request.old().into_iter().chain(&request.object) {
        if let Some(owner) = owner(claim.node)? {
            return Ok(Some(owner));
        }
    }
    Ok(None)
}

/// The pod that owns a claim, according to the claim.
pub fn owner(claim: Node<'_>) -> Result<Option<Owner<'_>>, Malformed> {
    let Some(metadata) = claim.get("metadata")? else { return Ok(None) };
    let mark = metadata.at(&["annotations", MADE_FOR_A_POD])?.map(Node::str).transpose()?;
    if mark.as_deref() != Some("true") {
        return Ok(None);
    }
    let Some(reference) = controller_of(claim)? else { return Ok(None) };
    let is_pod =
        reference.string("kind")?.as_deref() == Some("Pod") && reference.string("apiVersion")?.as_deref() == Some("v1");
    Ok(match (reference.string("name")?, reference.string("uid")?) {
        (Some(name), Some(uid)) if is_pod && !uid.is_empty() => Some((name, uid)),
        _ => None,
    })
}

/// The claim that the pod's status names.
pub fn claim_of(pod: Node<'_>) -> Result<Option<Cow<'_, str>>, Malformed> {
    let name = pod.at(&["status", "extendedResourceClaimStatus", "resourceClaimName"])?;
    name.map(Node::str).transpose()
}

/// The resources that the pod of `claim` was charged; nothing unless the claim is certainly the pod's. `claim` is the
/// object of the request or the one that it replaces; `pod` and `claims` are what the lookups found.
pub fn of_pod<'d>(
    request: &Request<'_>,
    claim: &request::Object<'_>,
    pod: Option<Node<'d>>,
    claims: Option<Node<'_>>,
    now: Option<Timestamp>,
) -> Result<ResourceList<'d>, Malformed> {
    let nothing = ResourceList::default();
    let Some(node) = pod else { return Ok(nothing) };
    let Some((_, uid)) = owner(claim.node)? else { return Ok(nothing) };
    let found = node.at(&["metadata", "uid"])?.map(Node::str).transpose()?;
    if found.as_ref() != Some(&uid) {
        return Ok(nothing);
    }
    let is_the_pods = match claim_of(node)? {
        Some(claim) => claim == request.name,
        None => is_first(request, &uid, claims)?,
    };
    let pod = request::Object::stored(node)?;
    if !is_the_pods || !quota::is_live(&pod, now)? {
        return Ok(nothing);
    }
    match pod.pod_at(&[])? {
        Some(pod) => pod_totals::as_quotas_see_it(&pod, Requirement::Request),
        None => Ok(nothing),
    }
}

/// True if no other claim of the same pod is older than the one of a request. Stored claims are older than one that is
/// being created.
fn is_first(request: &Request<'_>, uid: &str, claims: Option<Node<'_>>) -> Result<bool, Malformed> {
    let Some(claims) = claims else { return Ok(false) };
    let age = |claim: Node<'_>| -> Result<Option<Timestamp>, Malformed> {
        let created = claim.at(&["metadata", "creationTimestamp"])?.map(Node::str).transpose()?;
        Ok(created.and_then(|created| created.parse().ok()))
    };
    let stored = request.old().map(|old| age(old.node)).transpose()?;
    for claim in claims.list("items")? {
        let name = claim.at(&["metadata", "name"])?.map(Node::str).transpose()?.unwrap_or_default();
        let is_younger = match &stored {
            Some(stored) => (stored, request.name.as_ref()) < (&age(claim)?, name.as_ref()),
            None => false,
        };
        let is_other = name != request.name && !is_younger;
        if is_other && owner(claim)?.is_some_and(|(_, of)| of == uid) {
            return Ok(false);
        }
    }
    Ok(true)
}
