//! Runs a replica until it is stopped: its watches, its servers, and its part in leader election.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use headroom_admission::json::Node;
use headroom_api_server::api_client::value;
use headroom_api_server::watch::follow;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::replica::Replica;
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
        self.parts.run("certificate", &self.drained, Arc::clone(&self).renew_certificate());
        if let Some(listener) = status {
            self.parts.run("status", &self.drained, serve::status(Arc::clone(&self), listener));
        }
        let draining = self.parts.run("draining", &self.stop, {
            let replica = Arc::clone(&self);
            async move {
                replica.stop.cancelled().await;
                replica.writers.spares.close();
                tokio::time::sleep(replica.options.drain).await;
                replica.drained.cancel();
            }
        });
        let reviews = self.parts.run("reviews", &self.drained, serve::reviews(Arc::clone(&self), reviews, acceptor));
        let ended = async { tokio::join!(reviews, draining, leading) };
        tokio::select! {
            // The Lease expires, and another replica leads.
            part = self.parts.failed() => bail!("part `{part}` ended that nobody asked to end"),
            _ = ended => Ok(()),
        }
    }

    /// Everything except answering requests: watches the cluster and takes part in leader election. Ends when it is
    /// stopped.
    pub fn start(self: &Arc<Self>) -> JoinHandle<()> {
        self.follow();
        self.parts.run("leader", &self.stop, leader::lead(Arc::clone(self)))
    }

    /// Watches ledgers, quotas and namespaces.
    fn follow(self: &Arc<Self>) {
        let (ledgers, known) = (Arc::clone(&self.ledgers), Arc::clone(&self.ledgers));
        let path = objects::ledgers(&self.options.namespace);
        let read = move |object: Node<'_>| known.read(object);
        let watch = follow(self.api.clone(), path, self.drained.clone(), read, move |seen| ledgers.take(seen));
        self.parts.run("watch of ledgers", &self.drained, watch);
        let tenants = Arc::clone(&self.tenants);
        let path = objects::TENANT_QUOTAS;
        let watch = follow(self.api.clone(), path, self.drained.clone(), value, move |seen| tenants.take_quotas(seen));
        self.parts.run("watch of TenantQuotas", &self.drained, watch);
        let tenants = Arc::clone(&self.tenants);
        let path = objects::NAMESPACES;
        let watch = follow(self.api.clone(), path, self.drained.clone(), value, move |seen| {
            tenants.take_namespaces(seen);
        });
        self.parts.run("watch of namespaces", &self.drained, watch);
        if self.options.resource_quotas {
            let tenants = Arc::clone(&self.tenants);
            let path = objects::RESOURCE_QUOTAS;
            let watch = follow(self.api.clone(), path, self.drained.clone(), value, move |seen| {
                tenants.take_resource_quotas(seen);
            });
            self.parts.run("watch of ResourceQuotas", &self.drained, watch);
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
