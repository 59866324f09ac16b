//! Whose turn it is to write the profiles of a cluster: that of the collector that holds the Lease.
//!
//! A collector takes the Lease before it publishes, renews it while it runs and gives it back at its end. One that was
//! killed loses it after [`Timing::duration`], or takes it again at once when it comes back with the same store, which
//! no second process can have opened. Clocks of two machines are not compared: whether a holder lives is seen by its
//! renewals.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::cluster::error::is_namespace_gone;
use super::cluster::{ClusterError, tried};
use super::manifest::MANAGER;
use crate::collect::pace::Pace;

/// The name of the Lease, in the namespace of the profiles.
pub const LEASE: &str = "headroom-collector";
/// What errors are about.
const LEASES: &str = "leases";
/// A holder who has not renewed for so long by its own clock is dead, however wrong that clock is.
const LONG_DEAD: i64 = 3600;
/// Longest wait for an answer of the API server about the Lease.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a Lease lasts, and how often it is renewed and looked at.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub duration: Duration,
    pub renewal: Duration,
    pub look: Duration,
}

impl Timing {
    pub fn lasting(duration: Duration) -> Self {
        Self { duration, renewal: duration / 4, look: duration / 15 }
    }
}

/// Who may write now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    Ours,
    /// Another collector's, named by its host and store, with the moment of its last renewal by its own clock.
    Theirs {
        holder: String,
        renewed: Option<Timestamp>,
    },
}

pub struct Turns {
    lease: Arc<Holding>,
    /// Ends the renewals with this value.
    renewals: Mutex<Option<DropGuard>>,
}

/// The Lease as one collector sees it.
struct Holding {
    api: Api<Lease>,
    namespace: String,
    host: String,
    store: String,
    timing: Timing,
    pace: Pace,
    /// When it was renewed last, while it is ours.
    renewed: Mutex<Option<Instant>>,
}

impl Turns {
    pub fn new(client: Client, namespace: &str, store: &str, timing: Timing, pace: Pace) -> Self {
        let lease = Arc::new(Holding {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            host: host(),
            store: store.to_owned(),
            timing,
            pace,
            renewed: Mutex::default(),
        });
        Self { lease, renewals: Mutex::default() }
    }

    /// Takes the Lease, or says who has it. Waits until it is known whether a holder still lives.
    pub async fn take(&self) -> Result<Turn, ClusterError> {
        if self.are_ours() {
            return Ok(Turn::Ours);
        }
        let turn = self.lease.take().await?;
        if turn == Turn::Ours {
            let stop = CancellationToken::new();
            let lease = Arc::clone(&self.lease);
            let stopped = stop.clone();
            tokio::spawn(async move { lease.renew_until(stopped).await });
            *lock(&self.renewals) = Some(stop.drop_guard());
        }
        Ok(turn)
    }

    /// Whether we may write at this moment.
    pub fn are_ours(&self) -> bool {
        self.lease.is_ours()
    }

    /// Lets another collector have it at once.
    pub async fn give_back(&self) {
        if !self.are_ours() {
            return;
        }
        *lock(&self.renewals) = None;
        *lock(&self.lease.renewed) = None;
        let given_back = tokio::time::timeout(PATIENCE, self.lease.give_back()).await;
        if !matches!(given_back, Ok(Ok(()))) {
            tracing::debug!("the lease could not be given back, and runs out by itself");
        }
    }
}

