//! The decision, pure: request + context + settings in, decision out.
//!
//! Nothing here knows a Kubernetes client, a clock, a file or the host: what the decision must know
//! arrives as data, and what it decides leaves as data. The rooms, in reading order:

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod json;

pub mod amount;
pub mod glob;
pub mod image;
pub mod order;
pub mod timestamp;

pub mod settings;

pub mod request;
pub mod subject;

pub mod context;
pub mod well_known;

pub mod stage;

pub mod decide;

pub mod answer;

pub use context::Context;
pub use decide::{Decision, decide};
pub use request::Request;
pub use settings::Settings;
