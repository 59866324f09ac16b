//! The collector from outside: its pipeline, its files, its writing.

#[path = "collector/cluster.rs"]
mod cluster;
#[path = "collector/import.rs"]
mod import;
mod support;
#[path = "collector/windows.rs"]
mod windows;
