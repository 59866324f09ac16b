//! `headroom-controller enforce-quotas`: what its arguments mean. The work is `headroom_quota_server`'s.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use headroom_api_server::kubeconfig::{self, Chosen};
use headroom_api_server::{clock, signals};
use headroom_output::log;
use headroom_output::progress::Progress;
use headroom_quota_server::replica::Webhook;
use headroom_quota_server::{Options, Replica};
use tokio_util::sync::CancellationToken;

use super::{listen, run_program, seconds};

const EXAMPLES: &str = "Examples:
  # In a cluster, as the Helm chart runs it: two replicas or more
  headroom-controller enforce-quotas --namespace headroom

  # Outside of the cluster, where its API servers reach this machine
  headroom-controller enforce-quotas --service https://10.0.0.7:8443";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Namespace of the ledgers, the Lease and the certificate
    #[arg(long, default_value = "headroom", env = "HEADROOM_NAMESPACE")]
    namespace: String,
    /// Address for admission reviews
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8443")]
    listen: SocketAddr,
    /// Address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080")]
    listen_status: SocketAddr,
    /// Service in front of the replicas, in the same namespace; or an https:// URL by which API servers reach them
    #[arg(long, value_name = "NAME | URL", default_value = "headroom-ledger")]
    service: String,
    /// Leave the ValidatingWebhookConfiguration alone: somebody else writes it
    #[arg(long)]
    no_configure: bool,
    /// Folder with the certificate `tls.crt` and its key `tls.key`; unless given, the leader makes one and keeps it in a Secret
    #[arg(long, value_name = "FOLDER")]
    tls: Option<PathBuf>,
    /// Namespaces that are never charged, beside kube-system, kube-public, kube-node-lease and the ledger's own
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    exempt_namespaces: Vec<String>,
    /// Groups whose members are charged but never rejected
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    exempt_groups: Vec<String>,
    /// Certificate authorities in PEM of the only callers that are answered; unless given, anybody who reaches the port
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Enforce the ResourceQuotas of namespaces too, where the API server's own plugin is switched off; beside the plugin this does nothing
    #[arg(long)]
    resource_quotas: bool,
    /// Time that a failed request holds room; must be longer than any request takes: 45s, or before Kubernetes 1.22 the API server's
    /// --request-timeout and 15s
    #[arg(long, value_name = "DURATION", default_value = "45s", value_parser = seconds)]
    request_lifetime: i64,
    /// Leave out of rejections which namespaces use most
    #[arg(long)]
    hide_names: bool,
    /// Context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    log::start("info", log::LogFormat::Json, Progress::hidden());
    run_program(args.serve())
}

/// Shorter than an API server's request, room could be given away twice.
const SHORTEST_LIFETIME: i64 = 20;

/// The time to go on answering reviews after a signal to stop.
const DRAIN: Duration = Duration::from_secs(5);

impl Args {
    async fn serve(self) -> anyhow::Result<()> {
        if self.request_lifetime < SHORTEST_LIFETIME {
            bail!(
                "--request-lifetime must be at least {SHORTEST_LIFETIME}s: claims of requests under way would be released"
            );
        }
        let client = kubeconfig::client(&Chosen::of_context(self.context.clone())).await.map_err(anyhow::Error::msg)?;
        let (reviews, status) = (listen(self.listen).await?, listen(self.listen_status).await?);
        let stop = CancellationToken::new();
        signals::cancel(stop.clone())?;
        let replica = Replica::new(self.options(), client, stop);
        tracing::info!(identity = replica.identity, "serving");
        replica.serve(reviews, Some(status)).await
    }

    fn options(self) -> Options {
        let files = self.tls.map(|folder| (folder.join("tls.crt"), folder.join("tls.key")));
        let url = self.service.starts_with("https://").then(|| self.service.clone());
        let webhook = Webhook { service: self.service, url, makes_certificate: files.is_none() };
        Options {
            namespace: self.namespace,
            exempt_namespaces: self.exempt_namespaces,
            exempt_groups: self.exempt_groups,
            resource_quotas: self.resource_quotas,
            request_lifetime: Duration::from_secs(self.request_lifetime.unsigned_abs()),
            message_names: !self.hide_names,
            webhook: (!self.no_configure).then_some(webhook),
            files,
            client_authority: self.client_ca,
            clock: clock::now,
            drain: DRAIN,
        }
    }
}
