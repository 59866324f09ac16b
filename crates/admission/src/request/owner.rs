//! The object that controls another.

use crate::json::{Malformed, Node};

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
