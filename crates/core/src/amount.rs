//! Exact numbers, as Kubernetes writes them.

mod bound;
mod quantity;
mod resource_list;

pub use bound::Bound;
pub use quantity::{Family, ParseQuantityError, Quantity};
pub use resource_list::{ByResource, ResourceList, ResourceName, is_device, is_native, read_quantity};
