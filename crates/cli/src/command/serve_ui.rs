//! `headroom-controller serve-ui`: the page of `kubectl headroom ui` for the users of an authenticating proxy in the same pod.

use std::path::PathBuf;

use anyhow::anyhow;
use headroom_kube::token_owner::TokenOwners;
use headroom_report::Page;

use super::cluster_args::Target;
use super::ui;
use super::ui::server::Visitors;
use super::ui::users::Users;

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
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let Args { port, namespaces, all_namespaces, settings, site } = args;
    let target = Target { namespaces, all_namespaces, settings, ..Target::default() };
    ui::serve(site.as_deref(), port, target, None, async |address, chosen| {
        let owners = TokenOwners::connect(chosen).await.map_err(|problem| anyhow!(problem))?;
        headroom_report::print(&Page::ours(format!("Serving the users of a proxy on http://{address}/\n")))?;
        Ok(Visitors::OfProxy(Users::new(Box::new(move |token| {
            let owners = owners.clone();
            Box::pin(async move { owners.find(&token).await })
        }))))
    })
}
