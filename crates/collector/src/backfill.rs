//! Reads sources that answer by time.
//!
//! ```text
//! planned ── window ──> namespaces of it ──> owed pieces ── read, each alone ──> gathered ── settle ──> store
//! ```
//! A window is planned once: its namespaces are noted as owed and the mark moves on, in one transaction. Owed pieces
//! are read side by side, in spans the source can bear, and each is settled in a transaction of its own. What cannot
//! be read stays owed for the next run, and holds up no other namespace. So whatever happens, every sample is added
//! exactly once.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};
use headroom_kube::clock;
use headroom_report::progress::Progress;
use headroom_sources::cluster_id::ClusterId;
use headroom_sources::{Source, SourceError};
use headroom_usage::DAY;
use headroom_usage::accuracy::Estimates;
use headroom_usage::batch::Gathered;
use headroom_usage::sample::Window;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::read_limits::{Pace, Span};
use crate::store::{Piece, Store, StoreError};

/// One run over a source.
pub struct Run<'a> {
    pub source: &'a dyn Source,
    pub store: &'a Store,
    /// What usage is held against.
    pub estimates: &'a Estimates,
    pub pace: &'a Pace,
    pub metrics: &'a Metrics,
    pub progress: &'a Progress,
    pub stop: &'a CancellationToken,
}

/// How a run ended, if it did not fail altogether.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many pieces were read to the end.
    pub read: u64,
    /// Namespaces that could not be read to the end, and why. What is missing of them is owed.
    pub unread: BTreeMap<String, SourceError>,
    /// The run was asked to stop before it was done.
    pub stopped: bool,
}

impl Outcome {
    /// A run that failed everywhere failed. Its profiles would look fresh and say nothing new.
    fn unless_nothing_was_read(self) -> Result<Self, RunError> {
        match self.unread.values().next() {
            Some(error) if self.read == 0 && !self.stopped => Err(error.clone().into()),
            _ => Ok(self),
        }
    }
}

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What became of a piece.
enum Reading {
    Done,
    Unread(SourceError),
    Stopped,
}

