//! The API server's side of resizing: [`Resizer`] looks at workloads, [`observed`] reads a pod for [`headroom_resize::decide`],
//! and [`Round::run`] carries out what it decides for one workload.
//!
//! Modules in reading order.

mod observed;

mod round;

mod facts;
mod room;
pub mod running;

pub mod recent;

pub mod signals;

pub mod metrics;
mod pass;

pub use observed::{Known, observed};
pub use pass::{Found, Resizer};
pub use round::{Outcome, Round, RoundError, records};
