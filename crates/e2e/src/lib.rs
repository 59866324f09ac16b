//! Support for tests against a real Kubernetes API server: an API server on loopback, and webhooks that it can call.
//!
//! - [`process`]: a server program that ends with its test.
//! - [`wait`]: attempts until one succeeds.
//! - [`certificate`]: certificates for servers on loopback.
//! - [`kubeconfig`]: clients and files.
//! - [`control_plane`]: etcd, the API server and, optionally, the controllers.
//! - [`cluster`]: the cluster that a test uses.
//! - [`webhook`]: an HTTPS server that answers admission reviews.
//! - [`kubewarden`]: Kubewarden's own policy server, if there is one.
//! - [`live_host`]: host calls of a policy, answered from the API server.
//! - [`policy_server`]: our policy behind a webhook, as Kubewarden serves it.
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
