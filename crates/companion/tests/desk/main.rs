//! The commands for users: runs the program and checks its output.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic on unexpected data"
)]

mod check;
mod cluster;
mod explain;
#[expect(dead_code, reason = "the tests of sources need more of it")]
#[path = "../sources/fake.rs"]
mod fake;
mod given;
mod record;
mod simulate;
mod snapshot;
mod support;
mod terminal;
