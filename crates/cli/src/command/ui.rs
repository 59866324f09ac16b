//! `kubectl headroom ui`: the page in a browser, with the live cluster behind it.
//!
//! It reads with the rights of the user who starts it, writes nothing, and listens on loopback only. A request must contain the
//! secret of the printed address: see `server`. `serve_ui` serves the same page to the users of an authenticating proxy.

pub(super) mod server;
pub(super) mod site;
pub(super) mod users;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use headroom_kube::signals;
use headroom_report::list_writer::{Form, ListWriter};
use headroom_report::{Exit, Page, terminal};
use headroom_rightsize::inventory::Inventory;
use ring::rand::{SecureRandom, SystemRandom};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::cluster_args::{Opened, Target};
use super::recommend::UsageArgs;
use super::snapshot::{Advice, Written};
use super::{moved, snapshot};
use server::{Asked, Key, Server, Take, Taken, Visitors};
use site::Site;

const EXAMPLES: &str = "\
Examples:
  # One namespace
  kubectl headroom ui -n shop

  # The whole cluster, by the settings of the policy that is deployed
  kubectl headroom ui -A --settings cluster-admission-policy.yaml

  # Usage of two weeks from your Prometheus, and what it costs
  kubectl headroom ui -A --service monitoring/prometheus:9090 --price-cpu 23 --price-memory 3 --currency EUR

  # A snapshot, without a cluster
  kubectl headroom ui --cluster-dir cluster.json

Keep the printed address secret: it gives access to everything that you may read, until you stop the command.";

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
    #[arg(long, hide = true)]
    behind_proxy: bool,
    #[command(flatten)]
    usage: UsageArgs,
    #[command(flatten)]
    target: Target,
}

/// A metrics store is read again after so long; what runs, each minute.
const USAGE_AGE: Duration = Duration::from_secs(600);

/// Where usage is read from, and what was advised by it lately, by namespace.
pub(super) struct Sizing {
    usage: UsageArgs,
    last: Mutex<BTreeMap<Option<String>, (Instant, Advice)>>,
}

pub fn run(mut args: Args) -> anyhow::Result<Exit> {
    if args.behind_proxy {
        bail!(moved("kubectl headroom ui --behind-proxy", "headroom-controller serve-ui"));
    }
    args.usage.settle(&args.target)?;
    let sizing = Sizing { usage: args.usage, last: Mutex::default() };
    let key = Key::new(random()?);
    // Deleted in the end.
    let mut way = None;
    // Wrong arguments are reported before a browser is opened.
    args.target.check()?;
    let target = args.target;
    let take = server::in_this_process(move |asked| taken(&target, Some(&sizing), asked));
    serve(args.site.as_deref(), args.port.unwrap_or(0), take, async |address| {
        let url = format!("http://{address}/{}/", key.text());
        headroom_report::print(&Page::ours(format!("Open {url} in a browser; Ctrl-C ends it.\n")))?;
        if !args.no_open && terminal::sees_output() {
            // OK if it fails, because the address is printed.
            let file = way.insert(way_to(&url)?);
            let _ = open::that_detached(file.path());
        }
        Ok(Visitors::One { key, address })
    })?;
    Ok(Exit::Fine)
}

/// A page that leads the browser to the address. Other users of this machine can see the arguments of the command that opens the
/// browser, so these hold no secret: they name this file, which only its owner can read.
fn way_to(url: &str) -> anyhow::Result<NamedTempFile> {
    let mut file =
        tempfile::Builder::new().prefix("headroom-").suffix(".html").tempfile().context("cannot write a file")?;
    write!(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={url}\">")
        .context("cannot write a file")?;
    Ok(file)
}

/// Serves the page on a port of 127.0.0.1 until the program is stopped. `announce` prints the address, and says who is served.
pub(super) fn serve(
    site: Option<&Path>,
    port: u16,
    take: Take,
    announce: impl AsyncFnOnce(SocketAddr) -> anyhow::Result<Visitors>,
) -> anyhow::Result<()> {
    let site = match site {
        Some(folder) => Site::read(folder)?,
        None => Site::embedded()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let visitors = announce(listener.local_addr()?).await?;
        let stop = CancellationToken::new();
        signals::cancel(stop.clone())?;
        let server = Arc::new(Server::new(site, visitors, take));
        tokio::select! {
            () = server::serve(listener, server) => Ok(()),
            () = stop.cancelled() => Ok(()),
        }
    });
    // Do not wait for a read of the cluster that is in progress.
    runtime.shutdown_background();
    ended
}

/// Takes a snapshot. An error is a message.
pub(super) fn taken(target: &Target, sizing: Option<&Sizing>, asked: Asked) -> Result<Taken, String> {
    try_to_take(target, sizing, asked).map_err(|error| format!("{error:#}"))
}

fn try_to_take(target: &Target, sizing: Option<&Sizing>, asked: Asked) -> anyhow::Result<Taken> {
    let mut target = target.clone();
    let hint = match asked.namespace {
        None => "; name a namespace that you may read, above or as ?namespace=NAME in the address",
        Some(_) => "",
    };
    if let Some(namespace) = asked.namespace {
        (target.namespaces, target.all_namespaces) = (vec![namespace], false);
    }
    target.cluster.token = asked.token;
    let advise = |opened: &mut Opened, inventory| match sizing {
        Some(sizing) => sizing.advice(opened, inventory, &target),
        // OK because what cannot be listed for it was missed already.
        None => Ok(snapshot::advice(opened, inventory, &target, None).unwrap_or_default().0),
    };
    // Compressed at once: a large cluster has hundreds of megabytes.
    let compressed = GzEncoder::new(Vec::new(), Compression::fast());
    let mut snapshot =
        snapshot::take(&target, ListWriter::new(compressed, Form::CompactJson), Written::AsThePageReads, advise)?;
    if let Some(first) = snapshot.missed.first_mut() {
        first.push_str(hint);
    }
    if let Some(advice) = &snapshot.elsewhere {
        bail!("{advice}");
    }
    let missed = std::mem::take(&mut snapshot.missed);
    match missed.first() {
        Some(problem) if snapshot.objects() == 0 => bail!("{problem}"),
        _ => Ok(Taken { compressed: snapshot.finish()?.finish()?.into(), missed }),
    }
}

impl Sizing {
    fn advice(&self, opened: &mut Opened, inventory: Inventory, target: &Target) -> anyhow::Result<Advice> {
        let scope = (!target.all_namespaces).then(|| target.namespaces.join(","));
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, advice)) = last().get(&scope).filter(|(at, _)| at.elapsed() < USAGE_AGE) {
            return Ok(advice.clone());
        }
        let (advice, is_of_store) = snapshot::advice(opened, inventory, target, Some(&self.usage))?;
        if is_of_store {
            last().insert(scope, (Instant::now(), advice.clone()));
        }
        Ok(advice)
    }
}

fn random() -> anyhow::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| anyhow!("cannot read random numbers from the operating system"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_its_owner_reads_the_page_that_the_browser_is_started_with() {
        use std::os::unix::fs::PermissionsExt as _;
        let url = "http://127.0.0.1:4000/5ec2e7/";
        let file = way_to(url).unwrap();
        assert_eq!(file.as_file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::fs::read_to_string(file.path()).unwrap().contains(url));
        assert!(!file.path().to_string_lossy().contains("5ec2e7"));
    }
}
