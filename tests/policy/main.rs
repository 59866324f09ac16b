//! Tests of the policy as a host runs it: a payload in, a response out. All requests are evaluated natively; some tests
//! also use the built wasm in a real waPC host, and both must agree.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop on data it cannot read"
)]

mod conformance;
mod documentation;
mod estimates;
mod hostile;
mod properties;
mod reads;
mod runner;
mod settings_reference;
