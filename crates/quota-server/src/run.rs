//! Runs a replica until it is stopped: its watches, its servers, and its part in leader election.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use headroom_core::json::Node;
use headroom_kube::api_client::value;
use headroom_kube::watch::follow;
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
