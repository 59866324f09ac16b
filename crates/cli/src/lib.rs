//! The command lines of both programs: what can be typed, and what is printed.
//!
//! Modules in reading order.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_output, which cleans it"
)]

pub mod describe;

pub mod command;

pub mod cli;

pub mod controller;

#[cfg(test)]
mod reference;
