//! The decision, pure: request + context + settings in, decision out.
//!
//! Nothing here knows a Kubernetes client, a clock, a file or the host: what the decision must know
//! arrives as data, and what it decides leaves as data.

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod amount;
pub mod json;
