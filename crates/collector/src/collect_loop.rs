//! The collect loop: checks that source, store and cluster match, reads new usage, publishes, sleeps.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headroom_admission::timestamp::Timestamp;
use headroom_api_server::clock;
use headroom_api_server::lease::{RenewedLease, Turn};
use headroom_metrics_stores::cluster_id::ClusterId;
use headroom_metrics_stores::{Reach, Source};
use headroom_output::progress::Progress;
use headroom_usage::profile::RestrictedNamespaces;
use headroom_usage::window_merge::DAYS_KEPT;
use headroom_usage::{DAY, day_of};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backfill::{BackfillOutcome, BackfillRun, RunError};
use crate::import::{Import, ImportError};
use crate::metrics::CollectorMetrics;
use crate::profile::Pooling;
use crate::publish::cluster::ClusterError;
use crate::publish::lease::{LEASE, lease_error};
use crate::publish::restrictions::Restrictions;
use crate::publish::{Destination, PublishError, Published, Publisher};
use crate::read_limits::Pace;
use crate::store::{Store, StoreError};

/// The longest time between two signs of life while the loop sleeps.
const TICK: Duration = Duration::from_secs(30);
/// The longest time between two signs of life. Longer than the timeout of any request.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// The shortest time between two updates of quarters for labels of Namespaces, so that toggling a label costs little.
const RESTRICTIONS_INTERVAL: Duration = Duration::from_secs(60);

pub enum Feed {
    Source(Box<dyn Source>),
    Files {
        paths: Vec<PathBuf>,
        /// The seconds that each line stands for.
        step_seconds: u32,
    },
}

pub struct Rounds {
    pub feed: Feed,
    /// Kind and address of the feed without secrets, by which the store identifies it.
    pub source_name: String,
    /// Continue with a store of another source, and replace histories of other stores that this store does not have.
    pub adopt: bool,
    pub store: Store,
    pub destination: Destination,
    /// Held while this collector writes to a cluster.
    pub lease: Option<RenewedLease>,
    pub namespace: String,
    pub pooling: Pooling,
    /// The label of namespaces that names their tenant.
    pub tenant_label: Option<String>,
    pub pace: Pace,
    pub metrics: Arc<CollectorMetrics>,
    pub progress: Progress,
    pub stop: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{source_name} has the usage of cluster {found}, but profiles would be written to cluster {wanted}: choose the \
         right --context, or write elsewhere with --output"
    )]
    OtherCluster { source_name: String, found: Box<ClusterId>, wanted: Box<ClusterId> },
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(
        "{namespaces} namespaces could not be read to the end, such as `{namespace}`: {error}; the next run tries again"
    )]
    Unread { namespaces: usize, namespace: String, error: String },
    #[error("{profiles} profiles could not be written, such as {namespace}/{name}: {error}")]
    Unwritten { profiles: usize, namespace: String, name: String, error: String },
}

impl RoundError {
    /// The error of the store, if that is what failed.
    fn of_store(&self) -> Option<&StoreError> {
        match self {
            Self::Run(RunError::Store(error))
            | Self::Import(ImportError::Store(error))
            | Self::Publish(PublishError::Store(error))
            | Self::Store(error) => Some(error),
            _ => None,
        }
    }

    /// True if another collector writes.
    fn is_standby(&self) -> bool {
        matches!(self, Self::Cluster(ClusterError::NotOurTurn { .. }))
    }

    /// True if the store fails until it is opened again, because its database takes nothing more once the disk has failed.
    fn is_for_good(&self) -> bool {
        matches!(self.of_store(), Some(StoreError::Full { .. } | StoreError::Unusable { .. }))
    }
}

impl Rounds {
    pub async fn once(&self) -> Result<(), RoundError> {
        let done = self.round(&mut false).await;
        if let Some(lease) = &self.lease {
            lease.release().await;
        }
        done
    }

    /// Runs a round every `interval` until stopped, as a part of the program.
    pub fn start(mut self, interval: Duration) -> JoinHandle<()> {
        let (parts, stop) = (self.metrics.parts.clone(), self.stop.clone());
        parts.run("collecting", LONGEST, &stop, async move { self.every(interval).await })
    }

