//! The ledger at a real API server: two replicas, both called for the same namespaces, so that they write the same
//! ledger. A watch counts the pods after every event.

mod bench;
mod churn;
mod configured;
mod failures;
mod scene;
mod seen;
mod worlds;
