//! Samples of usage, as all sources return them. A [`Sample`] is an integer: floats end in the sources.

use headroom_admission::amount::Quantity;

use crate::{DAY, day_of};

/// A measured resource. CPU is in billionths of a core, all others in bytes.
pub use headroom_admission::cluster::usage::Resource;

/// A quantity as whole nanocores or bytes.
pub fn amount(resource: Resource, quantity: &Quantity) -> Option<u64> {
    let scaled = match resource {
        Resource::Cpu => quantity.scaled(1_000_000_000, 1),
        Resource::Memory | Resource::EphemeralStorage => quantity.clone(),
    };
    u64::try_from(scaled.value()).ok()
}

/// The quantity of nanocores or bytes. From a thousandth of a core up, cores are rounded up to millionths, which is at most
/// 0.1 % more: billionths would triple the length of the text.
pub fn quantity(amount: u64, resource: Resource) -> Quantity {
    const MICRO: u64 = 1_000;
    const MILLI: u64 = 1_000_000;
    if resource != Resource::Cpu {
        return Quantity::from_bytes(amount);
    }
    let nanocores = if amount < MILLI { amount } else { amount.div_ceil(MICRO).saturating_mul(MICRO) };
    Quantity::from_units(i64::try_from(nanocores).unwrap_or(i64::MAX)).scaled(1, 1_000_000_000)
}

/// True if a container can use this many nanocores or bytes. cAdvisor and kubelets have reported 2^64-1 bytes.
pub fn is_possible(amount: u64, resource: Resource) -> bool {
    let unit = if resource == Resource::Cpu { 1_000_000_000 } else { 1 };
    amount <= resource.most().unsigned_abs().saturating_mul(unit)
}

/// Usage for some time. NaN, negative, impossible and missing values are no samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Unix time in seconds.
    pub time: i64,
    /// Nanocores or bytes.
    pub value: u64,
    /// The time that it stands for: a step, or all that a day had between two of its percentiles.
    pub seconds: u64,
}

/// The container of a sample or kill.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampledContainer {
    pub namespace: String,
    pub pod: String,
    pub name: String,
    /// As written in the pod's spec, like in an admission request.
    pub image: String,
}

impl SampledContainer {
    pub fn of([namespace, pod, name, image]: [&str; 4]) -> Self {
        let [namespace, pod, name, image] = [namespace, pod, name, image].map(str::to_owned);
        Self { namespace, pod, name, image }
    }
}

/// The usage of one resource by one container. At most one sample a step: a source drops the second series of an HA pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    pub container: SampledContainer,
    pub resource: Resource,
    pub samples: Vec<Sample>,
}

impl Series {
    /// The samples of each day that they touch, in their order.
    pub fn days(&self) -> impl Iterator<Item = (u32, &[Sample])> {
        let days = self.samples.chunk_by(|one, next| day_of(one.time) == day_of(next.time));
        days.filter_map(|samples| Some((day_of(samples.first()?.time), samples)))
    }
}

/// A container was killed because it ran out of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomKill {
    pub container: SampledContainer,
    /// Unix time in seconds.
    pub at: i64,
    /// The limit or usage when it was killed, in bytes.
    pub memory: u64,
}

/// One portion of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    Usage(Vec<Series>),
    OomKills(Vec<OomKill>),
}

/// A span of time, half open: `from <= t < to`, both unix seconds and multiples of the source's step.
///
/// Every sample belongs to exactly one window, that of its own time. (A range query of Prometheus includes its end, so
/// it has to ask up to `to - step`.) Samples outside the window are dropped and counted by the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    pub from: i64,
    pub to: i64,
}

impl Window {
    pub fn contains(&self, time: i64) -> bool {
        self.from <= time && time < self.to
    }

    pub fn seconds(&self) -> i64 {
        self.to.saturating_sub(self.from)
    }

    /// Its days in UTC, newest first; the newest and the oldest may not be whole.
    pub fn days(self) -> Vec<Self> {
        let mut days = Vec::new();
        let mut to = self.to;
        while to > self.from {
            let from = (i64::from(day_of(to - 1)) * DAY).max(self.from);
            days.push(Self { from, to });
            to = from;
        }
        days
    }

    /// The earlier and the later half, cut between two steps; none of fewer than two.
    pub fn halves(self, step: i64) -> Option<[Self; 2]> {
        let steps = self.seconds().div_euclid(step.max(1));
        let middle = self.from.saturating_add(steps.div_euclid(2).saturating_mul(step));
        (steps >= 2).then_some([Self { to: middle, ..self }, Self { from: middle, ..self }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_utc() {
        let window = |from, to| Window { from, to };
        assert_eq!(window(600, 600 + DAY).days(), [window(DAY, DAY + 600), window(600, DAY)]);
        assert_eq!(window(0, DAY).days(), [window(0, DAY)]);
        assert_eq!(window(300, 900).days(), [window(300, 900)]);
    }

    #[test]
    fn cores_are_written_in_millionths_unless_there_are_few() {
        let check = |nanocores, text| assert_eq!(quantity(nanocores, Resource::Cpu).to_string(), text);
        check(0, "0");
        check(999_999, "999999n");
        check(1_000_000, "1m");
        check(12_345_678, "12346u");
        check(2_500_000_000, "2500m");
        check(3_000_000_000, "3");
    }
}
