//! Reads a source, window by window.
//!
//! ```text
//! plan a window ──> its namespaces ──> owed pieces ── read in batches ──> gathered ── settle ──> store
//! ```
//! A window is planned once: one transaction notes its namespaces as owed and advances the planned time. Owed pieces are read
//! concurrently, in queries of a size that the source answers, and each result is settled in a transaction of its own. A
//! namespace that cannot be read stays owed for the next run and delays no other namespace. So every sample is added exactly
//! once, whenever the collector is killed.

use std::collections::BTreeMap;
use std::convert::Infallible;

use headroom_api_server::clock;
use headroom_api_server::metric_registry::set;
use headroom_metrics_stores::cluster_id::ClusterId;
use headroom_metrics_stores::paced::{UsageSlice, read_all, within};
use headroom_metrics_stores::{Source, SourceError};
use headroom_output::progress::Progress;
use headroom_usage::DAY;
use headroom_usage::batch::Gathered;
use headroom_usage::sample::Window;
use tokio_util::sync::CancellationToken;

use crate::metrics::CollectorMetrics;
use crate::read_limits::{MAX_QUERY_RANGE, Pace, SAMPLE_DELAY, Span, TIMEOUT};
use crate::store::{Store, StoreError};

pub struct BackfillRun<'a> {
    pub source: &'a dyn Source,
    pub store: &'a Store,
    pub pace: &'a Pace,
    pub metrics: &'a CollectorMetrics,
    pub progress: &'a Progress,
    pub stop: &'a CancellationToken,
}

/// The result of a run that did not fail everywhere.
#[derive(Debug, Default)]
pub struct BackfillOutcome {
    /// The number of pieces that were read to the end.
    pub read: u64,
    /// Namespaces that could not be read to the end, with the error. The rest of their usage is owed.
    pub unread: BTreeMap<String, SourceError>,
    pub stopped: bool,
}

