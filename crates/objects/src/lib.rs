//! Kubernetes objects: their kinds, manifests as text, and the clusters that they are read from.
//!
//! Opens no file and no connection: objects arrive as text or as values, and a live cluster is one more implementation of
//! [`cluster_reader::ClusterReader`]. The clock is the one thing that it reads itself.
//!
//! Modules in reading order.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod clock;
pub mod document;
pub mod kinds;
pub mod manifest;
pub mod shell;

pub mod cluster_reader;

pub use document::document;