impl Run<'_> {
    /// Which cluster the source is of; none if stopped.
    pub async fn cluster(&self) -> Result<Option<ClusterId>, RunError> {
        Ok(self.asked(|| self.source.cluster()).await?)
    }

    /// Reads everything that is owed or new.
    pub async fn catch_up(&self) -> Result<Outcome, RunError> {
        let mut outcome = Outcome::default();
        let span = Span::new(self.step(), self.pace.window);
        let Some(now) = self.asked(|| self.source.now()).await? else { return Ok(stopped(outcome)) };
        let end = (now - self.pace.lag).div_euclid(self.step()) * self.step();
        let oldest = (end - i64::from(self.pace.days) * DAY).div_euclid(DAY) * DAY;
        let mut from = self.store.planned()?.unwrap_or(oldest).max(oldest);
        let owed = self.store.owed()?;
        let owed_seconds: i64 = owed.iter().map(|piece| piece.window.seconds()).sum();
        tracing::info!(from, to = end, owed_seconds, "reading usage");
        self.progress.begin((end - from).max(0) as u64, "reading usage");

        self.work_off(&span, &mut outcome).await?;
        while from < end && !outcome.stopped {
            // Windows end at multiples of their length, so that a run's windows are the same whenever it starts.
            let window = Window { from, to: end.min((from.div_euclid(span.longest()) + 1) * span.longest()) };
            let Some(namespaces) = self.asked(|| self.source.namespaces(window)).await? else {
                return Ok(stopped(outcome));
            };
            self.store.plan(window, &namespaces)?;
            self.metrics.planned_up_to(window.to);
            self.work_off(&span, &mut outcome).await?;
            self.progress.advance(window.seconds() as u64);
            tracing::info!(from, to = window.to, namespaces = namespaces.len(), "read a window");
            from = window.to;
        }
        self.progress.end();
        self.metrics.owed(self.store.owed()?.len() as u64);
        outcome.unless_nothing_was_read()
    }

    /// Looks at the present state once, for a source that knows no other. What was seen of all namespaces is one
    /// commit, so a kill loses this step or nothing, and counts nothing twice.
    pub async fn look(&self) -> Result<Outcome, RunError> {
        let mut outcome = Outcome::default();
        let Some(now) = self.asked(|| self.source.now()).await? else { return Ok(stopped(outcome)) };
        let from = now.div_euclid(self.step()) * self.step();
        let window = Window { from, to: from + self.step() };
        if self.store.planned()?.is_some_and(|planned| planned > from) {
            return Ok(outcome);
        }
        // Not only after a restart: what could not be stored has not been reported.
        if let Some(memory) = self.store.memory()? {
            self.source.remember(&memory);
        }
        let seen = match self.look_at_all(window).await {
            Some(seen) => {
                outcome.read += 1;
                seen
            }
            None => {
                let Some(namespaces) = self.asked(|| self.source.namespaces(window)).await? else {
                    return Ok(stopped(outcome));
                };
                self.look_at(namespaces, window, &mut outcome).await
            }
        };
        if self.stop.is_cancelled() {
            return Ok(stopped(outcome));
        }
        let outcome = outcome.unless_nothing_was_read()?;
        self.report(&seen);
        self.store.add_present(window, &seen, self.source.memory().as_deref())?;
        self.metrics.planned_up_to(window.to);
        Ok(outcome)
    }

    /// Looks at the whole cluster in a few calls, where the source can and may.
    async fn look_at_all(&self, window: Window) -> Option<Gathered> {
        let mut seen = Gathered::default();
        let mut sink = |batch| {
            seen.compare(&batch, window, self.estimates);
            seen.take(batch, window);
        };
        let read = self.patiently(self.source.read_all(window, &mut sink)).await;
        self.metrics.alive(clock::now());
        match read {
            Ok(true) => {
                self.metrics.read(None);
                Some(seen)
            }
            Ok(false) => None,
            Err(error) => {
                self.metrics.read(Some(&error));
                tracing::warn!(%error, "looking at each namespace by itself");
                None
            }
        }
    }

    /// Looks at these namespaces, several at a time.
    async fn look_at(&self, namespaces: Vec<String>, window: Window, outcome: &mut Outcome) -> Gathered {
        let mut seen = Gathered::default();
        let mut readings = stream::iter(namespaces)
            .map(|namespace| async move {
                let read = tokio::select! {
                    read = self.read_once(&namespace, window) => Some(read),
                    () = self.stop.cancelled() => None,
                };
                (namespace, read)
            })
            .buffer_unordered(self.pace.concurrency.max(1));
        while let Some((namespace, read)) = readings.next().await {
            match read {
                Some(Ok(gathered)) => {
                    outcome.read += 1;
                    seen.absorb(gathered);
                }
                Some(Err(error)) => self.note_unread(&namespace, error, outcome),
                None => {}
            }
        }
        seen
    }

    /// Reads all owed pieces but those of namespaces that already failed in this run.
    async fn work_off(&self, span: &Span, outcome: &mut Outcome) -> Result<(), RunError> {
        let mut pieces = self.store.owed()?;
        pieces.retain(|piece| !outcome.unread.contains_key(&piece.namespace));
        let mut readings = stream::iter(pieces)
            .map(|piece| async move {
                let reading = self.read_piece(piece.clone(), span).await;
                (piece.namespace, reading)
            })
            .buffer_unordered(self.pace.concurrency.max(1));
        while let Some((namespace, reading)) = readings.next().await {
            match reading? {
                Reading::Done => outcome.read += 1,
                Reading::Unread(error) => self.note_unread(&namespace, error, outcome),
                Reading::Stopped => outcome.stopped = true,
            }
        }
        Ok(())
    }

    /// Reads a piece span by span, settling each.
    async fn read_piece(&self, mut piece: Piece, span: &Span) -> Result<Reading, StoreError> {
        let mut failures = 0;
        while piece.window.from < piece.window.to {
            if self.stop.is_cancelled() {
                return Ok(Reading::Stopped);
            }
            let window =
                Window { from: piece.window.from, to: piece.window.to.min(piece.window.from + span.seconds()) };
            let read = tokio::select! {
                read = self.read_once(&piece.namespace, window) => read,
                () = self.stop.cancelled() => return Ok(Reading::Stopped),
            };
            match read {
                Ok(gathered) => {
                    failures = 0;
                    span.succeeded();
                    self.report(&gathered);
                    // Writing waits for the disk; other pieces are read meanwhile.
                    tokio::task::block_in_place(|| self.store.settle(&piece, window.to, &gathered))?;
                    piece.window.from = window.to;
                }
                Err(SourceError::Overloaded(reason)) if span.halve(window.seconds()) => {
                    let seconds = span.seconds();
                    tracing::warn!(namespace = piece.namespace, seconds, reason, "asking for less at a time");
                }
                Err(error) if error.is_permanent() => return Ok(Reading::Unread(error)),
                Err(error) => {
                    failures += 1;
                    if failures >= self.pace.attempts || !self.waited(failures, &error).await {
                        return Ok(Reading::Unread(error));
                    }
                }
            }
        }
        Ok(Reading::Done)
    }

    async fn read_once(&self, namespace: &str, window: Window) -> Result<Gathered, SourceError> {
        let mut gathered = Gathered::default();
        // What is read in one step cannot be read in less.
        let most = if window.seconds() > self.step() { self.pace.most_images } else { usize::MAX };
        let mut sink = |batch| {
            if gathered.size() <= most {
                gathered.compare(&batch, window, self.estimates);
                gathered.take(batch, window);
            }
        };
        let read = self.patiently(self.source.read(namespace, window, &mut sink)).await;
        let read = match read {
            Ok(()) if gathered.size() > most => {
                let reason = format!("more than {most} images in namespace `{namespace}` are too much to hold at once");
                Err(SourceError::Overloaded(reason))
            }
            read => read,
        };
        self.metrics.read(read.as_ref().err());
        self.metrics.alive(clock::now());
        read.map(|()| gathered)
    }

    /// Takes silence for too much asked.
    async fn patiently<T>(&self, read: impl Future<Output = Result<T, SourceError>>) -> Result<T, SourceError> {
        tokio::time::timeout(self.pace.patience, read).await.unwrap_or_else(|_| {
            Err(SourceError::Overloaded(format!("no answer within {} s", self.pace.patience.as_secs())))
        })
    }

    /// Asks until there is an answer or no hope; none if stopped.
    async fn asked<T, F>(&self, question: impl Fn() -> F) -> Result<Option<T>, SourceError>
    where
        F: Future<Output = Result<T, SourceError>>,
    {
        let mut failures = 0;
        loop {
            let answer = tokio::select! {
                answer = tokio::time::timeout(self.pace.patience, question()) => answer,
                () = self.stop.cancelled() => return Ok(None),
            };
            let patience = self.pace.patience.as_secs();
            let answer =
                answer.unwrap_or_else(|_| Err(SourceError::Temporary(format!("no answer within {patience} s"))));
            self.metrics.read(answer.as_ref().err());
            self.metrics.alive(clock::now());
            match answer {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) if error.is_permanent() => return Err(error),
                Err(error) => {
                    failures += 1;
                    if failures >= self.pace.attempts {
                        return Err(error);
                    }
                    if !self.waited(failures, &error).await {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// False if stopped meanwhile.
    async fn waited(&self, failures: u32, error: &SourceError) -> bool {
        let wait = self.pace.retry().wait_before(failures);
        tracing::warn!(%error, wait_seconds = wait.as_secs_f32(), "trying again");
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = self.stop.cancelled() => false,
        }
    }

    fn note_unread(&self, namespace: &str, error: SourceError, outcome: &mut Outcome) {
        tracing::warn!(namespace, %error, "left to the next run");
        outcome.unread.insert(namespace.to_owned(), error);
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

fn stopped(outcome: Outcome) -> Outcome {
    Outcome { stopped: true, ..outcome }
}
