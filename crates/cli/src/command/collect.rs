//! `headroom-controller collect`: the arguments. `headroom_collector` does the work.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use headroom_api_server::kubeconfig::Chosen;
use headroom_api_server::lease::Timing;
use headroom_api_server::parts::UNBOUNDED;
use headroom_api_server::watch::OLD;
use headroom_api_server::{probes, signals};
use headroom_collector::collect_loop::{Feed, Rounds};
use headroom_collector::estimate_events::{self, ReadFrom};
use headroom_collector::metrics::CollectorMetrics;
use headroom_collector::profile::Pooling;
use headroom_collector::publish::Destination;
use headroom_collector::publish::cluster::ProfileCluster;
use headroom_collector::publish::folder::Folder;
use headroom_collector::publish::lease::lease;
use headroom_collector::read_limits::Pace;
use headroom_collector::store::Store;
use headroom_metrics_stores::Reach;
use headroom_metrics_stores::cluster_id::ClusterId;
use headroom_output::progress::Progress;
use headroom_output::{log, terminal};
use headroom_usage::cardinality;
use headroom_usage::profile::custom_resource::NAMESPACE;
use headroom_usage::window_merge::DAYS_KEPT;
use tokio_util::sync::CancellationToken;

use super::source::SourceCommand;
use super::{listen, run_program, seconds, state_folder};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    from: From,

    #[command(flatten)]
    options: Options,
}

const EXAMPLES: &str = "Examples:
  # Print the profiles, and change nothing in the cluster
  headroom-controller collect prometheus http://prometheus:9090 --output stdout

  # Keep the cluster's profiles up to date
  headroom-controller collect prometheus http://prometheus:9090 --every 1h --listen 0.0.0.0:8080

  # Without any metrics store: watch the metrics API
  headroom-controller collect metrics-api --every 1m

  # Google Cloud, as the account of this machine or pod
  headroom-controller collect prometheus https://monitoring.googleapis.com/v1/projects/ID/location/global/prometheus --every 1h

  # InfluxDB with Heapster's data
  headroom-controller collect influxdb http://monitoring-influxdb.kube-system:8086 --every 1h

  # From a file, into files
  headroom-controller collect files usage.csv --output profiles/";

/// The time until another collector may write after one was killed.
const LEASE: Duration = Duration::from_secs(60);

/// The source of usage.
#[derive(Debug, Subcommand)]
enum From {
    #[command(flatten)]
    Source(SourceCommand),
    /// Import files: CSV with a header, or JSON lines
    Files {
        /// Files to read; of a file that has grown since the last run, only the new lines are read
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Time that each line stands for
        #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = seconds)]
        step: i64,
    },
}

#[derive(Debug, clap::Args)]
struct Options {
    /// File that keeps collected usage, so that the next run reads only newer usage; default: a file for each cluster and
    /// source below ~/.local/state/headroom
    #[arg(long, global = true, env = "HEADROOM_STORE", value_name = "FILE")]
    store: Option<PathBuf>,
    /// Take over what another source, store or field manager has; needed where a source's address changed, or where another store
    /// has more history
    #[arg(long, global = true)]
    adopt: bool,
    /// Collect again at this interval, until stopped; once unless given
    #[arg(long, global = true, value_name = "DURATION", value_parser = seconds)]
    every: Option<i64>,
    /// Destination of profiles: `cluster`, `stdout`, or a folder
    #[arg(long, global = true, value_name = "DESTINATION", default_value = "cluster")]
    output: PathBuf,
    /// Namespace of the profiles and of the Lease; the policy's setting `estimates.namespace`
    #[arg(long, global = true, value_name = "NAMESPACE", default_value = NAMESPACE, env = "HEADROOM_NAMESPACE")]
    namespace: String,
    /// Namespaces whose usage the pooled history includes, such as `shop,team-*`; default: all
    #[arg(long, global = true, value_name = "NAMES", value_delimiter = ',')]
    pool_namespaces: Vec<String>,
    /// Label of namespaces that names their tenant; the namespaces of a tenant count once in the pooled history
    #[arg(long, global = true, value_name = "LABEL")]
    pool_tenant_label: Option<String>,
    /// Context of the kubeconfig: the cluster to write to, and to read from if the source is in it
    #[arg(long, global = true)]
    context: Option<String>,
    /// Number of days before now that the first run reads
    #[arg(long, global = true, value_name = "DAYS", default_value_t = DAYS_KEPT, value_parser = clap::value_parser!(u32).range(1..=DAYS_KEPT as i64))]
    days: u32,
    /// With --every, write Events to workloads about what was set in their pods: by the policy's annotations, or, where it writes
    /// none, by a comparison with the template
    #[arg(long, global = true, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "annotations")]
    events: Option<ReadFrom>,
    /// Serve /healthz, /readyz and /metrics at this address, such as 0.0.0.0:8080
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Log format; default: text on a terminal and JSON elsewhere
    #[arg(long, global = true, value_enum)]
    log: Option<log::LogFormat>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let progress = Progress::for_people();
    // A progress bar replaces the messages of level info.
    let (ordinary, format) =
        if terminal::sees_errors() { ("warn", log::LogFormat::Text) } else { ("info", log::LogFormat::Json) };
    log::start(ordinary, args.options.log.unwrap_or(format), progress.clone());
    run_program(collect(args, progress))
}

