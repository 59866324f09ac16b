//! Sources of usage: one trait, one module for each.
//!
//! A source turns the answers of a metrics store into samples ([`headroom_usage::sample`]) and decides nothing else: which windows are
//! read, how often a failed read is tried again, and what becomes of the samples is the pipeline's business
//! (`headroom_collector`). A source deals with what is peculiar to its answers: duplicate series of HA pairs, counter
//! resets, NaN, gaps, label names. Floats end here: a sample is an integer.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_output, which cleans it"
)]

pub mod http;

pub mod cloud_auth;
pub mod port_forward;

pub mod json_splitter;

pub mod cluster_id;
pub mod diagnosis;

pub mod files;
pub mod influxdb;
pub mod metrics_api;
pub mod prometheus;

pub mod paced;

use async_trait::async_trait;
use headroom_usage::sample::{Batch, Window};

use self::cluster_id::ClusterId;

/// The history of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Any window of the past may be asked for, at any time, again if need be, with the same answer: a metrics store.
    Past,
    /// Only the present state can be seen: the metrics API. `read` is called once a step with the
    /// window of that step, and its samples carry a time in that window. What was not looked at is never seen.
    Present,
}

/// Errors of a read, by how the reader reacts. The text is for people: lower
/// case, one line, says what was asked of whom, what came back and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Too much was asked for (422, 503 with such a reason, a timeout of the query): ask for half the window.
    #[error("{0}")]
    Overloaded(String),
    /// May work when tried again (connection refused, 5xx, truncated answer): back off, then the same again.
    #[error("{0}")]
    Temporary(String),
    /// Does not work without other permissions or credentials (401, 403).
    #[error("{0}")]
    Forbidden(String),
    /// Will not work until something else is changed (404, unreadable answer, bad name).
    #[error("{0}")]
    Permanent(String),
}

impl SourceError {
    /// True if the same read would fail again.
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::Overloaded(_) | Self::Temporary(_))
    }
}

/// Receives what a source has read. Nothing is kept of a read that ends with an error.
pub type Sink<'a> = &'a mut (dyn FnMut(Batch) + Send);

#[async_trait]
pub trait Source: Send + Sync {
    /// The cluster that the usage belongs to, as far as the source knows.
    async fn cluster(&self) -> Result<ClusterId, SourceError> {
        Ok(ClusterId::default())
    }

    /// The source's own clock (unix seconds): windows are cut by it, so that a skew between its clock and this one cannot
    /// make a window look final that is not.
    async fn now(&self) -> Result<i64, SourceError>;

    /// The namespaces with anything to read in this window.
    async fn namespaces(&self, window: Window) -> Result<Vec<String>, SourceError>;

    /// Reads the usage of namespaces, at most [`Self::namespaces_at_once`], in one window. May hand over batches as they arrive.
    async fn read(&self, namespaces: &[&str], window: Window, sink: Sink<'_>) -> Result<(), SourceError>;

    /// The most namespaces that the source can be asked about in one call.
    fn namespaces_at_once(&self) -> usize {
        1
    }

    /// Reads all namespaces in a few calls. False, and nothing read, if the source has to be asked about each namespace,
    /// or may not be asked about all of them.
    async fn read_all(&self, _window: Window, _sink: Sink<'_>) -> Result<bool, SourceError> {
        Ok(false)
    }

    /// The distance of samples in seconds: the resolution that is asked for.
    fn step_seconds(&self) -> u32;

    fn reach(&self) -> Reach {
        Reach::Past
    }

    /// The state that a source of the present needs after a restart, so that it reports nothing twice. It is kept with what
    /// was read, in one commit.
    fn memory(&self) -> Option<Vec<u8>> {
        None
    }

    /// Restores the state of a source. A state that cannot be read is ignored.
    fn remember(&self, _memory: &[u8]) {}
}

/// Logs that usage of these containers is left out, by namespace, pod and container in order.
pub(crate) fn warn_of_unknown<'a>(unknown: impl Iterator<Item = (&'a str, (&'a str, &'a str))>) {
    let unknown: Vec<_> = unknown.collect();
    for of_namespace in unknown.chunk_by(|(before, _), (namespace, _)| before == namespace) {
        let [(namespace, (pod, container)), ..] = *of_namespace else { continue };
        tracing::warn!(
            namespace,
            containers = of_namespace.len(),
            "the image of some containers is not known, so their usage is left out; one is `{container}` of `{pod}`"
        );
    }
}
