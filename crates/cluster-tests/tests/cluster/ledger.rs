//! The ledger at a real API server: two replicas, each asked about one of two namespaces, so both always write the same
//! ledger. A watch sees every pod come and go, and counts them at every moment.

mod at_the_bound;
mod bench;
mod changes;
mod configured;
mod failures;
mod replicas;
mod worlds;
