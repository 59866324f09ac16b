//! Exact numbers, as Kubernetes writes them.

mod quantity;

pub use quantity::{Family, ParseQuantityError, Quantity};
