//! `kubectl headroom ui`: the page in a browser, with the live cluster behind it.
//!
//! It reads with the rights of whoever starts it, writes nothing, and listens on loopback alone. Only who knows the address
//! that it prints is answered: see `server`.

mod server;
mod site;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::TcpListener;

use super::snapshot;
use super::target::Target;
use crate::output::{self, Exit};
use server::{Secret, Server};
use site::Site;

const EXAMPLES: &str = "\
Examples:
  # One namespace
  kubectl headroom ui -n shop

  # The whole cluster, by the settings of the policy that is deployed
  kubectl headroom ui -A --settings cluster-admission-policy.yaml

  # A snapshot, without a cluster
  kubectl headroom ui --cluster-dir cluster.json

Keep the address that it prints to yourself: whoever has it reads what you may read, until you stop the command.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Folder of the page as `make page` builds it; else the page that is built into this program
    #[arg(long, value_name = "FOLDER")]
    site: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let site = match &args.site {
        Some(folder) => Site::read(folder)?,
        None => Site::embedded()?,
    };
    // What is wrong with the arguments is told before anybody opens a browser.
    let settings = args.target.open()?.settings;
    let settings = output::yaml(&settings)?;
    let secret = Secret::new(random()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        output::print(&format!("Open http://{address}/{}/ in a browser; Ctrl-C ends it.\n", secret.text()))?;
        let target = args.target;
        let take = move || snapshot::text(&target).map_err(|error| format!("{error:#}"));
        let server = Arc::new(Server { site, settings, secret, address, take: Box::new(take) });
        tokio::select! {
            () = server::serve(listener, server) => Ok(Exit::Fine),
            stopped = tokio::signal::ctrl_c() => stopped.map(|()| Exit::Fine).context("cannot wait for Ctrl-C"),
        }
    });
    // A reading of the cluster that is under way is not waited for.
    runtime.shutdown_background();
    ended
}

fn random() -> anyhow::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow!("the system gives no random numbers"))?;
    Ok(bytes)
}
