//! The decision as a pure function: request + context + settings in, decision out.
//!
//! Nothing here uses a Kubernetes client, a clock, a file or the host: all inputs and outputs are data. The modules are in
//! reading order: each uses only those above it.

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod find;
pub mod sort;
pub mod truncate;

pub mod json;

pub mod amount;
pub mod glob;
pub mod image;
pub mod nearest;
pub mod timestamp;

pub mod cluster;
pub mod well_known;

pub mod settings;

pub mod request;

pub mod limit_rules;

pub mod annotations;

pub mod actions;

pub mod defaults;
pub mod limits;

pub mod estimate;
pub mod quota;

pub mod fill;
pub mod recommend;

pub mod charge;
pub mod patch;
pub mod verdict;

mod decide;

pub mod evaluation;

pub use cluster::Context;
pub use evaluation::{FetchedObjects, evaluate, recommend};
pub use request::Request;
pub use settings::Settings;
pub use verdict::Decision;
