//! The API server's side of resizing: [`observed`] reads a pod for [`headroom_resize::decide`], and [`Round::run`] carries out
//! what it decides for one workload.

mod observed;

mod round;

pub use observed::{Known, observed};
pub use round::{Outcome, Round, RoundError, Workload};