    /// Logs failures and retries them. A damaged store is replaced; with one that cannot be used any more, this part ends.
    async fn every(&mut self, interval: Duration) {
        let step = match &self.feed {
            // A source without a past is read every step, between publications too.
            Feed::Source(source) if source.reach() == Reach::Present => {
                Duration::from_secs(source.step_seconds().max(1).into()).min(interval)
            }
            _ => interval,
        };
        let mut restrictions = match &self.destination {
            Destination::Cluster(cluster) => {
                Restrictions::follow(cluster.api.clone(), &self.metrics.parts, self.stop.clone())
            }
            Destination::Folder(_) | Destination::Stdout => Restrictions::none(),
        };
        let mut next_restrictions = Instant::now();
        let mut next_round = Instant::now();
        let mut next_publication = next_round;
        let mut is_identified = false;
        let mut is_published = false;
        while !self.stop.is_cancelled() {
            let is_publication = Instant::now() >= next_publication;
            let is_round = is_publication || !is_identified;
            let done = match is_round {
                true => self.round(&mut is_identified).await,
                false => self.read().await.and_then(unread),
            };
            let is_standing_by = done.as_ref().is_err_and(RoundError::is_standby);
            let is_done = done.is_ok() || is_standing_by;
            self.metrics.ran(is_done);
            // A read alone is no success while nothing can be published.
            is_published = if is_round { is_done } else { is_published };
            if is_done && is_published {
                self.metrics.last_success.set(clock::now());
            }
            if let Err(error) = &done
                && let Some(damaged @ StoreError::Damaged { .. }) = error.of_store()
            {
                match self.store.replace(damaged) {
                    Ok(()) => {
                        self.metrics.stores_damaged.inc();
                        is_identified = false;
                        next_publication = Instant::now();
                        continue;
                    }
                    Err(error) => tracing::error!("{error}"),
                }
            }
            let is_unusable = done.as_ref().is_err_and(RoundError::is_for_good);
            match done {
                Err(error) if is_standing_by => tracing::info!("standing by: {error}"),
                Err(error) => tracing::error!("{error}"),
                Ok(()) => {}
            }
            if is_unusable {
                break;
            }
            if is_publication {
                next_publication = following(next_publication, interval);
            }
            next_round = following(next_round, step);
            while Instant::now() < next_round && !self.stop.is_cancelled() {
                self.tell_leads();
                tokio::select! {
                    () = tokio::time::sleep_until(next_round.min(Instant::now() + TICK)) => {}
                    () = self.stop.cancelled() => {}
                    restricted = restrictions.changed(), if next_restrictions <= Instant::now() => {
                        if !self.update_quarters(Some(restricted)).await {
                            restrictions.take_again();
                        }
                        next_restrictions = Instant::now() + RESTRICTIONS_INTERVAL;
                    }
                }
            }
        }
        if let Some(lease) = &self.lease {
            lease.release().await;
        }
    }

    /// Notes once source, store and destination are known to match.
    async fn round(&self, is_identified: &mut bool) -> Result<(), RoundError> {
        self.identify().await?;
        if !std::mem::replace(is_identified, true) {
            self.update_quarters(self.restricted_namespaces().await).await;
        }
        let outcome = self.read().await?;
        if outcome.stopped {
            return Ok(());
        }
        tokio::select! {
            published = self.publish() => published?,
            // Each profile is written as a whole or not at all, so publishing may stop anywhere.
            () = self.stop.cancelled() => return Ok(()),
        }
        unread(outcome)
    }

    /// Checks that store, source and destination are of the same cluster.
    async fn identify(&self) -> Result<(), RoundError> {
        let of_source = match &self.feed {
            Feed::Source(source) => self.run(source.as_ref()).cluster().await?.unwrap_or_default(),
            Feed::Files { .. } => ClusterId::default(),
        };
        let of_destination = match &self.destination {
            Destination::Cluster(cluster) => cluster.id().await?,
            Destination::Folder(_) | Destination::Stdout => ClusterId::default(),
        };
        if of_source.differs_from(&of_destination) {
            let source_name = self.source_name.clone();
            let (found, wanted) = (Box::new(of_source), Box::new(of_destination));
            return Err(RoundError::OtherCluster { source_name, found, wanted });
        }
        let mut cluster = of_destination;
        cluster.add(&of_source);
        Ok(self.store.claim(&cluster, &self.source_name, self.adopt)?)
    }

    fn run<'a>(&'a self, source: &'a dyn Source) -> BackfillRun<'a> {
        let Self { store, pace, metrics, progress, stop, .. } = self;
        BackfillRun { source, store, pace, metrics, progress, stop }
    }

    async fn read(&self) -> Result<BackfillOutcome, RoundError> {
        match &self.feed {
            Feed::Source(source) => {
                let run = self.run(source.as_ref());
                Ok(match source.reach() {
                    Reach::Past => run.catch_up().await?,
                    Reach::Present => run.look().await?,
                })
            }
            Feed::Files { paths, step_seconds } => {
                // Nothing else has to run while files are read.
                tokio::task::block_in_place(|| self.import(paths, *step_seconds))
            }
        }
    }

    fn import(&self, paths: &[PathBuf], step_seconds: u32) -> Result<BackfillOutcome, RoundError> {
        let Self { store, metrics, progress, stop, .. } = self;
        let latest = clock::now().saturating_add(DAY);
        let import = Import { store, step_seconds, latest, metrics, progress, stop };
        for path in paths {
            let begun = Instant::now();
            let imported = import.file(path)?;
            let seconds = begun.elapsed().as_secs_f64();
            let file = path.display();
            tracing::info!(%file, samples = imported.samples, bytes = imported.bytes, seconds, "imported");
            if imported.too_old > 0 {
                let (lines, days) = (imported.too_old, DAYS_KEPT);
                tracing::warn!(
                    %file,
                    lines,
                    "left out lines from more than {days} days before the newest usage in the store: import them into a \
                     store of their own with --store"
                );
            }
            if imported.unfinished > 0 {
                let bytes = imported.unfinished;
                tracing::warn!(%file, bytes, "the last line is not finished: it is read when a line break ends it");
            }
            if imported.stopped {
                return Ok(BackfillOutcome { stopped: true, ..BackfillOutcome::default() });
            }
        }
        Ok(BackfillOutcome::default())
    }

