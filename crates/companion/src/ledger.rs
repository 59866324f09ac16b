//! `kubectl headroom ledger`: quotas that hold under concurrency and across namespaces.
//!
//! The protocol is in `headroom-ledger`; here is what connects it with an API server. A review is answered by `review`,
//! which asks the `writer` of each ledger; what is known of the cluster is on the `board` and in `tenants`, both fed by
//! `watch`; the leader counts (`count`), and does what is in `lead`, `planner`, `status`, `plain` and `configure`.
//!
//! A replica keeps nothing of its own: it may be killed at any moment.

pub mod api;
pub mod board;
pub mod check;
pub mod configure;
pub mod count;
pub mod describe;
pub mod event;
pub mod lead;
pub mod metrics;
pub mod objects;
pub mod plain;
pub mod planner;
pub mod review;
pub mod serve;
pub mod status;
pub mod suspend;
pub mod tenants;
pub mod tls;
pub mod token;
pub mod watch;
pub mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use api::Api;
use board::Board;
use count::Counter;
use metrics::Metrics;
use plain::Plain;
use tenants::Tenants;
use tls::Certificate;
use writer::Writers;

use crate::clock;

/// How a replica runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where ledgers, the Lease and the Secret are.
    pub namespace: String,
    /// Beside Kubernetes' own and ours.
    pub exempt_namespaces: Vec<String>,
    /// Whose members are charged, and never refused.
    pub exempt_groups: Vec<String>,
    /// Whether the ResourceQuotas of namespaces are enforced too, where the API server does not do it.
    pub resource_quotas: bool,
    /// Longer than any request may last between its review and its storage.
    pub request_lifetime: Duration,
    /// Whether refusals name who uses most.
    pub message_names: bool,
    /// How API servers reach us; none if others manage the configuration.
    pub webhook: Option<configure::Webhook>,
    /// Certificate and key, if they are in files.
    pub files: Option<(PathBuf, PathBuf)>,
    /// File with the certificate authorities of callers; without it callers need no certificate.
    pub client_authority: Option<PathBuf>,
    /// Unix seconds. Nothing that is safe depends on it: what may last how long is measured by the monotonic clock.
    pub clock: fn() -> i64,
    /// How long reviews still come after a replica is told to stop.
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

/// One of the processes that answer reviews.
pub struct Replica {
    pub options: Options,
    pub identity: String,
    pub api: Api,
    pub board: Arc<Board>,
    pub tenants: Arc<Tenants>,
    pub counter: Arc<Counter>,
    pub writers: Arc<Writers>,
    pub certificate: Arc<Certificate>,
    pub metrics: Arc<Metrics>,
    pub plain: Plain,
    /// Told to stop: not ready any more.
    pub stop: CancellationToken,
    /// Nobody is sent here any more.
    pub drained: CancellationToken,
}

/// After a certificate was looked for in vain, or could not be read again.
const CERTIFICATE_PAUSE: Duration = Duration::from_millis(500);
/// A renewed certificate is taken into use within this.
const CERTIFICATE_EVERY: Duration = Duration::from_secs(20);

impl Replica {
    pub fn new(options: Options, client: Client, stop: CancellationToken) -> Arc<Self> {
        let api = Api::new(client);
        let board = Arc::new(Board::new(api.clone(), &options.namespace));
        let (counter, metrics, drained) = (Arc::new(Counter::default()), Arc::default(), CancellationToken::new());
        // Reviews that are under way are still written while the replica drains.
        let writers = Writers::new(
            api.clone(),
            &options.namespace,
            Arc::clone(&board),
            Arc::clone(&counter),
            Arc::clone(&metrics),
            drained.clone(),
        );
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "ledger".to_owned());
        Arc::new(Self {
            identity: format!("{host}-{}", token::token()),
            tenants: Arc::new(Tenants::new(&options.namespace, &options.exempt_namespaces)),
            certificate: Arc::default(),
            options,
            api,
            board,
            counter,
            writers,
            metrics,
            plain: Plain::default(),
            stop,
            drained,
        })
    }

    /// Whether it knows enough to answer reviews.
    pub fn is_ready(&self) -> bool {
        self.board.is_listed() && self.tenants.is_listed() && self.certificate.is_there()
    }

    /// Answers reviews until it is told to stop.
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
                tokio::time::sleep(replica.options.drain).await;
                replica.drained.cancel();
            }
        });
        serve::reviews(Arc::clone(&self), reviews, acceptor).await;
        draining.await.context("draining")?;
        leading.await.context("leading")
    }

    /// Everything except answering requests: watches the cluster and takes part in leader election. Ends when it is stopped.
    pub fn start(self: &Arc<Self>) -> JoinHandle<()> {
        self.follow();
        tokio::spawn(lead::lead(Arc::clone(self)))
    }

    /// Ledgers, quotas and namespaces.
    fn follow(self: &Arc<Self>) {
        let board = Arc::clone(&self.board);
        let path = objects::ledgers(&self.options.namespace);
        tokio::spawn(watch::follow(self.api.clone(), path, self.drained.clone(), Some, move |seen| board.take(seen)));
        let tenants = Arc::clone(&self.tenants);
        let path = objects::TENANT_QUOTAS.to_owned();
        tokio::spawn(watch::follow(self.api.clone(), path, self.drained.clone(), Some, move |seen| {
            tenants.take_quotas(seen)
        }));
        let tenants = Arc::clone(&self.tenants);
        let path = "/api/v1/namespaces".to_owned();
        tokio::spawn(watch::follow(self.api.clone(), path, self.drained.clone(), Some, move |seen| {
            tenants.take_namespaces(seen);
        }));
        if self.options.resource_quotas {
            let tenants = Arc::clone(&self.tenants);
            let path = objects::RESOURCE_QUOTAS.to_owned();
            tokio::spawn(watch::follow(self.api.clone(), path, self.drained.clone(), Some, move |seen| {
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
                None => configure::use_certificate(&self).await.map_err(|failure| failure.to_string()),
            };
            if let Err(problem) = &renewed {
                tracing::warn!(problem, "the certificate cannot be read");
            }
            let pause = if renewed == Ok(true) { CERTIFICATE_EVERY } else { CERTIFICATE_PAUSE };
            tokio::select! {
                () = self.drained.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}
