//! The cluster's API server as our programs use it, and what programs that run in a cluster share.
//!
//! Modules in reading order.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_output, which cleans it"
)]

mod bearer;
mod credentials;
pub mod proxy;

pub mod kubeconfig;

pub mod parts;

pub mod derived_name;
pub mod error_chain;
pub mod outage;
pub mod random;
pub mod retry;

pub mod api_path;

pub mod api_client;
pub mod event;
pub mod lease;
pub mod watch;

pub mod kept_lists;

pub mod cluster_reader;
pub mod list_all_namespaces;

pub mod http_server;
pub mod metric_registry;
pub mod probes;
pub mod signals;

pub use api_path::ApiPath;
pub use headroom_objects::{clock, shell};
