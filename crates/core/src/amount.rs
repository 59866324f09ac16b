//! Exact numbers, as Kubernetes writes them.
