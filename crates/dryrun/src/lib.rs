//! Evaluates manifests by the policy's own core without applying them, and explains the decisions.
//!
//! `kubectl headroom` uses it at a terminal, the playground in a browser. So it opens no file and no connection: objects
//! arrive as text or as values, and a live cluster is one more implementation of [`cluster_reader::ClusterReader`].
//! The clock is the one thing that it reads itself.
//!
//! Modules in reading order.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod clock;
pub mod cluster_reader;
pub mod kinds;
pub mod manifest;
pub mod quota_levels;
pub mod settings;

pub mod evaluate;

pub mod explanation;
pub mod recording;
pub mod simulate;
