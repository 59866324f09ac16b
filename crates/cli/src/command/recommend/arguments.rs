//! The arguments of `kubectl headroom recommend`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::bail;
use clap::ValueEnum;
use headroom_admission::cluster::label_selector::LabelSelector;
use headroom_recommend::output::findings::Gate;
use headroom_recommend::report::price::Prices;
use headroom_recommend::write::patches;

use super::apply::Patching;
use super::rule::RuleArgs;
use crate::command::cluster_args::TargetArgs;
use crate::command::manifests::ManifestFiles;
use crate::command::source::Address;
use crate::command::source_file::{SourceFile, SourceFlag};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub(super) of: Option<What>,
    /// Workloads such as `deployment/web`, `rollout canary` or `pod/db-0`; all running workloads of the namespace unless given
    #[arg(value_name = "KIND/NAME", conflicts_with = "files")]
    pub(super) objects: Vec<String>,
    #[command(flatten)]
    pub(super) manifests: ManifestFiles,
    /// Only workloads with these labels, such as `app=web,tier!=cache`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(super) selector: Option<LabelSelector<'static>>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = RecommendFormat::Table)]
    pub(super) output: RecommendFormat,
    /// Exit with 1 if a container is at `risk`, if a recommendation would be `blocked`, or if a request is missing or off by more than a
    /// percentage such as `50%`
    #[arg(long, value_name = "risk | blocked | PERCENT", value_delimiter = ',')]
    pub(super) fail_on: Vec<FailOn>,
    /// Path of a container's resources in the chart's values; {kind}, {name} and {container} are replaced
    #[arg(long, value_name = "PATH", default_value = patches::VALUES_PATH)]
    pub(super) values_path: String,
    /// Write the recommendations into manifests: those of -f, or these files and folders; or into the values*.yaml of charts.
    /// Nothing else in them changes
    #[arg(long, value_name = "PATH", num_args = 0..)]
    pub(super) write: Option<Vec<PathBuf>>,
    #[command(flatten)]
    pub(super) patch: Patching,
    #[command(flatten)]
    pub(super) rule: RuleArgs,
    #[command(flatten)]
    pub(super) usage: UsageArgs,
    #[command(flatten)]
    pub(super) target: TargetArgs,
}

/// The source of usage, and the prices of requests.
#[derive(Debug, Clone, clap::Args)]
pub struct UsageArgs {
    /// Prices of a core and of a GiB of memory for a month, such as `23EUR,3EUR`, `$23,$3` or `23`
    #[arg(long, value_name = "CORE,GIB", help_heading = "Prices")]
    pub(super) price: Option<Prices>,
    /// The part of the past of quotas that is read too.
    #[arg(skip)]
    pub(super) quotas: PastOfQuotas,
    /// The source, once it was chosen for many readings.
    #[arg(skip)]
    pub(super) settled: Option<From>,
    #[command(flatten)]
    pub(super) store: Store,
}

/// The source of usage, and how much of it is read.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Source of usage")]
pub struct Store {
    #[command(flatten)]
    pub(super) named: NamedStore,
    /// Days of history to read from a metrics store, today included
    #[arg(long, default_value_t = DAYS, value_parser = clap::value_parser!(u16).range(1..=30))]
    pub(super) days: u16,
}

/// The days that are read unless a number of them is asked for.
const DAYS: u16 = 14;

/// A metrics store, and what is needed to read it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Source of usage")]
pub struct NamedStore {
    /// URL of a store with Prometheus' API, or its Service as NAMESPACE/SERVICE:PORT (https:SERVICE:PORT for TLS), reached through the API
    /// server; UsageProfiles where the collector has published some, else a store that you choose, unless given
    #[arg(long, value_name = "URL | SERVICE")]
    pub(super) prometheus: Option<Address>,
    #[command(flatten)]
    pub(super) source: SourceFlag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The history that `headroom-controller collect` has published, by image and workload.
    Profiles,
    /// A store with Prometheus' API, or the metrics API where there is none.
    Store,
}