async fn collect(Args { from, options }: Args, progress: Progress) -> anyhow::Result<()> {
    let pace = from.pace(options.days)?;
    let metrics = Arc::new(CollectorMetrics::default());
    let (parts, stop) = (metrics.parts.clone(), CancellationToken::new());
    if let Some(address) = options.listen {
        let serving = probes::serve(listen(address).await?, parts.clone(), Arc::clone(&metrics), || None);
        parts.run("status", UNBOUNDED, &stop, serving);
    }
    // The first signal ends the run at the next commit, and waits at once.
    signals::cancel(stop.clone())?;

    let source_name = from.name()?;
    let feed = match from {
        From::Source(source) => Feed::Source(source.open(&Chosen::of_context(options.context.clone())).await?),
        From::Files { paths, step } => Feed::Files { paths, step_seconds: u32::try_from(step).unwrap_or(u32::MAX) },
    };
    if options.pool_tenant_label.is_some() && options.output.as_os_str() != "cluster" {
        bail!("--pool-tenant-label reads the labels of namespaces, so it needs --output cluster");
    }
    let destination = match options.output.to_str() {
        Some("cluster") => {
            let cluster = ProfileCluster::connect(options.context, options.adopt, &pace).await?;
            Destination::Cluster(Box::new(cluster))
        }
        Some("stdout" | "-") => Destination::Stdout,
        _ => Destination::Folder(Folder { path: options.output }),
    };
    let path = match options.store {
        Some(path) => path,
        None => default_store(&source_name, &cluster_of(&feed, &destination).await?),
    };
    // Nobody sees to a collector that runs for ever.
    let (store, is_replaced) = match options.every {
        Some(_) => Store::open_or_replace(&path)?,
        None => (Store::open(&path)?, false),
    };
    if is_replaced {
        metrics.stores_damaged.inc();
    }
    tracing::info!(store = %path.display(), source = source_name, "collecting");
    let lease = match &destination {
        Destination::Cluster(cluster) => {
            Some(lease(cluster.api.clone(), &options.namespace, store.id(), Timing::lasting(LEASE), &parts))
        }
        Destination::Folder(_) | Destination::Stdout => None,
    };
    if let (Some(read_from), Some(_), Destination::Cluster(cluster)) = (options.events, options.every, &destination) {
        let telling = estimate_events::report(cluster.api.clone(), read_from, stop.clone());
        parts.run("watch of new pods", OLD, &stop, telling);
    }
    let rounds = Rounds {
        feed,
        source_name,
        adopt: options.adopt,
        store,
        destination,
        lease,
        namespace: options.namespace,
        pooling: Pooling { namespaces: options.pool_namespaces, ..Pooling::default() },
        tenant_label: options.pool_tenant_label,
        pace,
        metrics,
        progress,
        stop,
    };
    match options.every {
        Some(every) => {
            let collecting = rounds.start(Duration::from_secs(every.unsigned_abs()));
            parts.or_failed(async { Ok(collecting.await?) }).await
        }
        None => parts.or_failed(async { Ok(rounds.once().await?) }).await,
    }
}

/// The cluster that is written to, or read from.
async fn cluster_of(feed: &Feed, destination: &Destination) -> anyhow::Result<ClusterId> {
    match (destination, feed) {
        (Destination::Cluster(cluster), _) => Ok(cluster.id().await?),
        // The API server, which knows its cluster at any time.
        (_, Feed::Source(source)) if source.reach() == Reach::Present => Ok(source.cluster().await?),
        _ => Ok(ClusterId::default()),
    }
}

/// The path of the store in the user's state folder: a file for each cluster and source.
fn default_store(source: &str, cluster: &ClusterId) -> PathBuf {
    let kind = source.split(' ').next().unwrap_or_default();
    let hash = cardinality::hash(cluster.uid.as_deref().unwrap_or_default(), source);
    state_folder().unwrap_or_default().join("headroom").join(format!("{kind}-{hash:08x}.redb"))
}

impl From {
    /// The file of `--source` may say how many queries a store bears.
    fn pace(&self, days: u32) -> anyhow::Result<Pace> {
        let file = match self {
            Self::Source(SourceCommand::Prometheus(args)) => args.source.file()?.concurrency,
            Self::Source(SourceCommand::Influxdb(args)) => args.source.file()?.concurrency,
            Self::Source(SourceCommand::MetricsApi) | Self::Files { .. } => None,
        };
        let pace = Pace { days, ..Pace::default() };
        Ok(Pace { concurrency: file.map_or(pace.concurrency, usize::from), ..pace })
    }

    fn name(&self) -> anyhow::Result<String> {
        Ok(match self {
            Self::Source(source) => source.name()?,
            Self::Files { .. } => "files".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_and_source_has_its_own_store() {
        let store = |source: &str, uid: &str| {
            let cluster = ClusterId { uid: Some(uid.to_owned()), ..ClusterId::default() };
            default_store(source, &cluster)
        };
        let prometheus = store("prometheus at http://p:9090", "1");
        assert!(prometheus.display().to_string().contains("/headroom/prometheus-"), "{}", prometheus.display());
        assert_eq!(prometheus, store("prometheus at http://p:9090", "1"));
        assert_ne!(prometheus, store("prometheus at http://p:9090", "2"));
        assert_ne!(prometheus, store("prometheus at http://q:9090", "1"));
    }
}
