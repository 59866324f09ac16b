//! The protocol of the ledger, without I/O: quotas that hold under concurrency and across namespaces.
//!
//! A request that raises usage first writes a claim for the object's storage key into a ledger, and is only then
//! allowed. Stored objects are counted from a watch; a claim is removed when its object has been counted, or when its
//! request is over and a live read shows nothing that the count lacks. So `used` plus claims is never below what is
//! stored, and never raised above `hard`.
//!
//! This crate has no client and no clock. The caller reads a ledger, calls [`Book`] for a batch of requests or
//! [`settle`] to count stored objects, and writes the result back by compare-and-swap. `tests/model` searches all
//! interleavings of these functions.

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod text;

pub mod selector;
pub mod tenant_quota;
pub mod tree;

pub mod plan;
pub mod shape;

pub mod state;

pub mod ask;
pub mod message;
pub mod reserve;

pub mod cache;
pub mod settle;

pub use ask::Ask;
pub use cache::Cache;
pub use plan::Plan;
pub use reserve::{Book, Verdict};
pub use settle::settle;
pub use shape::Shape;
pub use state::{Key, State};
