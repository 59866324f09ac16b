//! Samples of usage, as every source gives them. A [`Sample`] is an integer: floats end in the sources.

use headroom_core::amount::Quantity;

/// What is measured. CPU counts in billionths of a core, all else in bytes.
pub use headroom_core::cluster::usage::Resource;

/// What counts of a quantity: whole nanocores or bytes.
pub fn amount(resource: Resource, quantity: &Quantity) -> Option<u64> {
    let scaled = match resource {
        Resource::Cpu => quantity.scaled(1_000_000_000, 1),
        Resource::Memory | Resource::EphemeralStorage => quantity.clone(),
    };
    u64::try_from(scaled.value()).ok()
}

/// Usage over one step, at the step's time. NaN, negative and missing values are no samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Unix time in seconds.
    pub time: i64,
    /// Nanocores or bytes.
    pub value: u64,
}

/// The container of a pod that something is said about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Container {
    pub namespace: String,
    pub pod: String,
    pub name: String,
    /// As written in the pod's spec, because that is what an admission request will hold.
    pub image: String,
}

/// What one container used of one resource. At most one sample a step: a source drops the second series of an HA pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    pub container: Container,
    pub resource: Resource,
    pub samples: Vec<Sample>,
    /// How many seconds each sample stands for.
    pub step_seconds: u32,
}

/// A container was killed because it ran out of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomKill {
    pub container: Container,
    /// Unix time in seconds.
    pub at: i64,
    /// The limit in force, or what was used, when it was killed; in bytes.
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

    /// The earlier and the later half, cut between two steps; none of fewer than two.
    pub fn halves(self, step: i64) -> Option<[Self; 2]> {
        let steps = self.seconds().div_euclid(step.max(1));
        let middle = self.from.saturating_add(steps.div_euclid(2).saturating_mul(step));
        (steps >= 2).then_some([Self { to: middle, ..self }, Self { from: middle, ..self }])
    }
}
