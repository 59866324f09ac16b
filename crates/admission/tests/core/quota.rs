//! Quotas, from the payload to the answer: conformance with Kubernetes, messages, and properties.

mod admission;
mod conformance;
mod properties;
mod resizes;
mod workloads;
