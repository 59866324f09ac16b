//! Kubernetes objects: their kinds, manifests as text, and the clusters that they are read from.
//!
//! Opens no file and no connection: objects arrive as text or as values, and a live cluster is one more implementation of
//! [`cluster_reader::ClusterReader`]. The clock is the one thing that it reads itself.
//!
//! Modules in reading order.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod clock;
pub mod kinds;
pub mod manifest;
pub mod shell;

pub mod cluster_reader;

use headroom_admission::json::Document;

/// Reads a value with the core's JSON reader. The error is one line.
pub fn document(value: &serde_json::Value) -> Result<Document<'static>, String> {
    Document::own(value.to_string().into_bytes()).map_err(|error| error.to_string())
}