impl BackfillOutcome {
    /// Fails if nothing was read, because the profiles would look fresh and contain nothing new.
    fn unless_nothing_was_read(self) -> Result<Self, RunError> {
        match self.unread.values().next() {
            Some(error) if self.read == 0 && !self.stopped => Err(error.clone().into()),
            _ => Ok(self),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackfillRun<'_> {
    /// The cluster of the source; none if stopped.
    pub async fn cluster(&self) -> Result<Option<ClusterId>, RunError> {
        Ok(self.asked(|| self.source.cluster()).await?)
    }

    /// Reads all owed and all new usage.
    pub async fn catch_up(&self) -> Result<BackfillOutcome, RunError> {
        let mut outcome = BackfillOutcome::default();
        let span = Span::new(self.step(), MAX_QUERY_RANGE, self.source.namespaces_at_once());
        let Some(now) = self.asked(|| self.source.now()).await? else { return Ok(stopped(outcome)) };
        let end = (now - SAMPLE_DELAY).div_euclid(self.step()) * self.step();
        let oldest = (end - i64::from(self.pace.days) * DAY).div_euclid(DAY) * DAY;
        let mut from = self.store.planned()?.unwrap_or(oldest).max(oldest);
        let owed_seconds: i64 = self.store.owed()?.iter().map(|(_, window)| window.seconds()).sum();
        tracing::info!(from, to = end, owed_seconds, "reading usage");
        self.progress.begin((end - from).max(0) as u64, "reading usage");

        self.read_owed(&span, &mut outcome).await?;
        while from < end && !outcome.stopped {
            let window = span.planned(Window { from, to: end });
            let Some(namespaces) = self.asked(|| self.source.namespaces(window)).await? else {
                return Ok(stopped(outcome));
            };
            self.store.plan(window, &namespaces)?;
            self.metrics.planned.set(window.to);
            self.read_owed(&span, &mut outcome).await?;
            self.progress.advance(window.seconds() as u64);
            tracing::info!(from, to = window.to, namespaces = namespaces.len(), "read a window");
            from = window.to;
        }
        self.progress.end();
        set(&self.metrics.owed, self.store.owed()?.len() as u64);
        outcome.unless_nothing_was_read()
    }

    /// Reads present usage once, from a source without a past. The usage of all namespaces is one commit, so a kill loses this
    /// step or nothing, and counts nothing twice.
    pub async fn look(&self) -> Result<BackfillOutcome, RunError> {
        let mut outcome = BackfillOutcome::default();
        let Some(now) = self.asked(|| self.source.now()).await? else { return Ok(stopped(outcome)) };
        // Once that is noted as read, nothing is until then.
        if now > clock::now().saturating_add(DAY) {
            let text = "the source's clock is more than a day ahead of this one: nothing is read until they agree";
            return Err(SourceError::Temporary(text.to_owned()).into());
        }
        let from = now.div_euclid(self.step()) * self.step();
        let window = Window { from, to: from + self.step() };
        if self.store.planned()?.is_some_and(|planned| planned > from) {
            return Ok(outcome);
        }
        // Not only after a restart: a commit may have failed since.
        if let Some(memory) = self.store.memory()? {
            self.source.remember(&memory);
        }
        let seen = match self.read_whole_cluster(window).await {
            Some(seen) => {
                outcome.read += 1;
                seen
            }
            None => {
                let Some(namespaces) = self.asked(|| self.source.namespaces(window)).await? else {
                    return Ok(stopped(outcome));
                };
                self.read_each_namespace(namespaces, window, &mut outcome).await
            }
        };
        if self.stop.is_cancelled() {
            return Ok(stopped(outcome));
        }
        let outcome = outcome.unless_nothing_was_read()?;
        self.report(&seen);
        self.store.add_present(window, &seen, self.source.memory().as_deref())?;
        self.metrics.planned.set(window.to);
        Ok(outcome)
    }

    /// Reads the present usage of the whole cluster in a few requests, if the source offers that and permits it.
    async fn read_whole_cluster(&self, window: Window) -> Option<Gathered> {
        let mut seen = Gathered::default();
        let mut sink = |batch| seen.take(batch, window);
        let read = within(TIMEOUT, self.source.read_all(window, &mut sink)).await;
        match read {
            Ok(true) => {
                self.metrics.read(None);
                Some(seen)
            }
            Ok(false) => None,
            Err(error) => {
                self.metrics.read(Some(&error));
                tracing::warn!(%error, "reading each namespace separately");
                None
            }
        }
    }

    async fn read_each_namespace(
        &self,
        namespaces: Vec<String>,
        window: Window,
        outcome: &mut BackfillOutcome,
    ) -> Gathered {
        let mut seen = Gathered::default();
        let read = async |namespace: String| {
            let read = self.read_once(&UsageSlice { namespaces: vec![namespace.clone()], window }).await;
            (namespace, read)
        };
        let take = |namespace: String, read| {
            match read {
                Ok(gathered) => {
                    outcome.read += 1;
                    seen.absorb(gathered);
                }
                Err(error) => note_unread(&namespace, error, outcome),
            }
            Ok::<_, Infallible>(())
        };
        let Ok(_) = read_all(namespaces.into(), self.pace.concurrency, self.stop, read, |_, _| None, take).await;
        seen
    }

    /// Reads all owed pieces but those of namespaces that already failed in this run, those with the same window together. Each
    /// read is settled in a transaction of its own.
    async fn read_owed(&self, span: &Span, outcome: &mut BackfillOutcome) -> Result<(), RunError> {
        let mut by_window: BTreeMap<Window, Vec<String>> = BTreeMap::new();
        for (namespace, window) in self.store.owed()? {
            if !outcome.unread.contains_key(&namespace) {
                by_window.entry(window).or_default().push(namespace);
            }
        }
        let slices = by_window.iter().flat_map(|(window, namespaces)| {
            let chunks = namespaces.chunks(span.namespaces());
            chunks.map(|chunk| UsageSlice { namespaces: chunk.to_vec(), window: *window })
        });
        let read = async |slice: UsageSlice| {
            // The source cannot be asked for less than a step of one namespace.
            let may_pass = |error: &SourceError| match error {
                SourceError::Overloaded(_) => slice.halves(self.step()).is_none(),
                error => !error.is_permanent(),
            };
            let read = match span.bears(&slice) {
                true => self.pace.retry.run(may_pass, || self.read_once(&slice)).await,
                false => Err(SourceError::Overloaded("less was too much already".to_owned())),
            };
            (slice, read)
        };
        let cut = |slice: &UsageSlice, error: &SourceError| {
            let halves = slice.halves(self.step())?;
            match error {
                SourceError::Overloaded(reason) => {
                    if span.refused(slice, &halves) {
                        let (namespaces, seconds) = (span.namespaces(), span.seconds());
                        tracing::warn!(namespaces, seconds, reason, "asking for less at a time");
                    }
                    Some(halves)
                }
                SourceError::Temporary(_) => None,
                // One of them may be the cause.
                _ => Some(halves).filter(|_| slice.namespaces.len() > 1),
            }
        };
        let take = |slice: UsageSlice, read: Result<Gathered, SourceError>| {
            match read {
                Ok(gathered) => {
                    span.succeeded();
                    self.report(&gathered);
                    tokio::task::block_in_place(|| self.store.settle(&slice, &gathered))?;
                    outcome.read += slice.namespaces.len() as u64;
                }
                Err(error) => slice.namespaces.iter().for_each(|of| note_unread(of, error.clone(), outcome)),
            }
            Ok::<_, StoreError>(())
        };
        let is_done = read_all(slices.collect(), self.pace.concurrency, self.stop, read, cut, take).await?;
        outcome.stopped |= !is_done;
        Ok(())
    }

    async fn read_once(&self, slice: &UsageSlice) -> Result<Gathered, SourceError> {
        let (mut gathered, window, namespaces) = (Gathered::default(), slice.window, slice.names());
        // A single step of one namespace cannot be read in parts.
        let most = if slice.halves(self.step()).is_some() { self.pace.max_images } else { usize::MAX };
        let mut sink = |batch| {
            if gathered.size() <= most {
                gathered.take(batch, window);
            }
        };
        let read = match within(TIMEOUT, self.source.read(&namespaces, window, &mut sink)).await {
            Ok(()) if gathered.size() > most => {
                let names = namespaces.join("`, `");
                let reason = format!("more than {most} images in namespace `{names}` are too much to hold at once");
                Err(SourceError::Overloaded(reason))
            }
            read => read,
        };
        self.metrics.read(read.as_ref().err());
        read.map(|()| gathered)
    }

    /// Asks the source until it answers or fails for good. Returns none if stopped.
    async fn asked<T, F>(&self, question: impl Fn() -> F) -> Result<Option<T>, SourceError>
    where
        F: Future<Output = Result<T, SourceError>>,
    {
        let attempt = async || {
            let answer = within(TIMEOUT, question()).await;
            self.metrics.read(answer.as_ref().err());
            answer
        };
        let answer = self.pace.retry.run(|error: &SourceError| !error.is_permanent(), attempt);
        self.stop.run_until_cancelled(answer).await.transpose()
    }

    fn report(&self, gathered: &Gathered) {
        self.metrics.gathered(gathered);
        for image in &gathered.unreadable {
            tracing::warn!(image, "not an image name, so no request can be matched with it: left out");
        }
        if gathered.outside > 0 {
            tracing::debug!(samples = gathered.outside, "dropped samples of another window");
        }
    }

    fn step(&self) -> i64 {
        i64::from(self.source.step_seconds().max(1))
    }
}

fn note_unread(namespace: &str, error: SourceError, outcome: &mut BackfillOutcome) {
    tracing::warn!(namespace, %error, "left to the next run");
    outcome.unread.insert(namespace.to_owned(), error);
}

fn stopped(outcome: BackfillOutcome) -> BackfillOutcome {
    BackfillOutcome { stopped: true, ..outcome }
}
