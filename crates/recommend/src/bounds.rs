//! Bounds from evidence: quotas and LimitRanges as large as what namespaces run needs.
//!
//! A [`WorkloadConsumer`](consumer::WorkloadConsumer) is a workload with one of its pods, as it is and after
//! right-sizing, and with how many there are at most. `quota` adds them up by the names of each quota, `limits` takes
//! their distribution, and `trial` evaluates what is proposed by the simulation before anybody sees it. `manifest` is
//! the proposal as YAML to commit, with its reasons.
//!
//! Modules in reading order.

pub mod consumer;

pub mod limits;
pub mod quota;

pub mod manifest;
pub mod trial;

#[cfg(test)]
mod tests;
