//! Headroom at a real Kubernetes API server. Each test needs a control plane and minutes, so all are ignored unless asked
//! for: `make e2e-cluster`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop where the cluster is not as it made it"
)]

mod guarded;
mod objects;
mod readme;

mod control_plane;
mod webhook;

mod alone;
mod beside;
mod collector;
mod differential;
mod outage;
mod pair;
