//! Test support: a real waPC host for the policy, and the environment of a policy in a cluster.
//!
//! The binary `headroom-host` offers it with the flags of `kwctl`. Modules in reading order: `protocol` is waPC without an engine,
//! `compiler` runs the wasm in Kubewarden's engine and measures it, and `interpreter` runs it in one that builds soon.

pub mod metadata;

pub mod access;
pub mod admission;
pub mod artifacthub;
pub mod protocol;

#[cfg(feature = "compiler")]
pub mod compiler;
#[cfg(feature = "interpreter")]
mod interpreter;

pub mod host;

pub mod built;

/// Host calls, and the sources of answers to them.
pub use headroom_fixtures::{cluster, host_call, session};
