//! A pod uses its totals, and one pod, for as long as it lives.

use std::borrow::Cow;

use crate::amount::{Quantity, ResourceList, ResourceName, is_device};
use crate::json::{Malformed, Node};
use crate::request::demand;
use crate::request::template::{Bound, PodTemplate};
use crate::stage::quota::kind::IMPLICIT_DEVICE_CLASS;
use crate::timestamp::Timestamp;

pub(super) fn usage<'d>(pod: &PodTemplate<'d>, now: Option<Timestamp>) -> Result<ResourceList<'d>, Malformed> {
    let mut usage = ResourceList::default();
    if !is_live(pod.node, now)? {
        return Ok(usage);
    }
    usage.set(Cow::Borrowed("pods"), Quantity::from_units(1));
    for (name, limit) in demand::as_quotas_see_it(pod, Bound::Limit)? {
        if let Some(charged) = limit_name(&name) {
            usage.set(Cow::Borrowed(charged), limit);
        }
    }
    for (name, request) in demand::as_quotas_see_it(pod, Bound::Request)? {
        let (bare, prefixed) = request_names(&name);
        if let Some(bare) = bare {
            usage.set(bare, request.clone());
        }
        if let Some(prefixed) = prefixed {
            usage.set(prefixed, request);
        }
    }
    Ok(usage)
}

fn limit_name(resource: &str) -> Option<&'static str> {
    match resource {
        "cpu" => Some("limits.cpu"),
        "memory" => Some("limits.memory"),
        "ephemeral-storage" => Some("limits.ephemeral-storage"),
        _ => None,
    }
}

/// The names that a request is charged under: its own, and the one with `requests.` in front.
fn request_names<'d>(resource: &ResourceName<'d>) -> (Option<ResourceName<'d>>, Option<ResourceName<'d>>) {
    match resource.as_ref() {
        "cpu" => (Some(Cow::Borrowed("cpu")), Some(Cow::Borrowed("requests.cpu"))),
        "memory" => (Some(Cow::Borrowed("memory")), Some(Cow::Borrowed("requests.memory"))),
        "ephemeral-storage" => {
            (Some(Cow::Borrowed("ephemeral-storage")), Some(Cow::Borrowed("requests.ephemeral-storage")))
        }
        name if name.starts_with("hugepages-") => {
            (Some(resource.clone()), Some(Cow::Owned(format!("requests.{name}"))))
        }
        name if is_device(name) || name.starts_with(IMPLICIT_DEVICE_CLASS) => {
            (None, Some(Cow::Owned(format!("requests.{name}"))))
        }
        _ => (None, None),
    }
}

/// A pod lives until it has ended, or until its deletion is overdue. Kubernetes adds the grace period to a moment
/// that already contains it, and so do we.
fn is_live(pod: Node<'_>, now: Option<Timestamp>) -> Result<bool, Malformed> {
    if let Some(phase) = pod.at(&["status", "phase"])?
        && matches!(phase.str()?.as_ref(), "Succeeded" | "Failed")
    {
        return Ok(false);
    }
    let Some(metadata) = pod.get("metadata")? else { return Ok(true) };
    let (Some(deletion), Some(grace), Some(now)) =
        (metadata.get("deletionTimestamp")?, metadata.get("deletionGracePeriodSeconds")?, now)
    else {
        return Ok(true);
    };
    let deletion: Timestamp = deletion.str()?.parse().map_err(|error| deletion.wrong(format!("{error}")))?;
    let gone_after = deletion.unix_seconds().saturating_add(grace.integer()?);
    Ok(now.unix_seconds() <= gone_after)
}
