//! Amounts of CPU and memory, and the size of a container.

use serde::{Deserialize, Serialize};

pub const MEBIBYTE: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComputeResource {
    Cpu,
    Memory,
}

impl ComputeResource {
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    /// Its name in lists of resources.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// An amount as a spec has it, with the largest unit that divides it.
    pub fn written(self, amount: u64) -> String {
        match self {
            Self::Cpu if amount.is_multiple_of(1000) => (amount / 1000).to_string(),
            Self::Cpu => format!("{amount}m"),
            Self::Memory => {
                let unit =
                    [(30, "Gi"), (20, "Mi"), (10, "Ki")].into_iter().find(|(bits, _)| amount.is_multiple_of(1 << bits));
                unit.filter(|_| amount > 0)
                    .map_or_else(|| amount.to_string(), |(bits, unit)| format!("{}{unit}", amount >> bits))
            }
        }
    }

    /// An amount for people: memory in whole Mi, rounded up.
    pub fn readable(self, amount: u64) -> String {
        match self {
            Self::Memory if amount > MEBIBYTE => self.written(amount.div_ceil(MEBIBYTE).saturating_mul(MEBIBYTE)),
            _ => self.written(amount),
        }
    }
}

/// An amount of each resource, in millicores and bytes; none where nothing is set or known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

impl Amounts {
    pub fn of(self, resource: ComputeResource) -> Option<u64> {
        match resource {
            ComputeResource::Cpu => self.cpu,
            ComputeResource::Memory => self.memory,
        }
    }

    pub fn set(&mut self, resource: ComputeResource, amount: u64) {
        match resource {
            ComputeResource::Cpu => self.cpu = Some(amount),
            ComputeResource::Memory => self.memory = Some(amount),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSize {
    #[serde(default)]
    pub requests: Amounts,
    #[serde(default)]
    pub limits: Amounts,
}

/// The QoS class of a pod with containers of these sizes, which no resize may change.
/// <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/>
pub fn qos(sizes: impl Iterator<Item = ContainerSize> + Clone) -> &'static str {
    let is_guaranteed = |size: ContainerSize| {
        ComputeResource::ALL.into_iter().all(|resource| {
            let limit = size.limits.of(resource);
            limit.is_some_and(|amount| amount > 0) && limit == size.requests.of(resource)
        })
    };
    let is_any_set = |of: Amounts| [of.cpu, of.memory].into_iter().flatten().any(|amount| amount > 0);
    if !sizes.clone().any(|size| is_any_set(size.requests) || is_any_set(size.limits)) {
        "BestEffort"
    } else if sizes.clone().all(is_guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
