//! Sizes of pods that no workload keeps: agents' sandboxes, CI runners, notebooks and Jobs, by what pods of the same image used,
//! most of which are gone.
//!
//! They are idle most of the time, and each is busy at another moment. So each requests its part of what twenty of them use together
//! on a node, and its limits are above all that was seen. The median would be less: pods that are rarely busy would fill a node until
//! it has no memory left, as `tests` shows.

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use serde::Serialize;

use crate::advice::amounts::{some_text, text};
use crate::engine::{bytes, memory_limit};
use crate::history::distribution::Distribution;

/// From fewer pods nothing is recommended.
const LEAST_PODS: u64 = 5;
/// So many pods share a node.
const TOGETHER: u64 = 20;

#[derive(Debug, Clone, Copy)]
pub struct UsageOfImage<'u> {
    pub pods: u64,
    pub cpu: Option<&'u Distribution>,
    pub memory: Option<&'u Distribution>,
    pub storage: Option<&'u Distribution>,
    /// The most memory at which one was OOM-killed.
    pub killed_at: Option<&'u Quantity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SizeByImage {
    pub resources: Resources,
    /// The next pod needs more than the highest peak that was seen with a chance of one in so many.
    pub one_in: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_node: Option<Fit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resources {
    pub requests: ImageAmounts,
    pub limits: ImageAmounts,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ImageAmounts {
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<Quantity>,
}

/// The pods that may be on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCapacity {
    pub cpu: Quantity,
    pub memory: Quantity,
    pub pods: u64,
}

/// The number of pods that fit on an empty node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fit {
    pub by_requests: u64,
    /// If all were at their memory limits at once.
    pub at_limits: u64,
    #[serde(serialize_with = "text")]
    pub cpu: Quantity,
    #[serde(serialize_with = "text")]
    pub memory: Quantity,
}

impl SizeByImage {
    /// None from too few pods, or without memory usage.
    pub fn of(usage: UsageOfImage<'_>, node: Option<&NodeCapacity>) -> Option<Self> {
        let memory = usage.memory.filter(|_| usage.pods >= LEAST_PODS)?;
        let requests = ImageAmounts {
            cpu: usage.cpu.map(|cpu| part(cpu, Resource::Cpu)),
            memory: Some(part(memory, Resource::Memory)),
            ephemeral_storage: usage.storage.map(|storage| part(storage, Resource::EphemeralStorage)),
        };
        let limit = |used: &Distribution, killed_at| memory_limit::of_usage(bytes(used.peak()), killed_at, 1);
        let limits = ImageAmounts {
            cpu: None,
            memory: Some(limit(memory, usage.killed_at.map(bytes))),
            ephemeral_storage: usage.storage.map(|storage| limit(storage, None)),
        };
        let times = |all: &Quantity, one: &Option<Quantity>| {
            let one = one.as_ref().map_or(0, Quantity::milli_value);
            if one > 0 { u64::try_from(all.milli_value() / one).unwrap_or(0) } else { u64::MAX }
        };
        let on_node = node.map(|NodeCapacity { cpu, memory, pods }| Fit {
            by_requests: times(cpu, &requests.cpu).min(times(memory, &requests.memory)).min(*pods),
            at_limits: times(memory, &limits.memory).min(*pods),
            cpu: cpu.clone(),
            memory: memory.clone(),
        });
        Some(Self { resources: Resources { requests, limits }, one_in: usage.pods + 1, on_node })
    }
}

/// The part of a pod in what [`TOGETHER`] of them use together: the mean, and above it for memory, which cannot wait, three standard
/// deviations of the sum, for CPU one.
fn part(used: &Distribution, resource: Resource) -> Quantity {
    let [mean, deviation] = used.mean_and_deviation();
    // Less than the last is not requested, as for estimates.
    let (deviations, step, least) = match resource {
        Resource::Cpu => (1, Quantity::from_milli(5), Quantity::from_milli(10)),
        Resource::Memory => (3, Quantity::from_bytes(16 << 20), Quantity::from_bytes(32 << 20)),
        Resource::EphemeralStorage => (3, Quantity::from_bytes(16 << 20), Quantity::ZERO),
    };
    let part = mean.plus(&deviation.scaled(deviations * 1_000, (TOGETHER * 1_000_000).isqrt()));
    part.to_family(step.family()).rounded_up_to_multiple_of(&step).max(least)
}

#[cfg(test)]
mod tests;
