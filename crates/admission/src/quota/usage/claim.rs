//! The usage of a claim: one claim and its storage, both also under the name of its storage class.

use std::borrow::Cow;

use crate::amount::{Quantity, read_quantity};
use crate::json::{Malformed, Node};
use crate::request::Object;

/// The requested storage in whole bytes, or the allocated storage if that is more.
pub(super) fn storage(claim: &Object<'_>) -> Result<Option<Quantity>, Malformed> {
    let asked = claim.spec_at(&["resources", "requests", "storage"])?.map(read_quantity).transpose()?;
    let allocated = claim.status_at(&["allocatedResources", "storage"])?.map(read_quantity).transpose()?;
    let Some(asked) = asked.map(|asked| asked.rounded_up_to_units()) else { return Ok(None) };
    Ok(Some(allocated.filter(|allocated| *allocated > asked).map_or(asked, |more| more.rounded_up_to_units())))
}

/// The annotation has precedence over the field. An empty class is none.
pub(super) fn storage_class<'d>(claim: &Object<'d>) -> Result<Option<Cow<'d, str>>, Malformed> {
    let annotation = claim.node.at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"])?;
    let class = match annotation {
        Some(annotation) => Some(annotation.str()?),
        None => claim.spec_at(&["storageClassName"])?.map(Node::str).transpose()?,
    };
    Ok(class.filter(|class| !class.is_empty()))
}
