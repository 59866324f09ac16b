//! Estimates, from the request to the changed object, on the path that every shell takes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop on data it cannot read"
)]

mod properties;
mod situation;
mod table;
