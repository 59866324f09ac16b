//! Headroom at a real Kubernetes API server. Each test needs a control plane and takes minutes, so all are ignored by
//! default. Run them with `make e2e-cluster`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic if the cluster is in an unexpected state"
)]

mod chart;
mod deployed;
mod guarded;
mod objects;

mod control_plane;
mod webhook;

mod alone;
mod collector;
mod differential;
mod ledger;
mod outage;
mod page;
mod pair;
mod scan;
mod with_plugins;
