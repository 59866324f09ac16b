//! Recommended requests, from the same history and by the same rules as the policy's estimates.
//!
//! Like the core, this crate does no I/O.

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod recommend;
