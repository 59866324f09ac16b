//! Estimates, from the request to the changed object, through the same entry point as in every shell.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop on data it cannot read"
)]

mod properties;
mod situation;
mod table;
