//! `describe`, `recommend` and the conventions of kubectl's plugins, through the program as people run it.
//!
//! `world` is a namespace in files, `profiles` what `kubectl headroom collect` wrote of it, `expected` what the program
//! said to it; `UPDATE_SNAPSHOTS=1` writes the latter anew.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop where something is not as it made it"
)]

mod cluster;
mod conventions;
mod program;
mod server;
mod snapshots;
mod write;
