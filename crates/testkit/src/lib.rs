//! Test support: a real waPC host for the policy, and what stands around a policy in a cluster.
//!
//! Rooms, each leaning only on those above it: [`metadata`] and [`policy_definition`] (what a policy says of itself, and
//! how it is deployed), [`artifacthub`] (how it is published), [`host_call`] (what a policy may ask), [`access`] (whether it may), [`field_mask`], then [`cluster`]
//! and [`session`] (who answers), [`admission`] (what goes in and comes out), [`host`] (the wasm, run as Kubewarden runs
//! it, or by the `interpreter`), [`fuel`] (what a run costs), [`built`] (the wasm of this very workspace). The binary `headroom-host` puts them
//! behind the flags of `kwctl`.

pub mod access;
pub mod admission;
pub mod artifacthub;
pub mod built;
pub mod cluster;
pub mod field_mask;
#[cfg(feature = "compiler")]
pub mod fuel;
pub mod host;
pub mod host_call;
#[cfg(feature = "interpreter")]
mod interpreter;
pub mod metadata;
pub mod policy_definition;
pub mod session;

/// Kubewarden's own SDK, which reads what the policy writes.
#[cfg(feature = "compiler")]
pub use kubewarden_policy_sdk;
