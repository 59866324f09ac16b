//! A model of the ledger's protocol: requests, their handlers on any number of replicas, the API server, deletions, and
//! leaders that recount, with the same functions that the program calls. `tests/model.rs` searches all its states; the fuzz
//! target `ledger` follows long paths through larger ones.
//!
//! Checked in every state:
//!
//! - SAFE: stored objects never exceed a bound, and the ledger never holds less than what is stored;
//! - CLEAN: without further requests, every active leader and a new one end with no claim and the true count;
//! - PROMPT: a claim is removed once a leader has seen its object.
//!
//! Storage keys hold (uid, version, charge). As in an API server, a create is stored only if its key is free, and an
//! update only if the version is still the one that was reviewed. Handlers crash, receive a review twice, lose the
//! response to a write, and continue after the API server has given up. An admitted request may still fail. Leaders
//! start at any time, even while another is active; they list, and watch with any delay. Time is one rule: a claim is
//! released only when its request is over and a live read of its key matches the leader's cache. A spare has no key to read: it
//! is released once the leader has counted up to a revision from after the end of every request that may have taken it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a model of known size")]

mod scenarios;

mod ledgers;

mod world;

pub use scenarios::{Flaw, Scenario, Verb, flaws, large, scenario, small, sweep};
pub use world::{Model, Step, World};
