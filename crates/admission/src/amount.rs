//! Exact amounts of resources, as Kubernetes writes them.

mod quantity;
mod resource_list;

use std::fmt;

pub use quantity::{Family, ParseQuantityError, Quantity};
pub use resource_list::{ByResource, ResourceList, ResourceName, is_device, is_native, read_quantity};

/// Request or limit: the two amounts of a resource in Kubernetes' `ResourceRequirements`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    Request,
    Limit,
}

impl Requirement {
    pub const BOTH: [Self; 2] = [Self::Request, Self::Limit];

    pub fn field(self) -> &'static str {
        match self {
            Self::Request => "requests",
            Self::Limit => "limits",
        }
    }

    pub fn noun(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Limit => "limit",
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}
