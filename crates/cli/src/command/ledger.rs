//! `kubectl headroom ledger`: looks after the ledgers that `headroom-controller enforce-quotas` writes.

use anyhow::{Context, bail};
use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use headroom_core::truncate::count_of;
use headroom_kube::api_client::{ApiClient, ApiError};
use headroom_kube::kubeconfig::{self, Chosen};
use headroom_kube::proxy;
use headroom_quota_server::check::check;
use headroom_quota_server::suspend::suspend;
use headroom_report::{Exit, Page, Table};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  # Recount everything and compare with the ledgers
  kubectl headroom ledger check

  # Let requests through that exceed a quota; it is still counted
  kubectl headroom ledger suspend payments";

#[derive(Debug, Subcommand)]
enum Command {
    /// Recount everything from live lists and compare with the ledgers; exits with 1 on a difference
    Check(Check),
    /// Stop enforcing TenantQuotas; their usage is still counted
    Suspend(Suspension),
    /// Enforce suspended TenantQuotas again
    Resume(Suspension),
}

#[derive(Debug, clap::Args)]
struct Suspension {
    /// The TenantQuotas
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    quotas: Vec<String>,
    #[command(flatten)]
    cluster: Chosen,
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
    match args.command {
        Command::Check(check) => check.run(),
        Command::Suspend(suspension) => suspension.run(true),
        Command::Resume(suspension) => suspension.run(false),
    }
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

impl Suspension {
    fn run(self, is_suspended: bool) -> anyhow::Result<Exit> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
        runtime.block_on(async {
            let api = connect(&self.cluster).await.map_err(anyhow::Error::msg)?;
            for quota in &self.quotas {
                let outcome = match suspend(&api, quota, is_suspended).await {
                    Ok(false) => "unchanged",
                    Ok(true) if is_suspended => "suspended",
                    Ok(true) => "resumed",
                    Err(ApiError::NotFound(_)) => bail!("there is no TenantQuota {quota}"),
                    Err(failure) => bail!("TenantQuota {quota}: {failure}"),
                };
                let mut page = Page::new();
                writeln!(page, "tenantquota.headroom.dev/{quota} {outcome}");
                headroom_report::print(&page)?;
            }
            Ok(Exit::Ok)
        })
    }
}
