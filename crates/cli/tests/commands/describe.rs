//! `describe`, `recommend` and the conventions for kubectl plugins, by running the program.
//!
//! `world` is a namespace in files, and `profiles` the output of `headroom-controller collect` for it.

mod conventions;
pub mod program;
mod snapshots;
