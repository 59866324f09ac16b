//! LimitRanges: read, defaulted and validated as the API server does it.
//!
//! A range from the cluster is defaulted and validated already. One from the settings or from a file needs
//! [`LimitRange::imply_defaults`] and [`LimitRange::problems`].
//! See <https://kubernetes.io/docs/concepts/policy/limit-range/>.

pub mod validate;

use std::borrow::Cow;

use crate::amount::{Requirement, ResourceList};
use crate::json::{Malformed, Node};
use crate::sort;

#[derive(Debug, Clone)]
pub struct LimitRange<'d> {
    pub name: Cow<'d, str>,
    pub items: Vec<Item<'d>>,
}

/// One entry of `spec.limits`.
#[derive(Debug, Clone, Default)]
pub struct Item<'d> {
    /// `Container`, `Pod`, `PersistentVolumeClaim`, or a qualified name, which is not enforced.
    pub kind: Cow<'d, str>,
    pub min: ResourceList<'d>,
    pub max: ResourceList<'d>,
    pub default_limit: ResourceList<'d>,
    pub default_request: ResourceList<'d>,
    pub max_ratio: ResourceList<'d>,
}

pub const CONTAINER: &str = "Container";
pub const POD: &str = "Pod";
pub const CLAIM: &str = "PersistentVolumeClaim";

impl<'d> LimitRange<'d> {
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let name = node.at(&["metadata", "name"])?.map(Node::str).transpose()?.unwrap_or_default();
        let items = match node.get("spec")? {
            Some(spec) => spec.list("limits")?.map(Item::read).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(Self { name, items })
    }

    /// Reads a list of LimitRanges, in name order: the order in which they apply.
    pub fn read_list(list: Node<'d>) -> Result<Vec<Self>, Malformed> {
        let mut ranges = list.list("items")?.map(Self::read).collect::<Result<Vec<_>, _>>()?;
        sort::by_text(&mut ranges, |range| &range.name);
        Ok(ranges)
    }

    /// Fills in the defaults that the API server derives when a range is stored, only in items of containers: a missing
    /// default limit is set from `max`, a missing default request from the default limit, or else from `min`.
    pub fn imply_defaults(&mut self) {
        for item in self.items.iter_mut().filter(|item| item.kind == CONTAINER) {
            item.default_limit.complete_with(&item.max);
            item.default_request.complete_with(&item.default_limit);
            item.default_request.complete_with(&item.min);
        }
    }
}

impl<'d> Item<'d> {
    pub fn defaults(&self, requirement: Requirement) -> &ResourceList<'d> {
        match requirement {
            Requirement::Request => &self.default_request,
            Requirement::Limit => &self.default_limit,
        }
    }

    /// All lists of amounts, with the names of their fields.
    pub fn lists(&self) -> [(&'static str, &ResourceList<'d>); 5] {
        [
            ("max", &self.max),
            ("min", &self.min),
            ("default", &self.default_limit),
            ("defaultRequest", &self.default_request),
            ("maxLimitRequestRatio", &self.max_ratio),
        ]
    }

    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let list = |node: Node<'d>| node.present().map_or_else(|| Ok(ResourceList::default()), ResourceList::read);
        let bounds =
            |node: Node<'d>| node.present().map_or_else(|| Ok(ResourceList::default()), ResourceList::read_bounds);
        let mut item = Self::default();
        for (key, value) in node.fields()? {
            match key.str()?.as_ref() {
                "type" => item.kind = value.opt_str()?.unwrap_or_default(),
                "min" => item.min = bounds(value)?,
                "max" => item.max = bounds(value)?,
                "default" => item.default_limit = list(value)?,
                "defaultRequest" => item.default_request = list(value)?,
                "maxLimitRequestRatio" => item.max_ratio = bounds(value)?,
                _ => {}
            }
        }
        Ok(item)
    }
}
