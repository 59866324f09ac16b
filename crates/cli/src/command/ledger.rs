//! `kubectl headroom ledger`: looks after the ledgers that `headroom-controller enforce-quotas` writes.

use anyhow::Context;
use clap::Subcommand;
use headroom_core::truncate::count_of;
use headroom_kube::api_client::ApiClient;
use headroom_kube::kubeconfig::{self, Chosen};
use headroom_kube::proxy;
use headroom_quota_server::check::check;
use headroom_report::{Exit, Page, Table};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  # Recount everything and compare with the ledgers
  kubectl headroom ledger check";

#[derive(Debug, Subcommand)]
enum Command {
    /// Recount everything from live lists and compare with the ledgers; exits with 1 on a difference
    Check(Check),
}

#[derive(Debug, clap::Args)]
struct Check {
    /// Namespace of the ledgers
    #[arg(long, default_value = "headroom", env = "HEADROOM_NAMESPACE")]
    namespace: String,
    /// Namespaces that are never charged, as given to `headroom-controller enforce-quotas`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    exempt_namespaces: Vec<String>,
    #[command(flatten)]
    cluster: Chosen,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let Command::Check(check) = args.command;
    check.run()
}

async fn connect(cluster: &Chosen) -> Result<ApiClient, String> {
    let config = kubeconfig::config(cluster).await?;
    let server = kubeconfig::server(&config);
    let api = ApiClient::new(proxy::client(config)?);
    api.greet(&server).await?;
    Ok(api)
}

impl Check {
    fn run(self) -> anyhow::Result<Exit> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
        let report = runtime.block_on(async {
            let api = connect(&self.cluster).await?;
            check(&api, &self.namespace, &self.exempt_namespaces).await
        });
        let report = report.map_err(anyhow::Error::msg)?;
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
        headroom_report::print(&page)?;
        Ok(if report.is_true() { Exit::Ok } else { Exit::Refused })
    }
}
