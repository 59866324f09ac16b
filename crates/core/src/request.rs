//! What is asked: the admission request, and where each kind keeps what we judge.

pub mod demand;
mod resize;
pub mod review;
pub mod template;
pub mod workload;

pub use review::{Operation, Request};
pub use template::{Container, Origin, PodTemplate, Resources, Role};
