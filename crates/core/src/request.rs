//! The admission request, which parts of it are trusted, and the pod in it.

pub mod complete;
pub mod demand;
pub mod kinds;
pub mod origin;
pub mod pod;
mod resize;
pub mod review;
pub mod rollout;

pub use crate::amount::Requirement;
pub use origin::{EstimateOrigin, Origin, RangeName, Repair};
pub use pod::{Container, Pod, Resources, Role, Value};
pub use review::{Object, Operation, Request};
