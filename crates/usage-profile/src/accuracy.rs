//! The accuracy of estimates: the estimates of containers compared with their later usage.

use std::fmt;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{Resource, find_in_usage};

/// The accuracy for one resource of an image's containers in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accuracy {
    /// The number of compared containers.
    pub containers: u64,
    /// The number of containers whose usage exceeded their estimate for more than one part in [`RARELY`] of the time.
    pub above: u64,
    /// The sum of their estimates.
    pub estimated: Quantity,
    /// The sum of their average usage.
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
    /// Whether the estimates are off. Many containers exceed their CPU request now and then and lack nothing; requests
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

    /// Reads the text in a profile; none if a part is missing or no container was compared.
    pub fn read(text: &str) -> Option<Self> {
        fn part<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
            find_in_usage(text, name)?.parse().ok()
        }
        let [containers, above] = ["containers", "above"].map(|name| part::<u64>(text, name));
        let [estimated, used] = ["estimated", "used"].map(|name| part::<Quantity>(text, name));
        let read = Self { containers: containers?, above: above?, estimated: estimated?, used: used? };
        (read.containers >= read.above.max(1)).then_some(read)
    }
}

/// `containers=12 above=1 estimated=1200m used=310m`, in the same form as usage.
impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { containers, above, estimated, used } = self;
        write!(f, "containers={containers} above={above} estimated={estimated} used={used}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accuracy(text: &str) -> Accuracy {
        Accuracy::read(text).unwrap()
    }

    #[test]
    fn an_accuracy_is_read_as_it_was_written() {
        let text = "containers=12 above=1 estimated=1200m used=310m";
        assert_eq!(accuracy(text).to_string(), text);
        for wrong in [
            "",
            "containers=1 above=0 estimated=1",
            "containers=1 above=2 estimated=1 used=1",
            "containers=0 above=0 estimated=0 used=0",
        ] {
            assert_eq!(Accuracy::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn estimates_are_off_if_many_containers_use_more_or_all_use_hardly_anything() {
        let check = |resource, text: &str, off| assert_eq!(accuracy(text).off(resource), off, "{text}");
        let (cpu, memory) = (Resource::Cpu, Resource::Memory);
        check(cpu, "containers=4 above=2 estimated=1 used=500m", None);
        check(cpu, "containers=4 above=3 estimated=1 used=500m", Some(Off::TooLow));
        check(memory, "containers=10 above=1 estimated=1Gi used=500Mi", None);
        check(memory, "containers=10 above=2 estimated=1Gi used=500Mi", Some(Off::TooLow));
        check(cpu, "containers=9 above=0 estimated=501m used=50m", Some(Off::TooHigh));
        check(cpu, "containers=9 above=0 estimated=500m used=1m", None);
        check(cpu, "containers=9 above=0 estimated=1 used=100m", None);
        check(memory, "containers=1 above=0 estimated=1Gi used=99Mi", Some(Off::TooHigh));
    }
}