impl Holding {
    async fn take(&self) -> Result<Turn, ClusterError> {
        // A holder is watched for as long as its Lease lasts.
        let mut watched: Option<(Option<String>, Instant)> = None;
        loop {
            let Some(lease) = self.get().await? else {
                match self.create().await {
                    Err(Error::Api(status)) if status.code == 409 => continue,
                    Err(Error::Api(status)) if is_namespace_gone(&status) => {
                        return Err(ClusterError::NoNamespace { namespace: self.namespace.clone() });
                    }
                    created => return created.map(|()| Turn::Ours).map_err(|error| self.error(error, "create")),
                }
            };
            let version = lease.metadata.resource_version.clone();
            let (since, is_watched) = match &watched {
                Some((known, since)) if *known == version => (*since, true),
                Some(_) if !self.may_take(&lease) => return Ok(theirs(&lease)),
                _ => (Instant::now(), false),
            };
            let runs_out = since + seconds_of(&lease).unwrap_or(self.timing.duration);
            if self.may_take(&lease) || is_watched && Instant::now() >= runs_out {
                match self.replace(lease, Some(self.holder())).await {
                    Err(Error::Api(status)) if status.code == 409 => continue,
                    replaced => return replaced.map(|()| Turn::Ours).map_err(|error| self.error(error, "update")),
                }
            }
            watched = Some((version, since));
            tokio::time::sleep(self.timing.look.min(runs_out.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// Nobody has it, or we had it before we were killed, or its holder died long ago.
    fn may_take(&self, lease: &Lease) -> bool {
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        let is_dead = || {
            let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|renewed| renewed.0.as_second());
            renewed.is_none_or(|renewed| Timestamp::now().as_second() - renewed > LONG_DEAD)
        };
        holder.is_empty() || holder.strip_suffix(&self.store).is_some_and(|host| host.ends_with('_')) || is_dead()
    }

    fn is_ours(&self) -> bool {
        // Ends a little before another may take it.
        let valid = self.timing.duration.mul_f32(0.8);
        lock(&self.renewed).is_some_and(|renewed| renewed.elapsed() < valid)
    }

    async fn renew_until(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.timing.renewal) => {}
                () = stop.cancelled() => return,
            }
            let renewed = tokio::time::timeout(PATIENCE.min(self.timing.duration / 4), self.renew());
            match renewed.await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => {
                    *lock(&self.renewed) = None;
                    tracing::warn!("another collector has taken the lease");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(%error, "the lease was not renewed; trying again"),
                Err(_) => tracing::warn!("the API server does not answer; trying again to renew the lease"),
            }
        }
    }

    /// False if it is not ours any more.
    async fn renew(&self) -> Result<bool, Error> {
        let Some(lease) = self.api.get_opt(LEASE).await? else { return Ok(false) };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(&self.holder()) {
            return Ok(false);
        }
        match self.replace(lease, Some(self.holder())).await {
            Err(Error::Api(status)) if status.code == 409 => Ok(false),
            replaced => replaced.map(|()| true),
        }
    }

    async fn give_back(&self) -> Result<(), Error> {
        let Some(lease) = self.api.get_opt(LEASE).await? else { return Ok(()) };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(&self.holder()) {
            return Ok(());
        }
        self.replace(lease, None).await
    }

    async fn get(&self) -> Result<Option<Lease>, ClusterError> {
        tried(&self.pace, || self.api.get_opt(LEASE)).await.map_err(|error| self.error(error, "get"))
    }

    async fn create(&self) -> Result<(), Error> {
        let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(self.spec(Some(self.holder()), None)) };
        let asked = Instant::now();
        self.api.create(&params(), &lease).await?;
        *lock(&self.renewed) = Some(asked);
        Ok(())
    }

    /// Writes what was read with another holder. Fails with a conflict if it was changed meanwhile.
    async fn replace(&self, mut lease: Lease, holder: Option<String>) -> Result<(), Error> {
        let is_ours = holder.is_some();
        lease.spec = Some(self.spec(holder, lease.spec.as_ref()));
        let asked = Instant::now();
        self.api.replace(LEASE, &params(), &lease).await?;
        *lock(&self.renewed) = is_ours.then_some(asked);
        Ok(())
    }

    fn spec(&self, holder: Option<String>, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let same = before.filter(|before| before.holder_identity == holder);
        let changes = before.and_then(|before| before.lease_transitions).unwrap_or(0);
        LeaseSpec {
            acquire_time: same.and_then(|same| same.acquire_time.clone()).or_else(|| now.clone()),
            lease_transitions: Some(if same.is_some() { changes } else { changes.saturating_add(1) }),
            lease_duration_seconds: i32::try_from(self.timing.duration.as_secs().max(1)).ok(),
            renew_time: now,
            holder_identity: holder,
            ..LeaseSpec::default()
        }
    }

    fn holder(&self) -> String {
        format!("{}_{}", self.host, self.store)
    }

    fn error(&self, error: Error, verb: &'static str) -> ClusterError {
        ClusterError::of(error, verb, LEASES, &format!("{}/{LEASE}", self.namespace))
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

fn theirs(lease: &Lease) -> Turn {
    let spec = lease.spec.as_ref();
    Turn::Theirs {
        holder: spec.and_then(|spec| spec.holder_identity.clone()).unwrap_or_default(),
        renewed: spec.and_then(|spec| spec.renew_time.as_ref()).map(|renewed| renewed.0),
    }
}

/// How long the holder said that its Lease lasts.
fn seconds_of(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    // Whoever asks for longer than a few minutes has made a mistake.
    u64::try_from(seconds).ok().map(|seconds| Duration::from_secs(seconds.clamp(1, 300)))
}

/// The name of this machine or pod.
fn host() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    host.map(|host| host.trim().to_owned()).filter(|host| !host.is_empty()).unwrap_or_else(|| "collector".to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nobody panics while holding it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
