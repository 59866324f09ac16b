//! The collector: reads the usage of containers, keeps it as sketches on disk, and publishes it as `UsageProfile`s, from which
//! the policy estimates requests.
//!
//! [`backfill`] reads sources within [`read_limits`] and [`import`] reads files. Both commit to the [`store`], [`profile`] makes
//! profiles, [`publish`] writes them, [`estimate_events`] tells workloads what comes of them, and [`collect_loop`] repeats all of it.
//! Modules in reading order.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_output, which cleans it"
)]

pub mod metrics;

pub mod store;

pub mod read_limits;

pub mod backfill;
pub mod import;

pub mod profile;

pub mod publish;

pub mod estimate_events;

pub mod collect_loop;
