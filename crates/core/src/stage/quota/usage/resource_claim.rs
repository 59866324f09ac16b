//! A resource claim uses the devices of each class that it may be given at worst.

use std::borrow::Cow;

use crate::amount::{Quantity, ResourceList};
use crate::json::{Malformed, Node};
use crate::stage::quota::kind::DEVICE_CLASS;

/// What a request for all devices of a class may be given at most.
const ALL: i64 = 32;

pub(super) fn usage<'d>(claim: Node<'d>) -> Result<ResourceList<'d>, Malformed> {
    let mut usage = ResourceList::default();
    let Some(devices) = claim.at(&["spec", "devices"])? else { return Ok(usage) };
    for request in devices.list("requests")? {
        // With alternatives, each class counts by the most that any of them takes of it.
        let mut most = ResourceList::default();
        for alternative in request.list("firstAvailable")? {
            raise(&mut most, alternative)?;
        }
        // Older versions of the API have the fields of `exactly` in the request itself.
        let exactly = request.get("exactly")?.unwrap_or(request);
        raise(&mut most, exactly)?;
        usage.add_all(&most);
    }
    Ok(usage)
}

fn raise(most: &mut ResourceList<'_>, request: Node<'_>) -> Result<(), Malformed> {
    let Some(class) = request.string("deviceClassName")? else { return Ok(()) };
    let count = match request.string("allocationMode")?.as_deref() {
        Some("All") => ALL,
        _ => request.get("count")?.map(Node::integer).transpose()?.unwrap_or(1),
    };
    let name = Cow::Owned(format!("{class}{DEVICE_CLASS}"));
    most.raise_to(&[(name, Quantity::from_units(count))].into_iter().collect());
    Ok(())
}
