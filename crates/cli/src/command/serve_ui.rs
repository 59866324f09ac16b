//! `headroom-controller serve-ui`: the page of `kubectl headroom ui` for the users of an authenticating proxy in the same pod.

mod snapshot_process;

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use headroom_core::amount::Quantity;
use headroom_kube::token_owner::TokenOwners;
use headroom_report::Page;

use super::cluster_args::Target;
use super::ui::server::{TAKES_AT_ONCE, UNREAD_BYTES, Visitors};
use super::ui::users::Users;
use super::{bytes, ui};
use snapshot_process::Bounds;

const EXAMPLES: &str = "\
Examples:
  # Beside a proxy that authenticates users and passes their bearer tokens on
  headroom-controller serve-ui --port 8081 --all-namespaces --settings settings.yaml

Each request is served with the token of its user. ?namespace=NAME in the page's address, or the field on the page, chooses \
one namespace for users who may not read all.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Port on 127.0.0.1, to which the proxy in the same pod forwards
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// Namespaces to show; the one of this pod unless given
    #[arg(short, long = "namespace", value_name = "NAMESPACE", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Show all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// The policy's settings: a settings file, or a ClusterAdmissionPolicy or AdmissionPolicy; those of the Helm chart unless given
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Folder of the page as `make page` builds it; else the page that is built into this program
    #[arg(long, value_name = "FOLDER")]
    site: Option<PathBuf>,
    /// Memory limit of the container, at least 328Mi: two snapshots at a time have what the page itself does not need
    #[arg(long, env = "HEADROOM_MEMORY", hide_env = true, value_name = "BYTES", default_value = "1Gi", value_parser = bytes)]
    memory: usize,
    /// Takes one snapshot, which is asked for on standard input, with this much memory
    #[arg(long, hide = true)]
    take_one: Option<usize>,
}

/// Memory of the program besides snapshots: 31 MiB in a test of hostile users.
const OWN_BYTES: usize = 64 << 20;
/// The least memory with which a snapshot is worth taking.
const LEAST_BYTES: usize = 64 << 20;
/// Taking a snapshot needs thirty times the bytes that are sent, which are compressed.
const MEMORY_FOR_SENT_BYTE: usize = 16;

/// The limits of each snapshot, so that two of them and the page fit into the container's memory.
fn bounds(memory: usize) -> anyhow::Result<Bounds> {
    let of_each = memory.saturating_sub(OWN_BYTES + UNREAD_BYTES) / TAKES_AT_ONCE;
    let memory_of_each = of_each / (MEMORY_FOR_SENT_BYTE + 1) * MEMORY_FOR_SENT_BYTE;
    if memory_of_each < LEAST_BYTES {
        let least =
            OWN_BYTES + UNREAD_BYTES + TAKES_AT_ONCE * LEAST_BYTES / MEMORY_FOR_SENT_BYTE * (MEMORY_FOR_SENT_BYTE + 1);
        bail!("--memory is too small: the page needs at least {}", Quantity::from_bytes(least as u64));
    }
    Ok(Bounds { memory: memory_of_each, sent: memory_of_each / MEMORY_FOR_SENT_BYTE })
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let Args { port, namespaces, all_namespaces, settings, site, memory, take_one } = args;
    let target = Target { namespaces, all_namespaces, settings, ..Target::default() };
    if let Some(memory) = take_one {
        return snapshot_process::answer(&target, memory);
    }
    target.check()?;
    ui::serve(site.as_deref(), port, snapshot_process::take(bounds(memory)?)?, async |address| {
        let owners = TokenOwners::connect(&target.cluster).await.map_err(|problem| anyhow!(problem))?;
        headroom_report::print(&Page::ours(format!("Serving the users of a proxy on http://{address}/\n")))?;
        Ok(Visitors::OfProxy(Users::new(Box::new(move |token| {
            let owners = owners.clone();
            Box::pin(async move { owners.find(&token).await })
        }))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_the_page_itself_does_not_need_is_for_snapshots() {
        let in_mib = |memory: usize| bounds(memory * MIB).map(|Bounds { memory, sent }| (memory / MIB, sent / MIB));
        assert_eq!(in_mib(1024).unwrap(), (391, 24));
        assert_eq!(in_mib(328).unwrap(), (64, 4));
        for too_small in [0, 327] {
            let refused = in_mib(too_small).unwrap_err().to_string();
            assert_eq!(refused, "--memory is too small: the page needs at least 328Mi");
        }
    }
}
