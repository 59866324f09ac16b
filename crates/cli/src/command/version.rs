//! `kubectl headroom version`: the version of this program, and what of Headroom the cluster has.

use headroom_api_server::kubeconfig::Chosen;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{metadata, text};
use headroom_output::{Exit, Page, complain};
use headroom_usage::profile::custom_resource::NAMESPACE;
use headroom_workloads::kinds::{self, DEPLOYMENT};

use super::cluster_args::{TargetArgs, add_admission};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    cluster: Chosen,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let mut page = Page::new();
    // Builds of the Makefile and of releases say what they are made of.
    let commit = option_env!("HEADROOM_COMMIT").map(|commit| format!(" (commit {commit})")).unwrap_or_default();
    writeln!(page, "kubectl-headroom {}{commit}", env!("CARGO_PKG_VERSION"));
    if let Err(problem) = add_cluster(&mut page, args.cluster) {
        complain!("note: the versions in the cluster are not known: {problem:#}");
    }
    headroom_output::print(&page)?;
    Ok(Exit::Ok)
}

fn add_cluster(page: &mut Page, cluster: Chosen) -> anyhow::Result<()> {
    let described = cluster.described();
    let target = TargetArgs { cluster, needs_cluster: true, ..TargetArgs::default() };
    let mut opened = target.open()?;
    let release = opened.cluster.release().map(|minor| format!("Kubernetes 1.{minor}, ")).unwrap_or_default();
    writeln!(page, "{release}{described}");
    for policy in opened.admission.objects() {
        writeln!(page, "policy {}: {}", metadata(policy, "name"), text(policy, "/spec/module"));
    }
    // OK because who may not list them gets the rest.
    for deployment in opened.cluster.list(kinds::list(&DEPLOYMENT, Some(NAMESPACE))).unwrap_or_default() {
        let image = text(&deployment, "/spec/template/spec/containers/0/image");
        writeln!(page, "deployment {NAMESPACE}/{}: {image}", metadata(&deployment, "name"));
    }
    add_admission(page, &opened.admission.describe());
    Ok(())
}
