//! The sources against real servers, and against a server that misbehaves.
//!
//! The servers are Debian's packages (`hack/install-test-servers.sh` installs them), started on loopback by `servers`.
//! What they are filled with comes from `data`, which also computes by itself, without any query language, what has to
//! be read back.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop where something is not as it made it"
)]

mod api_server;
mod clouds;
mod collected;
mod data;
mod fake;
mod faults;
mod forward;
mod influxdb;
mod network;
mod prometheus;
mod servers;
mod victoria_metrics;
