//! `headroom-controller` as a program.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic on unexpected data")]

#[path = "../../../collector/tests/collector/api_server.rs"]
#[expect(dead_code, reason = "the collector's own tests use more of it")]
mod api_server;
#[path = "../../../sources/tests/sources/data.rs"]
#[expect(dead_code, reason = "the sources' own tests use more of it")]
mod data;
mod from_prometheus;
mod ledger;
mod program;
#[path = "../../../collector/tests/collector/support.rs"]
#[expect(dead_code, reason = "the collector's own tests use more of it")]
mod support;
