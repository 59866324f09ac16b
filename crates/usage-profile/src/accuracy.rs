//! The accuracy of estimates: the estimates of containers compared with their later usage.

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::serialized::text;

/// The accuracy for one resource of an image's containers in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accuracy {
    /// Number of compared containers.
    pub containers: u64,
    /// Number of containers whose usage exceeded their estimate for more than a twentieth of the time.
    pub above: u64,
    /// Sum of their estimates.
    #[serde(with = "text")]
    #[schemars(with = "String", length(max = 40))]
    pub estimated: Quantity,
    /// Sum of their average usage.
    #[serde(with = "text")]
    #[schemars(with = "String", length(max = 40))]
    pub used: Quantity,
}

/// A container may exceed its estimate for one part in this many of its time.
pub const RARELY: u64 = 20;

/// Estimates that are far from usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    TooLow,
    TooHigh,
}

impl Accuracy {
    /// Finds estimates that are off. Many containers exceed their CPU request now and then and lack nothing; requests
    /// for memory and storage should not be exceeded. Estimates are too high if hardly any of them is used, unless they
    /// are too small to matter.
    pub fn off(&self, resource: Resource) -> Option<Off> {
        let (most, least) = match resource {
            Resource::Cpu => (2, Quantity::from_milli(500)),
            Resource::Memory | Resource::EphemeralStorage => (10, Quantity::from_bytes(512 << 20)),
        };
        if self.above.saturating_mul(most) > self.containers {
            Some(Off::TooLow)
        } else if self.estimated > least && self.estimated > self.used.scaled(10, 1) {
            Some(Off::TooHigh)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_off_if_many_containers_use_more_or_all_use_hardly_anything() {
        let check = |resource, (containers, above): (u64, u64), estimated: &str, used: &str, off| {
            let [estimated, used] = [estimated, used].map(|amount| amount.parse().unwrap());
            let accuracy = Accuracy { containers, above, estimated, used };
            assert_eq!(accuracy.off(resource), off, "{accuracy:?}");
        };
        let (cpu, memory) = (Resource::Cpu, Resource::Memory);
        check(cpu, (4, 2), "1", "500m", None);
        check(cpu, (4, 3), "1", "500m", Some(Off::TooLow));
        check(memory, (10, 1), "1Gi", "500Mi", None);
        check(memory, (10, 2), "1Gi", "500Mi", Some(Off::TooLow));
        check(cpu, (9, 0), "501m", "50m", Some(Off::TooHigh));
        check(cpu, (9, 0), "500m", "1m", None);
        check(cpu, (9, 0), "1", "100m", None);
        check(memory, (1, 0), "1Gi", "99Mi", Some(Off::TooHigh));
    }
}
