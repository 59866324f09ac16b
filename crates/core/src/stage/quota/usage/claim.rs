//! A claim uses one claim and its storage, both again under the name of its storage class.

use std::borrow::Cow;

use crate::amount::{Quantity, ResourceList, read_quantity};
use crate::json::{Malformed, Node};
use crate::stage::quota::kind::STORAGE_CLASS;

pub(super) fn usage<'d>(claim: Node<'d>) -> Result<ResourceList<'d>, Malformed> {
    let mut usage = ResourceList::default();
    let one = Quantity::from_units(1);
    let storage = storage(claim)?;
    if let Some(class) = storage_class(claim)? {
        let name_of = |name| Cow::Owned(format!("{class}{STORAGE_CLASS}{name}"));
        usage.set(name_of("persistentvolumeclaims"), one.clone());
        if let Some(storage) = &storage {
            usage.set(name_of("requests.storage"), storage.clone());
        }
    }
    usage.set(Cow::Borrowed("persistentvolumeclaims"), one);
    if let Some(storage) = storage {
        usage.set(Cow::Borrowed("requests.storage"), storage);
    }
    Ok(usage)
}

/// The storage asked for in whole bytes, or what was allocated if that is more.
fn storage(claim: Node<'_>) -> Result<Option<Quantity>, Malformed> {
    let amount = |path: &[&str]| claim.at(path)?.map(read_quantity).transpose();
    let asked = amount(&["spec", "resources", "requests", "storage"])?;
    let allocated = amount(&["status", "allocatedResources", "storage"])?;
    let Some(asked) = asked.map(|asked| asked.rounded_up_to_units()) else { return Ok(None) };
    Ok(Some(allocated.filter(|allocated| *allocated > asked).map_or(asked, |more| more.rounded_up_to_units())))
}

/// The annotation counts before the field. An empty class is none.
fn storage_class(claim: Node<'_>) -> Result<Option<Cow<'_, str>>, Malformed> {
    let annotation = claim.at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"])?;
    let class = match annotation {
        Some(annotation) => Some(annotation.str()?),
        None => claim.at(&["spec", "storageClassName"])?.map(Node::str).transpose()?,
    };
    Ok(class.filter(|class| !class.is_empty()))
}
