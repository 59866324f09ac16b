//! The admission request, which parts of it are trusted, and the pod in it.

pub mod kinds;
pub mod origin;
pub mod pod;

mod total;

mod resize;

pub mod pod_totals;

pub mod api_server_defaults;

pub mod admission_request;

pub mod controllers;
pub mod rollout;

use crate::json::{Malformed, Node};

pub use crate::amount::Requirement;
pub use admission_request::{Object, Operation, Request, template_at};
pub use origin::{EstimateOrigin, RangeName, Repair, ValueOrigin, is_of_default, is_of_estimate};
pub use pod::{Container, Pod, Resources, Role, Value};

/// The reference to the controller of an object. There is at most one.
pub fn controller_of(object: Node<'_>) -> Result<Option<Node<'_>>, Malformed> {
    let Some(metadata) = object.get("metadata")? else { return Ok(None) };
    for reference in metadata.list("ownerReferences")? {
        if reference.get("controller")?.map(Node::bool).transpose()? == Some(true) {
            return Ok(Some(reference));
        }
    }
    Ok(None)
}
