//! The collector: its pipeline, its files, and publishing.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic on unexpected data")]

#[path = "collector/accuracy.rs"]
mod accuracy;
#[path = "support/api_server.rs"]
mod api_server;
#[path = "collector/cluster.rs"]
mod cluster;
#[path = "collector/import.rs"]
mod import;
#[path = "collector/lease.rs"]
mod lease;
#[path = "collector/pool.rs"]
mod pool;
#[path = "collector/profile.rs"]
mod profile;
#[path = "collector/program.rs"]
mod program;
#[path = "collector/store.rs"]
mod store;
mod support;
#[path = "collector/two_clusters.rs"]
mod two_clusters;
#[path = "collector/two_stores.rs"]
mod two_stores;
#[path = "collector/windows.rs"]
mod windows;
