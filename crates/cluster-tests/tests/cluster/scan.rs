//! `kubectl headroom scan` with a real Prometheus behind a Service of a real API server: what it may read and what it says
//! where it may not, its advice beside what admission gives, and its patches.

mod advice;
mod patches;
mod rights;
mod scene;
