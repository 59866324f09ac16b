//! What one object uses, under each name that its kind is charged under. A name that nothing sets is absent.

mod claim;
mod pod;
mod resource_claim;
mod service;

use std::borrow::Cow;

use super::{Measure, Object};
use crate::amount::{Quantity, ResourceList};
use crate::json::Malformed;
use crate::timestamp::Timestamp;

/// The usage of an object at a moment. Without a moment no pod counts as gone.
pub fn of<'d>(object: &Object<'_, 'd>, now: Option<Timestamp>) -> Result<ResourceList<'d>, Malformed> {
    let mut usage = match (object.kind.measure, object.pod) {
        (Measure::Pod, Some(pod)) => pod::usage(pod, now)?,
        (Measure::Service, _) => service::usage(object.node)?,
        (Measure::Claim, _) => claim::usage(object.node)?,
        (Measure::ResourceClaim, _) => resource_claim::usage(object.node)?,
        (Measure::Count | Measure::Pod, _) => ResourceList::default(),
    };
    let one = Quantity::from_units(1);
    if object.kind.has_plain_name() {
        usage.set(Cow::Owned(object.kind.resource.to_owned()), one.clone());
    }
    let count = match object.kind.measure {
        Measure::Pod => Cow::Borrowed("count/pods"),
        _ => Cow::Owned(object.kind.count_name()),
    };
    usage.set(count, one);
    Ok(usage)
}
