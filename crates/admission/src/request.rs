//! The admission request, which parts of it are trusted, and the pod in it.

pub mod kinds;
pub mod origin;
pub mod owner;
pub mod pod;

mod total;

mod resize;

pub mod pod_totals;

pub mod api_server_defaults;

pub mod admission_request;

pub mod controllers;
pub mod rollout;

pub use crate::amount::Requirement;
pub use admission_request::{Object, Operation, Request};
pub use origin::{EstimateOrigin, RangeName, Repair, ValueOrigin, is_of_default, is_of_estimate};
pub use pod::{Container, Pod, Resources, Role, Value};
