//! Runs a replica until it is stopped: its watches, its servers, and its part in leader election.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use headroom_admission::json::Node;
use headroom_api_server::api_client::{ApiError, ListOptions, value};
use headroom_api_server::parts::{BRIEF, UNBOUNDED};
use headroom_api_server::watch::{OLD, WatchUpdate, follow};
use headroom_api_server::{ApiPath, probes};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::replica::{FailureLog, Replica};
use crate::tenants::Kind;
use crate::{leader, objects, serve, tls, webhook_config};

/// The pause after a certificate was not found or could not be read.
const CERTIFICATE_RETRY_DELAY: Duration = Duration::from_millis(500);
/// The interval at which the certificate is read again, to use a renewed one.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(20);

impl Replica {
    /// Answers reviews until the replica is stopped.
    pub async fn serve(self: Arc<Self>, reviews: TcpListener, status: Option<TcpListener>) -> Result<()> {
        if let Some((certificate, key)) = &self.options.files {
            self.certificate.read_files(certificate, key)?;
        }
        let authority = self.options.client_authority.as_deref();
        let acceptor = tls::acceptor(Arc::clone(&self.certificate), authority).context("TLS")?;
        let leading = self.start();
        self.parts.run("certificate", BRIEF, &self.drained, Arc::clone(&self).renew_certificate());
        if let Some(listener) = status {
            let replica = Arc::clone(&self);
            let problem =
                move || if replica.stop.is_cancelled() { Some("stopping".to_owned()) } else { replica.problem() };
            let serving = probes::serve(listener, self.parts.clone(), Arc::clone(&self.metrics), problem);
            self.parts.run("status", UNBOUNDED, &self.drained, serving);
        }
        let reviews = serve::reviews(Arc::clone(&self), reviews, acceptor);
        let reviews = self.parts.run("reviews", BRIEF, &self.drained, reviews);
        let ended = async {
            self.stop.cancelled().await;
            tokio::time::sleep(self.options.drain).await;
            self.drained.cancel();
            _ = tokio::join!(reviews, leading);
            Ok(())
        };
        // If a part fails, the Lease expires, and another replica leads.
        self.parts.or_failed(ended).await
    }

    /// Everything except answering requests: watches the cluster and takes part in leader election. Ends when it is
    /// stopped.
    pub fn start(self: &Arc<Self>) -> JoinHandle<()> {
        self.follow();
        self.parts.run("leader", BRIEF, &self.stop, leader::lead(Arc::clone(self)))
    }

    fn follow(self: &Arc<Self>) {
        let (ledgers, known) = (Arc::clone(&self.ledgers), Arc::clone(&self.ledgers));
        let read = move |object: Node<'_>| known.read(object);
        let path = objects::ledgers(&self.options.namespace);
        self.watch("watch of ledgers", path, read, move |seen| ledgers.take(seen));
        let of_tenants = |part: &str, path: ApiPath, kind: Kind| {
            let tenants = Arc::clone(&self.tenants);
            self.watch(part, path, value, move |seen| tenants.take(kind, seen));
        };
        of_tenants("watch of TenantQuotas", objects::TENANT_QUOTAS, Kind::TenantQuota);
        of_tenants("watch of Namespaces", objects::NAMESPACES, Kind::Namespace);
        if self.options.resource_quotas {
            of_tenants("watch of ResourceQuotas", objects::RESOURCE_QUOTAS, Kind::ResourceQuota);
        }
    }

    fn watch<T: Send + 'static>(
        &self,
        part: &str,
        path: ApiPath,
        read: impl Fn(Node<'_>) -> Option<T> + Send + Sync + 'static,
        take: impl FnMut(WatchUpdate<T>) + Send + 'static,
    ) {
        let watch = follow(self.api.clone(), path, ListOptions::WHOLE, self.drained.clone(), read, take);
        self.parts.run(part, OLD, &self.drained, watch);
    }

    async fn renew_certificate(self: Arc<Self>) {
        let mut log = FailureLog::default();
        loop {
            let renewed = match &self.options.files {
                Some((certificate, key)) => {
                    let read = self.certificate.read_files(certificate, key);
                    read.map_err(|error| ApiError::Other(format!("{error:#}")))
                }
                None => webhook_config::use_certificate(&self).await,
            };
            if let Err(failure) = &renewed {
                log.add("the certificate cannot be read", failure);
            }
            let pause = if renewed.is_ok() { CERTIFICATE_INTERVAL } else { CERTIFICATE_RETRY_DELAY };
            tokio::select! {
                () = self.drained.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}
