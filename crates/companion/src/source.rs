//! Where usage comes from: one abstraction, one file a source.
//!
//! A source turns the answers of a metrics store into the samples below and decides nothing else: which windows are
//! read, how often a failed read is tried again, and what becomes of the samples is the pipeline's business
//! (`crate::collect`). A source deals with what is peculiar to its answers: duplicate series of HA pairs, counter
//! resets, NaN, gaps, label names. Floats end here: a [`Sample`] is an integer.

pub mod checkpoints;
pub mod cluster_id;
pub mod examination;
pub mod files;
pub mod forward;
pub mod framing;
pub mod http;
pub mod identity;
pub mod influxdb;
pub mod listing;
pub mod metrics_api;
pub mod prometheus;
pub mod proxy;

use async_trait::async_trait;
use headroom_core::amount::Quantity;

use self::cluster_id::ClusterId;

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

/// A distribution that the source has already aggregated and keeps up to date itself (a VPA checkpoint). It stands
/// for all that the source knows of this container, so a newer one *replaces* an older one instead of adding to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    pub namespace: String,
    /// Who is described, unique and stable in its namespace (for a checkpoint, its object's name): what is replaced.
    pub subject: String,
    /// As written in the pod template.
    pub image: String,
    pub resource: Resource,
    /// Unix time of the newest observation in it.
    pub last_seen: i64,
    /// A value (nanocores or bytes) and how many seconds were observed at it.
    pub buckets: Vec<(u64, u64)>,
}

/// One portion of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    Usage(Vec<Series>),
    OomKills(Vec<OomKill>),
    Distributions(Vec<Distribution>),
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
}

/// How far a source can look back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Any window of the past may be asked for, at any time, again if need be, with the same answer: a metrics store.
    Past,
    /// Only the present state can be seen: the metrics API, VPA checkpoints. `read` is called once a step with the
    /// window of that step, and its samples carry a time in that window. What was not looked at is never seen.
    Present,
}

/// Why a read failed, in the only three ways that make a difference to the pipeline. The text is for people: lower
/// case, one line, says what was asked of whom, what came back and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Too much was asked for (422, 503 with such a reason, a timeout of the query): ask for half the window.
    #[error("{0}")]
    Overloaded(String),
    /// May work when tried again (connection refused, 5xx, truncated answer): back off, then the same again.
    #[error("{0}")]
    Temporary(String),
    /// Will not work until something is changed (401, 404, unreadable answer, bad name).
    #[error("{0}")]
    Permanent(String),
}

/// Receives what a source has read. Nothing is kept of a read that ends with an error.
pub type Sink<'a> = &'a mut (dyn FnMut(Batch) + Send);

/// A place that knows what containers used.
#[async_trait]
pub trait Source: Send + Sync {
    /// Which cluster the usage is of, as far as the source can tell.
    async fn cluster(&self) -> Result<ClusterId, SourceError> {
        Ok(ClusterId::default())
    }

    /// Whether it is an API server that is read, so that it can tell its cluster at any time.
    fn is_api_server(&self) -> bool {
        false
    }

    /// The source's own clock (unix seconds): windows are cut by it, so that a skew between its clock and ours cannot
    /// make a window look final that is not.
    async fn now(&self) -> Result<i64, SourceError>;

    /// The namespaces with anything to read in this window.
    async fn namespaces(&self, window: Window) -> Result<Vec<String>, SourceError>;

    /// Reads one namespace's usage in one window. May hand over batches as they arrive.
    async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError>;

    /// Reads all namespaces in a few calls. False, and nothing read, if the source has to be asked about each namespace,
    /// or we may not ask about all of them.
    async fn read_all(&self, _window: Window, _sink: Sink<'_>) -> Result<bool, SourceError> {
        Ok(false)
    }

    /// The distance of samples in seconds: the resolution that is asked for.
    fn step_seconds(&self) -> u32;

    fn reach(&self) -> Reach;

    /// What a source of the present has to know after a restart, so that it tells nothing twice. It is kept with what
    /// was read, in one commit.
    fn memory(&self) -> Option<Vec<u8>> {
        None
    }

    /// Puts the source back to where it stood with such a memory. One that cannot be read is none.
    fn remember(&self, _memory: &[u8]) {}
}
