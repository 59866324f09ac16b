//! The protocol of quotas over namespaces, without I/O. The quotas hold under concurrency.
//!
//! A request that raises usage first writes a claim for the object's storage key into a ledger, and is only then
//! allowed. Stored objects are counted from a watch; a claim is removed when its object has been counted, or when its
//! request is over and a live read shows nothing that the count lacks. So `used` plus claims is never below what is
//! stored, and never raised above `hard`. Creates that are like many others may take a claim that was written before they
//! came ([`spare`]).
//!
//! This crate has no client and no clock. The caller reads a ledger, calls [`OpenLedger`] for a batch of requests or
//! [`recount()`] to count stored objects, and writes the result back by compare-and-swap. `tests/model.rs` searches all
//! interleavings of these functions in a [`model`](crate::model).

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod encoding;

pub mod devices;
pub mod tree;

pub mod footprint;
pub mod plan;

pub mod placement;

pub mod state;

pub mod reservation_request;

mod load;

pub mod ledger;
pub mod message;
pub mod spare;

pub mod cache;
pub mod recount;

#[cfg(feature = "model")]
pub mod model;

pub use cache::{Cache, Count};
pub use footprint::Footprint;
pub use ledger::{LedgerVerdict, OpenLedger};
pub use plan::Plan;
pub use recount::recount;
pub use reservation_request::ReservationRequest;
pub use state::{ObjectKey, State};
