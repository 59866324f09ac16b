//! What only the companion needs of the rules: advice on requests, LimitRanges and quotas as kubectl describes them, the
//! arithmetic of the quota controller, what the API server refuses in a quota, and the writing of usage profiles.
//!
//! As pure as the core, and kept apart from it so that the policy's own rules can be read alone.

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod describe;
pub mod profile;
pub mod recalculate;
pub mod recommend;
pub mod stored;
pub mod validate;
