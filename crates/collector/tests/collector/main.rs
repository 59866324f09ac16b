//! The collector: its pipeline, its files, and publishing.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic on unexpected data")]

mod api_server;
mod cluster;
mod import;
mod lease;
mod pool;
mod profile;
mod store;
mod support;
mod two_clusters;
mod two_stores;
mod windows;
