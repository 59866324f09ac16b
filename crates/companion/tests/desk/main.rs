//! The commands that answer people, from outside: the program as it is typed, and what it says.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may stop where something is not as it made it"
)]

mod check;
mod cluster;
mod explain;
#[expect(dead_code, reason = "the tests of sources need more of it")]
#[path = "../sources/fake.rs"]
mod fake;
mod given;
mod host;
mod policy;
mod record;
mod simulate;
mod snapshot;
mod support;
mod terminal;
