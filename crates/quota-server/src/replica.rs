//! A replica: its options, and what all its tasks share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_api_server::api_client::{ApiClient, ApiError};
use headroom_api_server::event::Recorder;
use headroom_api_server::parts::{Parts, locked};
use headroom_api_server::watch::OLD;
use headroom_api_server::{clock, random};
use headroom_quota_protocol::Plan;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::devices;
use crate::ledger_cache::LedgerCache;
use crate::metrics::QuotaServerMetrics;
use crate::object_counter::{COUNTED, Counter};
use crate::objects::{ledger_of_namespace, namespace_of};
use crate::spares::Spares;
use crate::tenants::{Kind, Tenants};
use crate::tls::Certificate;
use crate::writer::{Tasks, Writers};

#[derive(Debug, Clone)]
pub struct Options {
    /// The namespace of ledgers, the Lease and the Secret.
    pub namespace: String,
    /// In addition to Kubernetes' own and ours.
    pub exempt_namespaces: Vec<String>,
    /// Groups whose members are charged but never refused.
    pub exempt_groups: Vec<String>,
    /// Enforce ResourceQuotas too, unless the API server does.
    pub resource_quotas: bool,
    /// Longer than the time between the review of a request and its storage.
    pub request_lifetime: Duration,
    /// True if refusals name the largest consumers.
    pub message_names: bool,
    /// The address at which API servers reach the replicas; none if the webhook configuration is managed elsewhere.
    pub webhook: Option<Webhook>,
    /// Certificate and key, if they are in files.
    pub files: Option<(PathBuf, PathBuf)>,
    /// File with the certificate authorities of callers; without it callers need no certificate.
    pub client_authority: Option<PathBuf>,
    /// Unix seconds, where the API server's are not known. Durations are measured by the monotonic clock.
    pub clock: fn() -> i64,
    /// The time during which reviews may still arrive after a replica was asked to stop.
    pub drain: Duration,
}

impl Options {
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            exempt_namespaces: Vec::new(),
            exempt_groups: Vec::new(),
            resource_quotas: false,
            request_lifetime: Duration::from_secs(45),
            message_names: true,
            webhook: None,
            files: None,
            client_authority: None,
            clock: clock::now,
            drain: Duration::from_secs(5),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The name of the Service in our own namespace.
    pub service: String,
    /// Used instead of the Service, for replicas outside the cluster.
    pub url: Option<String>,
    /// True if we make the certificate; otherwise `caBundle` is set elsewhere.
    pub makes_certificate: bool,
}

/// Logs why a loop fails, once a minute while that lasts.
#[derive(Debug, Default)]
pub struct FailureLog(Option<Instant>);

impl FailureLog {
    const INTERVAL: Duration = Duration::from_secs(60);

    pub fn add(&mut self, what: &str, failure: &ApiError) {
        if self.0.is_none_or(|at| at.elapsed() >= Self::INTERVAL) {
            self.0 = Some(Instant::now());
            tracing::warn!(%failure, "{what}");
        }
    }
}

pub struct Replica {
    pub options: Options,
    pub identity: String,
    pub api: ApiClient,
    pub events: Recorder,
    pub ledgers: Arc<LedgerCache>,
    pub tenants: Arc<Tenants>,
    pub counter: Arc<Counter>,
    pub writers: Arc<Writers>,
    pub certificate: Arc<Certificate>,
    pub metrics: Arc<QuotaServerMetrics>,
    /// True if the API server was found not to enforce ResourceQuotas; none until it was probed in this term.
    pub are_resource_quotas_ours: Mutex<Option<bool>>,
    /// The problems of quotas whose plan cannot be replaced, by name.
    pub too_large: Mutex<BTreeMap<String, String>>,
    /// The problem of the webhook configuration, empty if it is as wanted; none until that is known in this term.
    pub unconfigured: Mutex<Option<String>>,
    pub device_reads: devices::Turns,
    pub parts: Parts,
    /// The API server's time, and when it was read.
    time: Mutex<Option<(i64, Instant)>>,
    /// Cancelled when the replica is asked to stop; it is then no longer ready.
    pub stop: CancellationToken,
    /// Cancelled when no more reviews are expected.
    pub drained: CancellationToken,
}

