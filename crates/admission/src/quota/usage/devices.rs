//! The usage of a resource claim: the most devices of each class that it may be allocated, and the same number under
//! the class's other names, minus what the claim's pod was charged there.

use std::borrow::Cow;

use crate::amount::{ByResource, Quantity, ResourceList};
use crate::cluster::devices::DeviceClass;
use crate::json::{Malformed, Node};
use crate::quota::charged_names::{Charged, IMPLICIT_DEVICE_CLASS};
use crate::quota::{QuotaObject, free};
use crate::request::Object;

/// The most devices that a request for all devices of a class may be allocated.
const ALL: i64 = 32;

#[derive(Debug, Clone)]
pub struct Devices<'d> {
    pub(super) by_class: ResourceList<'d>,
    /// By the extended resource of the class.
    pub(super) by_extended: ResourceList<'d>,
    /// The amounts that the claim's pod was charged already.
    of_pod: ResourceList<'d>,
}

impl<'d> Devices<'d> {
    pub(super) fn of_claim(object: &QuotaObject<'_, 'd>) -> Result<Self, Malformed> {
        let by_class = asked_for(&object.source)?;
        let mut by_extended = ResourceList::default();
        for DeviceClass { name, extended_resource } in object.devices.classes {
            let Some(count) = by_class.get(name) else { continue };
            if !extended_resource.is_empty() {
                by_extended.add(extended_resource, count);
            }
        }
        Ok(Self { by_class, by_extended, of_pod: object.devices.of_pod.clone() })
    }

    pub(super) fn amount(&self, charged: Charged<'_>) -> Option<Quantity> {
        match charged {
            Charged::Devices(class) => self.by_class.get(class).cloned(),
            Charged::ImplicitDevices(class) => {
                let of_pod = self.of_pod.get(&format!("{IMPLICIT_DEVICE_CLASS}{class}"));
                self.by_class.get(class).map(|count| less(count, of_pod))
            }
            Charged::ExtendedDevices(name) => {
                self.by_extended.get(name).map(|count| less(count, self.of_pod.get(name)))
            }
            _ => None,
        }
    }
}

fn less(count: &Quantity, charged: Option<&Quantity>) -> Quantity {
    charged.map_or_else(|| count.clone(), |charged| free(count, charged))
}

fn asked_for<'d>(claim: &Object<'d>) -> Result<ResourceList<'d>, Malformed> {
    let mut asked = Vec::new();
    let Some(devices) = claim.spec_at(&["devices"])? else { return Ok(ResourceList::default()) };
    for request in devices.list("requests")? {
        let mut alternatives = request.list("firstAvailable")?.peekable();
        if alternatives.peek().is_none() {
            // Older versions of the API have the fields of `exactly` in the request itself.
            asked.extend(devices_of(request.get("exactly")?.unwrap_or(request))?);
            continue;
        }
        // With alternatives, each class counts with the most that any alternative requests.
        let mut most: Vec<(Cow<'d, str>, Quantity)> = Vec::new();
        for alternative in alternatives {
            most.extend(devices_of(alternative)?);
        }
        asked.extend(ByResource::of_pairs(most, |most, other| *most = most.clone().max(other.clone())));
    }
    Ok(ResourceList::sum(asked))
}

/// The class that a request names, and the number of devices.
fn devices_of(request: Node<'_>) -> Result<Option<(Cow<'_, str>, Quantity)>, Malformed> {
    let Some(class) = request.string("deviceClassName")? else { return Ok(None) };
    let count = match request.string("allocationMode")?.as_deref() {
        Some("All") => ALL,
        // The API server's default.
        None | Some("" | "ExactCount") => request.get("count")?.map(Node::integer).transpose()?.unwrap_or(1),
        // A mode of a newer API server, after a downgrade.
        Some(_) => 0,
    };
    Ok(Some((class, Quantity::from_units(count))))
}
