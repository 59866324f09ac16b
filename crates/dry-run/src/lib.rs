//! Evaluates manifests by the policy's own core without applying them, and explains the decisions.
//!
//! `kubectl headroom` uses it at a terminal, the playground in a browser, so it opens no file and no connection: what
//! surrounds an object is read through `headroom_objects::cluster_reader::ClusterReader`.
//!
//! Modules in reading order.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod overlay;
pub mod quota_levels;
pub mod settings;

pub mod evaluate;

pub mod redact;
pub mod simulate;

pub mod why;

pub use overlay::Overlay;
