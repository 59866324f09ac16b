//! Exact amounts of resources, as Kubernetes writes them.

mod quantity;
mod requirement;
mod resource_list;

pub use quantity::{Family, ParseQuantityError, Quantity};
pub use requirement::Requirement;
pub use resource_list::{ByResource, ResourceList, ResourceName, is_device, is_native, read_quantity};
