//! Support for tests against a real Kubernetes API server: an API server on loopback, and webhooks that it can call.
//!
//! The tests are in `tests/` and ignored by default: the first run builds Kubernetes, and they take minutes.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]

pub mod process;
pub mod wait;

pub mod certificate;
pub mod kubeconfig;

pub mod control_plane;

pub mod cluster;
pub mod webhook;

pub mod kubewarden;
pub mod live_host;

pub mod policy_server;
