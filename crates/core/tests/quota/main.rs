//! Quotas, from the payload to the answer: what Kubernetes does, what people are told, and what always holds.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop on data it cannot read")]

mod changes;
mod conformance;
mod door;
mod freshness;
mod properties;
mod workloads;
