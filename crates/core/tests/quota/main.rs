//! Quotas, from the payload to the answer: conformance with Kubernetes, messages, and properties.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop on data it cannot read")]

mod changes;
mod conformance;
mod freshness;
mod harness;
mod properties;
mod workloads;
