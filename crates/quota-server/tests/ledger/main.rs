//! The ledger's replicas at an in-memory API server that is slow, forgets watches, refuses writes and loses responses,
//! all by a seed. The bound is checked at every write. `HEADROOM_LEDGER_SEEDS=1000` tries more seeds.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

mod clients;
mod cluster;
mod counts;
mod devices;
mod nights;
mod reviews;
mod schedules;
