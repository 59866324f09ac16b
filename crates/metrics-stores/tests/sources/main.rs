//! The sources against real servers, and against a server that misbehaves.
//!
//! The servers are Debian's packages (`scripts/setup-debian.sh test-servers` installs them), started on loopback by
//! `headroom_fixtures::servers`.
//! `data` generates their content, and computes the expected readings independently, without any query language.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic on unexpected data")]

mod clouds;
mod data;
mod faults;
mod forward;
mod influxdb;
mod metrics_api;
mod prometheus;
