//! Headroom at a real Kubernetes API server. Each test needs a control plane and minutes, so all are ignored unless asked
//! for: `make e2e-cluster`.

mod alone;
mod control_plane;
mod webhook;
