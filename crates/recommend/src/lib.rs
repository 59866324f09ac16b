//! Recommended requests from usage: `kubectl headroom recommend`.
//!
//! Usage is in UsageProfiles, or `history` reads a metrics store into memory, and shows it to the policy as if it had been
//! published. `engine` evaluates each workload of an inventory with the core, which makes it `advice`, and all advice
//! together is a `report`. `write` makes it changes, each tried out before, and `output` shows it. `bounds` are quotas and
//! LimitRanges for all that.
//!
//! Modules in reading order.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_output, which cleans it"
)]

pub mod history;

pub mod advice;
pub mod engine;
pub mod report;

pub mod write;

pub mod output;

pub mod bounds;

#[cfg(test)]
mod tests;
