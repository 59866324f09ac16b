//! The core as its users see it: one module for each kind of object or rule.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop on data it cannot read")]

mod claims;
mod conformance;
mod estimates;
mod harness;
mod quantity;
mod quota;
mod trailing_nulls;
mod trust;