    /// The namespaces that may ask for fewer estimates. If they are unknown, policies read each Namespace.
    async fn restricted_namespaces(&self) -> Option<RestrictedNamespaces> {
        let Destination::Cluster(cluster) = &self.destination else { return None };
        let listed = cluster.restricted_namespaces().await;
        listed
            .map_err(|error| tracing::info!(%error, "policies read each Namespace to see if it turns estimates off"))
            .ok()
    }

    /// Updates the quarters between publications. Publishing reports the errors. False if that should be tried again.
    async fn update_quarters(&self, restricted: Option<RestrictedNamespaces>) -> bool {
        let (Feed::Source(source), Destination::Cluster(cluster)) = (&self.feed, &self.destination) else {
            return true;
        };
        // The source may be away for longer than a choice can wait.
        let now = source.now().await.ok().or_else(|| self.store.planned().ok().flatten());
        // Earlier than every later publication.
        let Some(collected_at) = now.and_then(|now| Timestamp::from_unix_seconds(now - DAY)) else { return false };
        let update = async {
            self.take_turn().await?;
            Ok::<_, RoundError>(
                self.publisher(&self.pooling, restricted.as_ref()).update_quarters(cluster, collected_at).await?,
            )
        };
        let Some(Err(error)) = self.stop.run_until_cancelled(update).await else { return true };
        tracing::info!("quarters are not updated: {error}");
        error.is_standby()
    }

    fn publisher<'a>(&'a self, pooling: &'a Pooling, restricted: Option<&'a RestrictedNamespaces>) -> Publisher<'a> {
        Publisher {
            store: &self.store,
            destination: &self.destination,
            namespace: &self.namespace,
            pooling,
            restricted,
            replace_other_stores: self.adopt,
            lease: self.lease.as_ref(),
            metrics: &self.metrics,
        }
    }

    async fn publish(&self) -> Result<(), RoundError> {
        self.take_turn().await?;
        // By the clock and the newest usage.
        tokio::task::block_in_place(|| self.store.expire(day_of(clock::now())))?;
        let restricted = self.restricted_namespaces().await;
        let mut pooling = self.pooling.clone();
        if let (Some(label), Destination::Cluster(cluster)) = (&self.tenant_label, &self.destination) {
            pooling.tenants = cluster.tenants(label).await.map_err(PublishError::from)?;
        }
        let published = self.publisher(&pooling, restricted.as_ref()).publish(self.as_of()?).await?;
        let Published { written, unchanged, deleted, bytes, failed, .. } = published;
        tracing::info!(written, unchanged, deleted, bytes, "published profiles");
        let profiles = failed.len();
        match failed.into_iter().next() {
            None => Ok(()),
            Some((name, error)) => {
                let (namespace, error) = (self.namespace.clone(), error.to_string());
                Err(RoundError::Unwritten { profiles, namespace, name, error })
            }
        }
    }

    fn tell_leads(&self) {
        self.metrics.leads.set(self.lease.as_ref().is_some_and(RenewedLease::is_ours).into());
    }

    async fn take_turn(&self) -> Result<(), RoundError> {
        let Some(lease) = &self.lease else { return Ok(()) };
        let turn = lease.take().await;
        self.tell_leads();
        match turn.map_err(|error| lease_error(error, &self.namespace))? {
            Turn::Ours => Ok(()),
            Turn::Theirs { holder, renewed } => {
                let renewed = renewed.map_or_else(|| "an unknown time".to_owned(), |renewed| renewed.to_string());
                let lease = format!("{}/{LEASE}", self.namespace);
                Err(ClusterError::NotOurTurn { holder, lease, renewed }.into())
            }
        }
    }

    /// The time of profiles: that of the newest usage, not of the clock.
    fn as_of(&self) -> Result<Timestamp, StoreError> {
        let read_up_to = match &self.feed {
            Feed::Source(_) => self.store.planned()?,
            Feed::Files { .. } => self.store.newest()?,
        };
        let seconds = read_up_to.unwrap_or_else(clock::now);
        Ok(Timestamp::from_unix_seconds(seconds).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

/// The next time in a series at this interval, without those that were missed.
fn following(last: Instant, interval: Duration) -> Instant {
    let passed = last.elapsed().as_nanos() / interval.as_nanos().max(1);
    last + interval.saturating_mul(u32::try_from(passed).unwrap_or(u32::MAX)) + interval
}

/// Fails if anything was left to the next run.
pub fn unread(outcome: BackfillOutcome) -> Result<(), RoundError> {
    let namespaces = outcome.unread.len();
    match outcome.unread.into_iter().next() {
        None => Ok(()),
        Some((namespace, error)) => Err(RoundError::Unread { namespaces, namespace, error: error.to_string() }),
    }
}
