//! What tests need to meet a real Kubernetes API server: one that starts on loopback, and webhooks it can call.
//!
//! - [`process`]: a server program that ends with its test.
//! - [`certificate`]: the certificates that make loopback trustworthy.
//! - [`control_plane`]: etcd, the API server and, where wanted, the controllers.
//! - [`cluster`]: the cluster a test talks to, and how.
//! - [`webhook`]: an HTTPS server that answers admission reviews.
//! - [`live_host`]: what a policy reads, read from the API server.
//! - [`policy_server`]: our policy behind a webhook, as Kubewarden serves it.
//!
//! The tests are in `tests/`, ignored unless asked for: they build Kubernetes at first, and take minutes.

pub mod certificate;
pub mod cluster;
pub mod control_plane;
pub mod live_host;
pub mod policy_server;
pub mod process;
pub mod webhook;
