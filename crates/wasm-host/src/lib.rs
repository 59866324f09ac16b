//! Test support: a real waPC host for the policy, and the environment of a policy in a cluster.
//!
//! Modules, each using only those before it: [`metadata`] (a policy's metadata), [`artifacthub`] (its publication), [`access`] (permissions for its host calls), [`admission`] (request and response), [`protocol`]
//! (waPC without an engine), [`compiler`] (runs the wasm with Kubewarden's engine, and measures it), `interpreter` (runs it with
//! another), [`host`] (runs it as Kubewarden does), [`built`] (the wasm of this workspace). The binary `headroom-host` offers them with the flags of `kwctl`.

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
pub use headroom_fixtures::{cluster, field_mask, host_call, session};
