//! Quotas, from the payload to the answer: conformance with Kubernetes, messages, and properties.

mod changes;
mod conformance;
mod freshness;
mod properties;
mod resizes;
mod rollouts;
mod workloads;