/// The part of the past of quotas that is read: the peaks and the growth of what was charged to them in 30 days, or requested where
/// there is no quota; of ResourceQuotas from kube-state-metrics, of TenantQuotas from the ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PastOfQuotas {
    #[default]
    None,
    /// The growth of the usage of quotas within a week.
    Growth,
    All,
}

const EXAMPLES: &str = "Examples:
  # What the containers of a Deployment should request, and why
  kubectl headroom recommend deployment/web

  # The whole cluster as an HTML report, with the savings
  kubectl headroom recommend -A -o html --price 23EUR,3EUR > report.html

  # From two weeks of usage in your Prometheus, in the cluster or elsewhere
  kubectl headroom recommend -A --prometheus monitoring/prometheus:9090
  kubectl headroom recommend -A --source source.yaml

  # Write the requests into manifests; comments, order and quotes stay
  kubectl headroom recommend -f app/ --write
  kubectl headroom recommend -n shop --write app/
  kubectl headroom recommend deployment/web -n shop --write chart/values.yaml --values-path resources

  # A patch for kustomize, values for a chart that has them at `resources`, or the cluster itself
  kubectl headroom recommend deployment/web -o kustomize > requests.yaml
  kubectl headroom recommend deployment/web -o helm --values-path resources > requests.yaml
  kubectl headroom recommend -n shop deployment/web --patch

  # Quotas and LimitRanges for what namespaces run
  kubectl headroom recommend bounds -n shop

  # Sandboxes and CI runners, or what does not run here yet, by what others of the image used
  kubectl headroom recommend image agent-sandbox -n ci

  # By the rule of KRR
  kubectl headroom recommend -A --prometheus monitoring/prometheus:9090 --cpu p95+0% --memory peak+15%

  # A gate: fail if a request of the shop is off by more than half
  kubectl headroom recommend -n shop -l app=shop --fail-on 50%

Without --patch, nothing in the cluster changes. A new memory limit is recommended only where there is one, a CPU limit never.

Every change is evaluated first as `kubectl headroom check` would, with all others. What would be rejected, or would stop its \
rollout, is named at the top with the nearest amounts that fit, and left out of what is written and patched.

Exit codes: 0 done, 1 something that --fail-on names was found, or something was left out of what is written or patched \
because it would be blocked, or nothing could be written or patched, 2 not everything could be read.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecommendFormat {
    Table,
    /// The table with changes, distributions, limits, QoS classes, kills, throttling, restarts, autoscalers and images
    Wide,
    Json,
    Csv,
    Markdown,
    /// The text of a pull request for --write
    PullRequest,
    /// One page that needs no network
    Html,
    /// A patch for each workload
    Kustomize,
    /// Values for a chart
    Helm,
}

/// The recommendations that are not about workloads.
#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Recommend ResourceQuotas and TenantQuotas from what workloads need at most, with growth over 30 days, and LimitRanges from the
    /// distribution of their containers
    #[command(after_help = BOUNDS_EXAMPLES)]
    Bounds(Box<BoundsArgs>),
    /// Recommend requests and limits by image for what nobody owns and what does not run yet: sandboxes, CI runners, notebooks
    #[command(after_help = IMAGE_EXAMPLES)]
    Image(Box<ImageArgs>),
}

const IMAGE_EXAMPLES: &str = "Examples:
  # By what the runners of a namespace used, which are gone
  kubectl headroom recommend image actions-runner -n ci

  # By all namespaces, to paste into a template
  kubectl headroom recommend image agent-sandbox -A -o yaml

  # From your Prometheus, without the collector
  kubectl headroom recommend image agent-sandbox -A --prometheus http://prometheus:9090

It reads the history that `headroom-controller collect` has published, or a metrics store, and from Nodes what fits on one.";

const BOUNDS_EXAMPLES: &str = "Examples:
  # Beside today's quotas and LimitRange, with the reason for each value
  kubectl headroom recommend bounds -n shop --prometheus monitoring/prometheus:9090

  # To commit, for all namespaces; once more after the recommended requests are applied, for quotas of those alone
  kubectl headroom recommend bounds -A -o yaml > bounds.yaml

Exit codes: 0 done, 1 something that runs would be rejected, 2 not everything could be read.";

