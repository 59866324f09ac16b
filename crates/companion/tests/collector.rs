//! The collector from outside: its pipeline, its files, its writing.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may stop where something is not as it made it"
)]

#[path = "collector/cluster.rs"]
mod cluster;
#[path = "collector/import.rs"]
mod import;
mod support;
#[path = "collector/windows.rs"]
mod windows;
