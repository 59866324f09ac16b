//! Accuracy of estimates, summed over containers.

use std::collections::BTreeMap;

use headroom_core::cluster::usage::Resource;
use headroom_usage_profile::Accuracy;
use headroom_usage_profile::accuracy::RARELY;

use super::Compared;
use crate::sample::quantity;

/// A container that was observed for less time does not count: it has hardly started.
const LEAST_SECONDS: u64 = 3_600;

/// The sum for one resource, in nanocores or bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    pub containers: u64,
    /// Containers whose usage was above the estimate for more than [`RARELY`] of their time.
    pub above: u64,
    pub estimated: u64,
    pub used: u64,
}

/// In the order of [`Resource::ALL`].
pub type Sums = [Sum; Resource::ALL.len()];

impl Sum {
    pub fn add(&mut self, compared: &Compared) {
        if compared.seconds < LEAST_SECONDS {
            return;
        }
        let is_above = compared.seconds_above.saturating_mul(RARELY) > compared.seconds;
        let (estimated, used) = (compared.estimate, compared.mean());
        self.merge(&Self { containers: 1, above: is_above.into(), estimated, used });
    }

    pub fn merge(&mut self, other: &Self) {
        self.containers = self.containers.saturating_add(other.containers);
        self.above = self.above.saturating_add(other.above);
        self.estimated = self.estimated.saturating_add(other.estimated);
        self.used = self.used.saturating_add(other.used);
    }

    fn accuracy(&self, resource: Resource) -> Option<Accuracy> {
        let Self { containers, above, estimated, used } = *self;
        let [estimated, used] = [estimated, used].map(|amount| quantity(amount, resource));
        (containers > 0).then_some(Accuracy { containers, above, estimated, used })
    }
}

/// The published accuracy, for resources with any compared container.
pub fn published(sums: &Sums) -> BTreeMap<Resource, Accuracy> {
    let all = Resource::ALL.into_iter().zip(sums);
    all.filter_map(|(resource, sum)| Some((resource, sum.accuracy(resource)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_above_its_estimate_if_it_is_so_for_more_than_a_twentieth_of_its_time() {
        let check = |seconds, seconds_above, expected: (u64, u64)| {
            let mut sum = Sum::default();
            sum.add(&Compared { estimate: 1, seconds, seconds_above, ..Compared::default() });
            assert_eq!((sum.containers, sum.above), expected, "{seconds_above} of {seconds} s");
        };
        check(3_599, 3_599, (0, 0));
        check(3_600, 180, (1, 0));
        check(3_600, 181, (1, 1));
        check(u64::MAX, u64::MAX, (1, 0));
    }

    #[test]
    fn sums_of_any_size_are_published() {
        let most = Sum { containers: u64::MAX, above: 0, estimated: u64::MAX, used: 1 };
        let mut sum = most;
        sum.merge(&most);
        let published_sums = published(&[sum, sum, Sum::default()]);
        let used: Vec<_> = published_sums.values().map(|accuracy| accuracy.used.to_string()).collect();
        assert_eq!(used, ["2n", "2"]);
        assert_eq!(published(&Sums::default()), BTreeMap::new());
    }
}
