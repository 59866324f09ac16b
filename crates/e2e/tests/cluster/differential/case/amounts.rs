//! Amounts in rising order, in many spellings, and the random numbers that choose among them.

use fastrand::Rng;

/// Resources of containers.
pub const RESOURCES: [(&str, &[&str]); 3] =
    [("cpu", CPU), ("memory", MEMORY), ("ephemeral-storage", &["0", "100M", "512Mi", "1G", "1Gi", "2Gi", "1e10"])];
pub const CPU: &[&str] = &[
    "0", "1m", "1500u", "5m", "50m", "0.1", "150m", "200m", "250m", "0.3", "500m", "0.7", "0.75", "1", "1.5", "2000m",
    "3", "4", "2e1",
];
pub const MEMORY: &[&str] = &[
    "0", "1", "1500m", "0.1Mi", "32Mi", "64M", "64Mi", "100M", "128M", "128Mi", "0.25Gi", "300Mi", "500M", "500Mi",
    "512Mi", "1e9", "1Gi", "1536Mi", "2Gi", "4G",
];
pub const PARTS_OF_A_BYTE: [&str; 2] = ["1500m", "0.1Mi"];
pub const STORAGE: &[&str] = &["1M", "500Mi", "1G", "1Gi", "1.5Gi", "5Gi", "10G", "10Gi", "1e11"];
pub const RATIOS: [&str; 6] = ["1", "1.5", "2", "4", "7.5", "100"];
pub const COUNTS: &[&str] = &["0", "1", "2", "3", "5", "100"];

pub struct Random(Rng);

impl Random {
    pub fn with_seed(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    pub fn chance(&mut self, percent: u8) -> bool {
        self.0.u8(..100) < percent
    }

    pub fn count(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        self.0.usize(range)
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.0.usize(..of.len())]
    }

    /// `N` amounts of a table, in rising order.
    pub fn rising<'a, const N: usize>(&mut self, table: &[&'a str]) -> [&'a str; N] {
        let mut places: [usize; N] = std::array::from_fn(|_| self.0.usize(..table.len()));
        places.sort_unstable();
        places.map(|place| table[place])
    }
}
