//! The recommendation for a workload: a [`Workload`](workload::Workload) has its containers with their amounts, the `reason` and
//! the `flag`s of each, its effects on quotas and autoscalers, and why its change is `blocked`; `risk` is what to fix first.
//!
//! Modules in reading order.

pub mod amounts;
pub mod reason;

pub mod autoscaler;
pub mod blocked;
pub mod pod_request;
pub mod quota_effect;

pub mod flag;
pub mod template;
pub mod workload;

mod told;

pub mod risk;
