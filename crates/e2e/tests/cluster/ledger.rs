//! The ledger at a real API server: two replicas, each called for one of two namespaces, so both always write the same
//! ledger. A watch counts the pods after every event.

mod bench;
mod churn;
mod configured;
mod failures;
mod replicas;
mod worlds;
