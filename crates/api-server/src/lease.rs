//! A Lease: at most one of several processes does a job at a time.
//!
//! The holder renews the Lease while it works and releases it at its end. The Lease of a killed holder expires after
//! [`Timing::duration`]. Clocks of two machines are not compared: another process takes the Lease when it has watched it
//! for that long without a renewal. This is why kubert's lease does not serve here: it compares the renewal time with the
//! local clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::api_client::{ApiClient, ApiError, ApiResult};
use crate::api_path::ApiPath;
use crate::outage;
use crate::parts::{BRIEF, Parts, locked};

/// The longest wait for the API server, with all attempts.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The log line of a failure.
const NOT_RENEWED: &str = "the lease was not renewed; trying again";

#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub duration: Duration,
    pub renewal: Duration,
    pub observation: Duration,
}

impl Timing {
    pub fn lasting(duration: Duration) -> Self {
        Self { duration, renewal: duration / 4, observation: duration / 15 }
    }
}

#[derive(Debug, Clone)]
pub struct Holder {
    pub name: String,
    /// Any holder whose name ends so is this one, before it was restarted.
    pub suffix: String,
    /// A holder that has not renewed for so long by its own clock is dead, however wrong that clock is.
    pub is_dead_after: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    Ours,
    /// Held by another process. With the moment of its last renewal by its own clock.
    Theirs {
        holder: String,
        renewed: Option<Timestamp>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {verb} the Lease: {error}")]
pub struct LeaseError {
    /// The verb of the permission, such as `get`.
    pub verb: &'static str,
    pub error: ApiError,
}

impl LeaseError {
    fn of(verb: &'static str) -> impl Fn(ApiError) -> Self {
        move |error| Self { verb, error }
    }
}

type LeaseResult<T> = Result<T, LeaseError>;

/// The version of a Lease, and when this process first saw it.
#[derive(Debug, Default)]
pub struct Observation(Option<(Option<String>, Instant)>);

pub struct Lease {
    pub api: ApiClient,
    pub namespace: String,
    pub name: &'static str,
    pub holder: Holder,
    pub timing: Timing,
    /// Unix seconds, for people who read the Lease.
    pub clock: fn() -> i64,
    /// The last renewal, as long as this process holds the Lease.
    pub renewed: Mutex<Option<Instant>>,
}

impl Lease {
    /// Returns true if this process holds the Lease. Ends a little before another process may take it.
    pub fn is_ours(&self) -> bool {
        self.remaining().is_some()
    }

    /// Returns when the Lease was not renewed for too long, or was lost.
    pub async fn expired(&self) {
        while let Some(remaining) = self.remaining() {
            tokio::time::sleep(remaining).await;
        }
    }

    fn remaining(&self) -> Option<Duration> {
        let valid = self.timing.duration.mul_f32(0.8);
        let renewed = *locked(&self.renewed);
        valid.checked_sub(renewed?.elapsed()).filter(|remaining| !remaining.is_zero())
    }

    /// Takes the Lease if it is free, was held by this process, or has expired since the first `observation`.
    pub async fn try_take(&self, observation: &mut Observation) -> LeaseResult<Turn> {
        loop {
            let lease = self.get().await?;
            if let Some(lease) = &lease
                && !self.may_take(lease)
                && !self.has_expired(lease, observation)
            {
                return Ok(Turn::Theirs { holder: holder_of(lease).to_owned(), renewed: renewed_at(lease) });
            }
            let verb = if lease.is_some() { "update" } else { "create" };
            match self.write(lease, Some(&self.holder.name)).await {
                Err(ApiError::Conflict { .. }) => {}
                written => return written.map(|()| Turn::Ours).map_err(LeaseError::of(verb)),
            }
        }
    }

    /// Like [`Self::try_take`], but waits until it is known whether a holder still renews the Lease.
    pub async fn take(&self) -> LeaseResult<Turn> {
        let mut observation = Observation::default();
        let mut first = None;
        loop {
            let turn = self.try_take(&mut observation).await?;
            let version = observation.0.as_ref().map(|(version, _)| version.clone());
            if turn == Turn::Ours || first.is_some() && first != version {
                return Ok(turn);
            }
            first = version;
            tokio::time::sleep(self.timing.observation).await;
        }
    }

    /// Renews the Lease until `stop`, or until another process has taken it.
    pub async fn renew_until(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.timing.renewal) => {}
                () = stop.cancelled() => return,
            }
            match tokio::time::timeout(MAX_WAIT.min(self.timing.duration / 4), self.renew()).await {
                Ok(Ok(true)) => outage::answered(NOT_RENEWED),
                Ok(Ok(false)) => {
                    *locked(&self.renewed) = None;
                    tracing::warn!(lease = self.name, "another process has taken the lease");
                    return;
                }
                Ok(Err(error)) => outage::failed(NOT_RENEWED, &error),
                Err(_) => outage::failed(NOT_RENEWED, &"the API server does not answer"),
            }
        }
    }

    /// Lets another process take the Lease at once.
    pub async fn release(&self) {
        if !self.is_ours() {
            return;
        }
        *locked(&self.renewed) = None;
        let released = async {
            loop {
                let Some(lease) = self.get().await?.filter(|lease| holder_of(lease) == self.holder.name) else {
                    return Ok(());
                };
                match self.write(Some(lease), None).await {
                    // A renewal that was under way came first.
                    Err(ApiError::Conflict { .. }) => {}
                    released => return released.map_err(LeaseError::of("update")),
                }
            }
        };
        if !matches!(tokio::time::timeout(MAX_WAIT, released).await, Ok(Ok(()))) {
            tracing::debug!(lease = self.name, "the lease could not be released, and expires by itself");
        }
    }

    /// Returns true if nobody holds the Lease, or this process did before it was restarted, or the holder died long ago.
    fn may_take(&self, lease: &LeaseObject) -> bool {
        let holder = holder_of(lease);
        let is_dead = |after: Duration| {
            let since = renewed_at(lease).map(|renewed| (self.clock)().saturating_sub(renewed.as_second()));
            since.is_none_or(|since| since > i64::try_from(after.as_secs()).unwrap_or(i64::MAX))
        };
        holder.is_empty() || holder.ends_with(&self.holder.suffix) || self.holder.is_dead_after.is_some_and(is_dead)
    }

    fn has_expired(&self, lease: &LeaseObject, observation: &mut Observation) -> bool {
        let version = &lease.metadata.resource_version;
        match &observation.0 {
            Some((known, since)) if known == version => since.elapsed() >= self.duration_of(lease),
            _ => {
                observation.0 = Some((version.clone(), Instant::now()));
                false
            }
        }
    }

    /// The duration that the holder gave its Lease. A holder that asks for more than a few minutes has made a mistake.
    fn duration_of(&self, lease: &LeaseObject) -> Duration {
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map_or(self.timing.duration, |seconds| Duration::from_secs(seconds.clamp(1, 300)))
    }

    /// Returns false if another process holds the Lease.
    async fn renew(&self) -> LeaseResult<bool> {
        let Some(lease) = self.get().await?.filter(|lease| holder_of(lease) == self.holder.name) else {
            return Ok(false);
        };
        match self.write(Some(lease), Some(&self.holder.name)).await {
            Err(ApiError::Conflict { .. }) => Ok(false),
            renewed => renewed.map(|()| true).map_err(LeaseError::of("update")),
        }
    }

    fn path(&self) -> ApiPath {
        ApiPath::new("/apis/coordination.k8s.io/v1").collection(Some(&self.namespace), "leases")
    }

    async fn get(&self) -> LeaseResult<Option<LeaseObject>> {
        let lease = self.api.find(&self.path().at(self.name)).await.and_then(|lease| {
            lease.map(serde_json::from_value).transpose().map_err(|error| ApiError::Other(error.to_string()))
        });
        lease.map_err(LeaseError::of("get"))
    }

    /// Writes a Lease that was read, or the first one, with this holder. Fails with a conflict if it was changed meanwhile.
    async fn write(&self, read: Option<LeaseObject>, holder: Option<&str>) -> ApiResult<()> {
        let (is_first, mut lease) = (read.is_none(), read.unwrap_or_default());
        lease.metadata.name = Some(self.name.to_owned());
        lease.metadata.namespace = Some(self.namespace.clone());
        lease.spec = Some(self.spec(holder, lease.spec.as_ref()));
        let lease = serde_json::to_value(&lease).map_err(|error| ApiError::Other(error.to_string()))?;
        let asked = Instant::now();
        match is_first {
            true => self.api.create(&self.path(), &lease).await?,
            false => self.api.replace(&self.path().at(self.name), &lease).await?,
        };
        *locked(&self.renewed) = holder.map(|_| asked);
        Ok(())
    }

    fn spec(&self, holder: Option<&str>, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::from_second((self.clock)()).unwrap_or_default()));
        let same = before.filter(|before| before.holder_identity.as_deref() == holder);
        let transitions = before.and_then(|before| before.lease_transitions).unwrap_or(0);
        LeaseSpec {
            acquire_time: same.and_then(|same| same.acquire_time.clone()).or_else(|| now.clone()),
            lease_transitions: Some(if same.is_some() { transitions } else { transitions.saturating_add(1) }),
            lease_duration_seconds: i32::try_from(self.timing.duration.as_secs().max(1)).ok(),
            renew_time: now,
            holder_identity: holder.map(str::to_owned),
            ..LeaseSpec::default()
        }
    }
}

