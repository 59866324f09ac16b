//! The workloads of a cluster: the kinds that create pods, who owns what, the pods that a workload has, who scales it, and what its
//! programs are told of CPU and memory.
//!
//! Modules in reading order.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod kinds;
pub mod owner;

mod pod;
pub mod refusal;
pub mod running;

pub mod applier;
pub mod autoscaler;
pub mod inventory;
pub mod nodes;

pub mod pod_makers;

pub mod program;

pub use owner::{Owner, WorkloadRef};
pub use pod::pod_of;
