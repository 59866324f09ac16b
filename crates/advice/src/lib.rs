//! Rules that only the companion needs: recommended requests, LimitRanges and quotas as kubectl describes them, the
//! quota controller's arithmetic, the API server's validation of quotas, and the writing of usage profiles.
//!
//! Like the core, this crate does no I/O. It is separate so that the policy's own rules can be read alone.

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod describe;
pub mod profile;
pub mod recalculate;
pub mod recommend;
pub mod stored;
pub mod validate;