/// Pages of lists that are held at a time. A page may have megabytes, and as many kinds are listed as quotas bound.
const PAGES_AT_ONCE: usize = 2;
/// The problem of a replica that has never had one.
pub const NO_CERTIFICATE: &str = "no certificate in Secret headroom-ledger-tls: the leader makes it, and \
                                  `helm upgrade` creates a Secret that is gone";
/// The API server's time is read again after this time.
const TIME_AGE: Duration = Duration::from_secs(60);

impl Replica {
    pub fn new(options: Options, client: Client, stop: CancellationToken) -> Arc<Self> {
        let api = ApiClient::new(client).with_pages_at_once(PAGES_AT_ONCE);
        let ledgers = Arc::new(LedgerCache::new(api.clone(), &options.namespace));
        let (metrics, drained) = (Arc::new(QuotaServerMetrics::default()), CancellationToken::new());
        let parts = metrics.parts.clone();
        let counter = Arc::new(Counter::new(parts.clone()));
        let writers = Arc::new(Writers {
            ledgers: Arc::clone(&ledgers),
            counter: Arc::clone(&counter),
            metrics: Arc::clone(&metrics),
            spares: Spares::new(stop.clone()),
            // Claims of reviews in progress are still written while the replica drains.
            stop: drained.clone(),
            tasks: Tasks::default(),
        });
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "ledger".to_owned());
        let identity = format!("{host}-{}", random::token());
        Arc::new(Self {
            events: Recorder { api: api.clone(), component: "headroom-ledger", instance: identity.clone() },
            identity,
            tenants: Arc::new(Tenants::new(&options.namespace, &options.exempt_namespaces)),
            certificate: Arc::default(),
            options,
            api,
            ledgers,
            counter,
            writers,
            metrics,
            are_resource_quotas_ours: Mutex::default(),
            too_large: Mutex::default(),
            unconfigured: Mutex::default(),
            device_reads: devices::Turns::default(),
            parts,
            time: Mutex::default(),
            stop,
            drained,
        })
    }

    /// The API server's time in Unix seconds. It judges certificates by it, and gives pods their deadlines; the clock of this
    /// machine may jump.
    pub async fn now(&self) -> i64 {
        let of = |(time, read_at): (i64, Instant)| time + read_at.elapsed().as_secs() as i64;
        let known = *locked(&self.time);
        if let Some(known) = known.filter(|(_, read_at)| read_at.elapsed() < TIME_AGE) {
            return of(known);
        }
        let time = self.api.time().await.ok().or_else(|| known.map(of)).unwrap_or_else(self.options.clock);
        *locked(&self.time) = Some((time, Instant::now()));
        time
    }

    /// True if the ledger enforces ResourceQuotas; none until the API server was probed and they are listed.
    pub fn enforces_resource_quotas(&self) -> Option<bool> {
        let probed = if self.options.resource_quotas { *locked(&self.are_resource_quotas_ours) } else { Some(false) };
        probed.filter(|is_ours| !is_ours || self.tenants.has_listed(Kind::ResourceQuota))
    }

    /// The plans for ResourceQuotas, by ledger. Those in force stay until it is known who enforces them: each new leader probes
    /// the API server, and without a ledger nothing bounds a namespace.
    pub fn plans_of_resource_quotas(&self) -> BTreeMap<String, Plan> {
        let plan_of = |(namespace, quotas): (String, Vec<_>)| {
            (ledger_of_namespace(&namespace), Plan::of_namespace(&namespace, &quotas))
        };
        match self.enforces_resource_quotas() {
            Some(true) => self.tenants.resource_quotas().into_iter().map(plan_of).collect(),
            Some(false) => BTreeMap::new(),
            None => {
                let views = self.ledgers.views().into_iter().filter(|view| namespace_of(&view.ledger).is_some());
                views.map(|view| (view.ledger, Plan::clone(&view.plan))).collect()
            }
        }
    }

    /// Returns why the replica cannot answer reviews; none if it can.
    pub fn problem(&self) -> Option<String> {
        if !self.ledgers.is_listed() || !self.tenants.is_listed() {
            return Some("ledgers, or quotas and namespaces, are not known yet".to_owned());
        }
        if !self.certificate.is_there() {
            return Some(NO_CERTIFICATE.to_owned());
        }
        // What is counted only frees room.
        let (watch, age) = self.parts.older(OLD, |watch| !watch.starts_with(COUNTED))?;
        Some(format!("the API server has not confirmed {watch} for {} s", age.as_secs()))
    }
}
