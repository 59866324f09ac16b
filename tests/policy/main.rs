//! The policy as a host sees it: a payload goes in, a response comes out. Everything here is judged natively and, where it
//! says so, by the built wasm in a real waPC host as well; the two must agree.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop on data it cannot read"
)]

mod conformance;
mod documentation;
mod door;
mod estimates;
mod hostile;
mod properties;
mod reads;
mod scenarios;
mod settings_reference;
