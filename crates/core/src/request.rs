//! The admission request, which parts of it are trusted, and the pod in it.

pub mod admission_request;
pub mod api_server_defaults;
pub mod controllers;
pub mod kinds;
pub mod origin;
pub mod pod;
pub mod pod_totals;
mod resize;
pub mod rollout;
mod total;

pub use crate::amount::Requirement;
pub use admission_request::{Object, Operation, Request};
pub use origin::{EstimateOrigin, Origin, RangeName, Repair};
pub use pod::{Container, Pod, Resources, Role, Value};