/// A Lease that is renewed in the background while this process holds it.
pub struct RenewedLease {
    lease: Arc<Lease>,
    parts: Parts,
    /// Ends the renewals when it is dropped.
    renewals: Mutex<Option<DropGuard>>,
}

impl RenewedLease {
    pub fn new(lease: Lease, parts: &Parts) -> Self {
        Self { lease: Arc::new(lease), parts: parts.clone(), renewals: Mutex::default() }
    }

    /// Waits until it is known whether a holder still renews it.
    pub async fn take(&self) -> LeaseResult<Turn> {
        if self.is_ours() {
            return Ok(Turn::Ours);
        }
        let turn = self.lease.take().await?;
        // Renewals of an earlier turn may have ended with a failure.
        outage::answered(NOT_RENEWED);
        if turn == Turn::Ours {
            let (lease, stop) = (Arc::clone(&self.lease), CancellationToken::new());
            let stopped = stop.clone();
            self.parts.finish("renewals of the Lease", BRIEF, async move { lease.renew_until(&stopped).await });
            *locked(&self.renewals) = Some(stop.drop_guard());
        }
        Ok(turn)
    }

    pub fn is_ours(&self) -> bool {
        self.lease.is_ours()
    }

    pub async fn release(&self) {
        *locked(&self.renewals) = None;
        self.lease.release().await;
    }
}

/// The name of this machine or pod; `default` if it is unknown.
pub fn host_name(default: &str) -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    host.map(|host| host.trim().to_owned()).filter(|host| !host.is_empty()).unwrap_or_else(|| default.to_owned())
}

fn renewed_at(lease: &LeaseObject) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

fn holder_of(lease: &LeaseObject) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}