#[derive(Debug, clap::Args)]
pub struct BoundsArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = BoundsFormat::Table)]
    pub(super) output: BoundsFormat,
    #[command(flatten)]
    pub(super) store: Store,
    #[command(flatten)]
    pub(super) target: TargetArgs,
}

#[derive(Debug, clap::Args)]
pub struct ImageArgs {
    /// Image, or a part of its name
    pub(super) image: String,
    #[command(flatten)]
    pub(super) bounds: BoundsArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BoundsFormat {
    Table,
    Json,
    /// To commit, with reasons as comments
    Yaml,
}

/// A finding that makes the command exit with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailOn {
    Risk,
    Blocked,
    /// A request that is missing, or off by more than so many percent.
    OffBy(u64),
}

impl FromStr for FailOn {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "risk" => Ok(Self::Risk),
            "blocked" => Ok(Self::Blocked),
            _ => text
                .strip_suffix('%')
                .unwrap_or(text)
                .parse()
                .map(Self::OffBy)
                .map_err(|_| "expected `risk`, `blocked`, or a percentage such as `50%`"),
        }
    }
}

impl Args {
    /// True if the workloads are those of manifests.
    pub fn is_of_files(&self) -> bool {
        !self.manifests.files.is_empty()
    }

    pub fn check_write(&self) -> anyhow::Result<()> {
        let Some(paths) = &self.write else { return Ok(()) };
        if paths.is_empty() && self.manifests.files.is_empty() {
            bail!("--write needs the manifests to write: pass them to it, or with --filename");
        }
        if !paths.is_empty() && self.is_of_files() {
            bail!("--write takes no paths beside --filename, whose manifests it writes");
        }
        if paths.iter().chain(&self.manifests.files).any(|path| path.as_os_str() == "-") {
            bail!("--write needs files, not standard input");
        }
        Ok(())
    }

    pub fn gate(&self) -> Gate {
        let off_by = self.fail_on.iter().filter_map(|on| match on {
            FailOn::OffBy(percent) => Some(*percent),
            FailOn::Risk | FailOn::Blocked => None,
        });
        let [risk, blocked] = [FailOn::Risk, FailOn::Blocked].map(|on| self.fail_on.contains(&on));
        Gate { off_by_percent: off_by.min(), risk, blocked }
    }
}

impl UsageArgs {
    pub fn for_page(price: Option<Prices>, named: NamedStore) -> Self {
        Self { price, quotas: PastOfQuotas::default(), settled: None, store: Store { named, days: DAYS } }
    }

    /// The store that is named by a flag or in the file of `--source`.
    pub fn address(&self) -> anyhow::Result<Option<Address>> {
        self.store.named.address()
    }

    pub(super) fn file(&self) -> anyhow::Result<&SourceFile> {
        self.store.named.source.file()
    }
}

impl NamedStore {
    pub(super) fn address(&self) -> anyhow::Result<Option<Address>> {
        Address::of(self.prometheus.as_ref(), self.source.file()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(text: &str) -> Result<Args, clap::Error> {
        Cli::try_parse_from(["recommend"].into_iter().chain(text.split_whitespace())).map(|cli| cli.args)
    }

    #[test]
    fn contradictory_arguments_are_rejected() {
        for wrong in [
            "--prometheus prometheus:9090",
            "--days 0",
            "--days 31",
            "--fail-on x",
            "--price 1e3",
            "-l a=(",
            "-n a -A",
            "deployment/web -f a.yaml",
            "-k a",
            "--cpu p42",
            "--cpu p95+much",
            "--memory 15%",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let args = parse("--fail-on 20%,risk --cpu p95+10% deployment/web").unwrap();
        assert_eq!(args.objects.len(), 1);
        let gate = args.gate();
        assert_eq!((gate.off_by_percent, gate.risk), (Some(20), true));
    }

    #[test]
    fn what_is_written_is_named_once() {
        let check = |text: &str, is_good: bool| {
            assert_eq!(parse(text).unwrap().check_write().is_ok(), is_good, "{text}");
        };
        check("--write -f app", true);
        check("-f app --write", true);
        check("--write app other", true);
        check("--write", false);
        check("-f app --write other", false);
        check("-f - --write", false);
        check("--write -", false);
    }
}
