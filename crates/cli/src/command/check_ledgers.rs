//! `headroom-controller check-ledgers`: compares the ledgers that `enforce-quotas` writes with what is stored.

use headroom_admission::truncate::count_of;
use headroom_api_server::kubeconfig::Chosen;
use headroom_output::{Exit, Page, Table};
use headroom_quota_server::check::check;

use super::cluster_args::connect;
use super::run_program;

const EXAMPLES: &str = "Examples:
  # Recount everything and compare with the ledgers
  headroom-controller check-ledgers";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Namespace of the ledgers
    #[arg(long, default_value = "headroom", env = "HEADROOM_NAMESPACE")]
    namespace: String,
    /// Namespaces that are never charged, as given to `enforce-quotas`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    exempt_namespaces: Vec<String>,
    #[command(flatten)]
    cluster: Chosen,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let report = run_program(async {
        let api = connect(&args.cluster).await.map_err(anyhow::Error::msg)?;
        check(&api, &args.namespace, &args.exempt_namespaces).await.map_err(anyhow::Error::msg)
    })?;
    let mut page = Page::new();
    if !report.differences.is_empty() {
        let mut table = Table::new(&["LEDGER", "QUOTA", "RESOURCE", "USED", "COUNTED"]);
        report.differences.iter().for_each(|difference| table.row(difference.clone()));
        page.table(table);
    }
    report.problems.iter().for_each(|problem| writeln!(page, "{problem}"));
    writeln!(
        page,
        "{}, {} of unfinished requests, {}, {}",
        count_of(report.ledgers as u64, "ledger"),
        count_of(report.claims as u64, "claim"),
        count_of(report.differences.len() as u64, "difference"),
        count_of(report.problems.len() as u64, "problem")
    );
    headroom_output::print(&page)?;
    Ok(if report.is_true() { Exit::Ok } else { Exit::Refused })
}
