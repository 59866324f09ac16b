//! Quotas that hold under concurrency and across namespaces: the webhook and the controller.
//!
//! The protocol is in `headroom-tenant-quota`; this crate connects it with an API server. `review` answers reviews and
//! asks the `writer` of each ledger, unless one of its `spares` is enough. The known state of the cluster is in `ledger_cache`
//! and `tenants`, both updated by `watch`. The leader counts (`object_counter`) and runs `leader`, `planner`, `status`, `resource_quota_enforcer` and
//! `webhook_config`.
//!
//! A replica has no state of its own: it may be killed at any time. Modules in reading order.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_report, which cleans it"
)]

pub mod custom_resources;
pub mod event;
pub mod metrics;
pub mod objects;
pub mod random;
pub mod tls;

pub mod tenants;

pub mod ledger_cache;

pub mod spares;

pub mod writer;

pub mod devices;
pub mod review;

pub mod serve;

pub mod object_counter;

pub mod planner;

pub mod leader;
pub mod resource_quota_enforcer;
pub mod status;

pub mod webhook_config;

pub mod check;
pub mod suspend;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use headroom_core::json::Node;
use headroom_kube::api_client::{ApiClient, value};
use headroom_kube::clock;
use headroom_kube::watch::follow;
use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use ledger_cache::LedgerCache;
use metrics::Metrics;
use object_counter::Counter;
use resource_quota_enforcer::ResourceQuotaEnforcer;
use tenants::Tenants;
use tls::Certificate;
use writer::Writers;

/// How a replica runs.
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
    /// How API servers reach the replicas; none if the webhook configuration is managed elsewhere.
    pub webhook: Option<webhook_config::Webhook>,
    /// Certificate and key, if they are in files.
    pub files: Option<(PathBuf, PathBuf)>,
    /// File with the certificate authorities of callers; without it callers need no certificate.
    pub client_authority: Option<PathBuf>,
    /// Unix seconds. Safety does not depend on it: durations are measured by the monotonic clock.
    pub clock: fn() -> i64,
    /// How long reviews may still arrive after a replica was asked to stop.
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

/// A process that answers reviews.
pub struct Replica {
    pub options: Options,
    pub identity: String,
    pub api: ApiClient,
    pub ledgers: Arc<LedgerCache>,
    pub tenants: Arc<Tenants>,
    pub counter: Arc<Counter>,
    pub writers: Arc<Writers>,
    pub certificate: Arc<Certificate>,
    pub metrics: Arc<Metrics>,
    pub enforcer: ResourceQuotaEnforcer,
    pub device_reads: devices::Turns,
    /// Cancelled when the replica is asked to stop; it is then no longer ready.
    pub stop: CancellationToken,
    /// Cancelled when no more reviews are expected.
    pub drained: CancellationToken,
}

/// The pause after a certificate was not found or could not be read.
const CERTIFICATE_RETRY_DELAY: Duration = Duration::from_millis(500);
/// The interval at which the certificate is read again, to use a renewed one.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(20);

/// Pages of lists that are held at a time. A page may have megabytes, and as many kinds are listed as quotas bound.
const PAGES_AT_ONCE: usize = 2;

impl Replica {
    pub fn new(options: Options, client: Client, stop: CancellationToken) -> Arc<Self> {
        let api = ApiClient::new(client).with_pages_at_once(PAGES_AT_ONCE);
        let ledgers = Arc::new(LedgerCache::new(api.clone(), &options.namespace));
        let (counter, metrics, drained) = (Arc::new(Counter::default()), Arc::default(), CancellationToken::new());
        // Claims of reviews in progress are still written while the replica drains.
        let writers = Writers::new(
            api.clone(),
            &options.namespace,
            Arc::clone(&ledgers),
            Arc::clone(&counter),
            Arc::clone(&metrics),
            drained.clone(),
        );
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "ledger".to_owned());
        Arc::new(Self {
            identity: format!("{host}-{}", random::token()),
            tenants: Arc::new(Tenants::new(&options.namespace, &options.exempt_namespaces)),
            certificate: Arc::default(),
            options,
            api,
            ledgers,
            counter,
            writers,
            metrics,
            enforcer: ResourceQuotaEnforcer::default(),
            device_reads: devices::Turns::default(),
            stop,
            drained,
        })
    }

    /// Returns true if the replica can answer reviews.
    pub fn is_ready(&self) -> bool {
        self.ledgers.is_listed() && self.tenants.is_listed() && self.certificate.is_there()
    }

    /// Answers reviews until the replica is stopped.
    pub async fn serve(self: Arc<Self>, reviews: TcpListener, status: Option<TcpListener>) -> Result<()> {
        if let Some((certificate, key)) = &self.options.files {
            self.certificate.read_files(certificate, key)?;
        }
        let authority = self.options.client_authority.as_deref();
        let acceptor = tls::acceptor(Arc::clone(&self.certificate), authority).context("TLS")?;
        let leading = self.start();
        tokio::spawn(Arc::clone(&self).renew_certificate());
        if let Some(listener) = status {
            tokio::spawn(serve::status(Arc::clone(&self), listener));
        }
        let draining = tokio::spawn({
            let replica = Arc::clone(&self);
            async move {
                replica.stop.cancelled().await;
                replica.writers.spares.close();
                tokio::time::sleep(replica.options.drain).await;
                replica.drained.cancel();
            }
        });
        serve::reviews(Arc::clone(&self), reviews, acceptor).await;
        draining.await.context("draining")?;
        leading.await.context("leading")
    }

    /// Everything except answering requests: watches the cluster and takes part in leader election. Ends when it is
    /// stopped.
    pub fn start(self: &Arc<Self>) -> JoinHandle<()> {
        self.follow();
        tokio::spawn(leader::lead(Arc::clone(self)))
    }

    /// Watches ledgers, quotas and namespaces.
    fn follow(self: &Arc<Self>) {
        let (ledgers, known) = (Arc::clone(&self.ledgers), Arc::clone(&self.ledgers));
        let path = objects::ledgers(&self.options.namespace);
        let read = move |object: Node<'_>| known.read(object);
        tokio::spawn(follow(self.api.clone(), path, self.drained.clone(), read, move |seen| ledgers.take(seen)));
        let tenants = Arc::clone(&self.tenants);
        let path = objects::TENANT_QUOTAS;
        tokio::spawn(follow(self.api.clone(), path, self.drained.clone(), value, move |seen| {
            tenants.take_quotas(seen)
        }));
        let tenants = Arc::clone(&self.tenants);
        let path = objects::NAMESPACES;
        tokio::spawn(follow(self.api.clone(), path, self.drained.clone(), value, move |seen| {
            tenants.take_namespaces(seen);
        }));
        if self.options.resource_quotas {
            let tenants = Arc::clone(&self.tenants);
            let path = objects::RESOURCE_QUOTAS;
            tokio::spawn(follow(self.api.clone(), path, self.drained.clone(), value, move |seen| {
                tenants.take_resource_quotas(seen);
            }));
        }
    }

    async fn renew_certificate(self: Arc<Self>) {
        loop {
            let renewed = match &self.options.files {
                Some((certificate, key)) => {
                    self.certificate.read_files(certificate, key).map(|()| true).map_err(|error| format!("{error:#}"))
                }
                None => webhook_config::use_certificate(&self).await.map_err(|failure| failure.to_string()),
            };
            if let Err(problem) = &renewed {
                tracing::warn!(problem, "the certificate cannot be read");
            }
            let pause = if renewed == Ok(true) { CERTIFICATE_INTERVAL } else { CERTIFICATE_RETRY_DELAY };
            tokio::select! {
                () = self.drained.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}
