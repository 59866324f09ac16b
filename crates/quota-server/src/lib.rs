//! Quotas that hold under concurrency and across namespaces: the webhook and the controller.
//!
//! The protocol is in `headroom-quota-protocol`; this crate connects it with an API server. `review` answers reviews and
//! asks the `writer` of each ledger, unless one of its `spares` is enough. The known state of the cluster is in
//! `ledger_cache` and `tenants`, which watches update. The leader counts (`object_counter`) and runs `planner`, `status`,
//! `resource_quota_enforcer` and `webhook_config`. `run` starts all of them for a `replica`.
//!
//! A replica has no state of its own: it may be killed at any time. Modules in reading order.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_output, which cleans it"
)]

pub mod custom_resources;
pub mod metrics;
pub mod objects;
pub mod tls;

pub mod ledger_cache;
pub mod tenants;

pub mod object_counter;
pub mod spares;
pub mod writer;

pub mod devices;

pub mod replica;

pub mod review;
pub mod serve;

pub mod planner;
pub mod resource_quota_enforcer;
pub mod status;
pub mod webhook_config;

pub mod leader;
pub mod run;

pub mod check;

pub use replica::{Options, Replica};
