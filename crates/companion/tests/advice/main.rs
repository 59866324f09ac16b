//! `describe`, `recommend` and the conventions for kubectl plugins, by running the program.
//!
//! `world` is a namespace in files, `profiles` the output of `kubectl headroom collect` for it, and `expected` the
//! outputs of the program; `UPDATE_SNAPSHOTS=1` rewrites the latter.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic on unexpected data")]

mod cluster;
mod conventions;
mod program;
mod server;
mod snapshots;
mod write;
