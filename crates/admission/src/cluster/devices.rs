//! Device classes and their extended resources.

use std::borrow::Cow;

use crate::json::{Malformed, Node};

/// A DeviceClass, whose devices may also be requested as an extended resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceClass<'d> {
    pub name: Cow<'d, str>,
    /// `example.com/gpu`; empty if there is none.
    pub extended_resource: Cow<'d, str>,
}

impl<'d> DeviceClass<'d> {
    pub fn read_list(list: Node<'d>) -> Result<Vec<Self>, Malformed> {
        list.list("items")?.map(Self::read).collect()
    }

    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let text = |path: &[&str]| Ok(node.at(path)?.map(Node::str).transpose()?.unwrap_or_default());
        Ok(Self { name: text(&["metadata", "name"])?, extended_resource: text(&["spec", "extendedResourceName"])? })
    }
}
