//! Decides about the sizes of running pods: a pod has the size that it would be admitted with today.
//!
//! The caller observes a workload, calls [`decide`], stores the [`Record`] that it returns by compare-and-swap, and only then
//! sends the returned resizes, each on condition of the version of the pod in it. That is the whole protocol:
//!
//! - A change is in the record before it is sent. So whoever leads next finds every change that may have been made.
//! - A change names the version of the pod that it applies to. So it is made at most once, however often it is sent, and a
//!   change whose pod has another version since then and still its old size will never be made.
//! - Nothing is compared with what an earlier call remembered: any caller may die at any moment, and two that both believe
//!   they lead do no harm. `tests/model.rs` searches their interleavings.
//!
//! Nothing here has a client or a clock. Time is the API server's, in seconds.

mod amounts;

mod rules;

mod observed;

mod record;

mod note;

mod sizing;

mod decide;

pub use amounts::{Amounts, ComputeResource, ContainerSize};
pub use decide::{Decision, Fits, Resize, Unfit, decide, undo};
pub use note::{Event, Note};
pub use observed::{Kubelet, Mode, ObservedContainer, ObservedPod, Readiness, Used, Workload};
pub use record::{Direction, Harm, LeftAlone, Past, Phase, PodChange, Record, ResizeReason, Resized};
pub use rules::{AtOnce, Rules};

/// Seconds since 1970.
pub type Time = i64;
