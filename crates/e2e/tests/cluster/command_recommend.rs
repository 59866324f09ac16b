//! `kubectl headroom recommend` with a real Prometheus behind a Service of a real API server: its permissions and errors
//! without them, its recommendations compared with admission, and its patches.

mod next_pod;
mod patches;
mod permissions;
mod scene;
