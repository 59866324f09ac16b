//! Resizes running pods: [`decision`] says what is changed and taken back, without I/O. [`Resizer`] looks at workloads,
//! [`observed`] reads a pod for [`decision::decide`], and [`Round::run`] carries out the decision for one workload.
//!
//! Modules in reading order.

pub mod decision;

mod observed;
mod slim;

mod round;

pub mod facts;
mod room;
pub mod running;

pub mod recent;

pub mod signals;
mod unfit;

pub mod metrics;
mod pass;

pub use observed::{ContainerFacts, observed};
pub use pass::{Found, Memory, Resizer};
pub use round::{Round, RoundError, RoundOutcome, records};
