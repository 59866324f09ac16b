//! `kubectl headroom ui`: the page in a browser, with the live cluster behind it.
//!
//! It reads with the rights of the user who starts it, writes nothing, and listens on loopback only. A request must contain the
//! secret of the printed address; or, behind an authenticating proxy, a token of its user, whose rights count: see `server`.

mod server;
mod site;

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use headroom_kube::signals;
use headroom_report::Exit;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::cluster_args::Target;
use super::snapshot;
use server::{Asked, Invitation, Key, Server, Taken, Visitors};
use site::Site;

const EXAMPLES: &str = "\
Examples:
  # One namespace
  kubectl headroom ui -n shop

  # The whole cluster, by the settings of the policy that is deployed
  kubectl headroom ui -A --settings cluster-admission-policy.yaml

  # A snapshot, without a cluster
  kubectl headroom ui --cluster-dir cluster.json

  # In a pod, beside a proxy that authenticates users and passes their bearer tokens on
  kubectl headroom ui --behind-proxy --port 8081 -A

Keep the printed address secret: it gives access to everything that you may read, until you stop the command. \
With --behind-proxy there is no such address: each request is served with the token of its user. ?namespace=NAME in the page's \
address, or the field on the page, chooses one namespace for users who may not read all.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Port on 127.0.0.1; a free one unless given
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only print the address
    #[arg(long)]
    no_open: bool,
    /// Folder of the page as `make page` builds it; else the page that is built into this program
    #[arg(long, value_name = "FOLDER")]
    site: Option<PathBuf>,
    /// Answer the users of an authenticating proxy in the same pod: each reads with the bearer token that the proxy passes on
    #[arg(long, requires = "port", conflicts_with_all = ["cluster_dir", "offline", "as_user"])]
    behind_proxy: bool,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let site = match &args.site {
        Some(folder) => Site::read(folder)?,
        None => Site::embedded()?,
    };
    // Wrong arguments are reported before a browser is opened.
    args.target.open()?;
    let (key, invitation) = (Key::new(random()?), Key::new(random()?));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port.unwrap_or(0)));
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let visitors = if args.behind_proxy {
            headroom_report::print(&format!("Serving the users of a proxy on http://{address}/\n"))?;
            Visitors::OfProxy
        } else {
            headroom_report::print(&format!("Open http://{address}/{}/ in a browser; Ctrl-C ends it.\n", key.text()))?;
            if !args.no_open && std::io::stdout().is_terminal() {
                // OK if it fails, because the address is printed.
                let _ = open::that_detached(format!("http://{address}/{}", invitation.text()));
            }
            Visitors::One { key, invitation: Invitation::new(invitation), address }
        };
        let stop = CancellationToken::new();
        signals::cancel(stop.clone())?;
        let target = args.target;
        let take = move |asked| taken(&target, asked).map_err(|error| format!("{error:#}"));
        let server = Arc::new(Server::new(site, visitors, Box::new(take)));
        tokio::select! {
            () = server::serve(listener, server) => Ok(Exit::Fine),
            () = stop.cancelled() => Ok(Exit::Fine),
        }
    });
    // Do not wait for a read of the cluster that is in progress.
    runtime.shutdown_background();
    ended
}

fn taken(target: &Target, asked: Asked) -> anyhow::Result<Taken> {
    let mut target = target.clone();
    let hint = match asked.namespace {
        None => "; name a namespace that you may read, above or as ?namespace=NAME in the address",
        Some(_) => "",
    };
    if let Some(namespace) = asked.namespace {
        (target.namespaces, target.all_namespaces) = (vec![namespace], false);
    }
    target.cluster.token = asked.token;
    let mut snapshot = snapshot::take(&target)?;
    if let Some(first) = snapshot.missed.first_mut() {
        first.push_str(hint);
    }
    match snapshot.missed.first() {
        Some(problem) if snapshot.items.is_empty() => bail!("{problem}"),
        _ => Ok(Taken { text: snapshot.text()?, missed: snapshot.missed }),
    }
}

fn random() -> anyhow::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow!("the system gives no random numbers"))?;
    Ok(bytes)
}
