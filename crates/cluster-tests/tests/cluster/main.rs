//! Headroom at a real Kubernetes API server. Each test needs a control plane and minutes, so all are ignored unless asked
//! for: `make e2e-cluster`.

mod guarded;
mod objects;

mod control_plane;
mod webhook;

mod alone;
mod beside;
mod collector;
mod outage;
