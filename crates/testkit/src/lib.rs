//! Test support: a real waPC host for the policy, and the environment of a policy in a cluster.
//!
//! Modules, each using only those before it: [`metadata`] and [`policy_definition`] (a policy's metadata and
//! deployment), [`artifacthub`] (its publication), [`host_call`] (host calls), [`access`] (permissions for them),
//! [`field_mask`], [`cluster`] and [`session`] (sources of answers), [`admission`] (request and response), [`protocol`]
//! (waPC without an engine), [`compiler`] (runs the wasm with Kubewarden's engine, and measures it), `interpreter` (runs it with
//! another), [`host`] (runs it as Kubewarden does), [`built`] (the wasm of this workspace). The binary `headroom-host` offers them with the flags of `kwctl`.

pub mod access;
pub mod admission;
pub mod artifacthub;
pub mod built;
pub mod cluster;
#[cfg(feature = "compiler")]
pub mod compiler;
pub mod field_mask;
pub mod host;
pub mod host_call;
#[cfg(feature = "interpreter")]
mod interpreter;
pub mod metadata;
pub mod policy_definition;
pub mod protocol;
pub mod session;

/// Checks against Kubewarden's own SDK.
#[cfg(feature = "compiler")]
pub use kubewarden_policy_sdk;
