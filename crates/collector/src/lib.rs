//! The collector: reads what containers used, keeps it as sketches on disk, and publishes it as `UsageProfile`s, from which
//! the policy estimates.
//!
//! [`backfill`] reads sources that answer by time and [`import`] reads files, as gently as [`read_limits`] says; what was
//! read is committed to the [`store`], [`profile`] makes profiles of it, [`publish`] writes them, and [`collect_loop`]
//! repeats it all. Modules in reading order.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_report, which cleans it"
)]

pub mod metrics;
pub mod probe_server;

pub mod store;

pub mod read_limits;

pub mod backfill;
pub mod import;

pub mod profile;

pub mod publish;

pub mod collect_loop;
