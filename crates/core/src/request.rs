//! What is asked: the admission request, and where each kind keeps what we judge.

pub mod demand;
pub mod review;
pub mod template;

pub use review::{Operation, Request};
pub use template::{Container, Origin, PodTemplate, Resources, Role};
