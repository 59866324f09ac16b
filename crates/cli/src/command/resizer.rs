//! `headroom-controller resize`: what its arguments mean. The work is `headroom_resizer`'s.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use headroom_api_server::api_client::ApiClient;
use headroom_api_server::cluster_reader::LiveCluster;
use headroom_api_server::event::Recorder;
use headroom_api_server::kubeconfig::{self, Chosen};
use headroom_api_server::lease::{Holder, Lease, RenewedLease, Timing, Turn, host_name};
use headroom_api_server::parts::{Parts, UNBOUNDED, alive};
use headroom_api_server::{clock, outage, probes, signals};
use headroom_metrics_stores::prometheus::Prometheus;
use headroom_output::log;
use headroom_output::progress::Progress;
use headroom_resizer::Resizer;
use headroom_resizer::decision::{Mode, Rules};
use headroom_resizer::metrics::{PassCounts, ResizerMetrics};
use headroom_resizer::running::Modes;
use headroom_resizer::signals::Signals;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::resize::changes::COMPONENT;
use super::source::{Address, options};
use super::source_file::SourceFlag;
use super::{listen, run_program, seconds};

const EXAMPLES: &str = "Examples:
  # In a cluster, as the Helm chart runs it: observe, unless a namespace, workload or pod asks for more
  headroom-controller resize --namespace headroom

  # Observe only, whatever anybody asks for
  headroom-controller resize --most observe

  # With throttling, pressure and the alerts of teams from Prometheus
  headroom-controller resize --prometheus http://prometheus-operated.monitoring:9090";

/// The longest time between two signs of life. Longer than the timeouts of a namespace's lists.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// The log line of a failure, as of an API server that is away.
const AWAY: &str = "the cluster cannot be read; all pods are left as they are";
/// The time until another replica may work after one was killed.
const LEASE: Duration = Duration::from_secs(15);
/// The pause of a replica that does not lead.
const STANDBY: Duration = Duration::from_secs(2);
/// The pause before a pass that goes on with the last one.
const SOON: Duration = Duration::from_secs(1);
/// The bytes of a list of a namespace, such as its autoscalers.
const LARGEST_LIST: usize = 16 << 20;
/// A pass and the API server have so much time each when the program is stopped.
const PATIENCE: Duration = Duration::from_millis(700);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Namespace of the Lease and of the records, one ConfigMap for each workload with a change
    #[arg(long, default_value = "headroom", env = "HEADROOM_NAMESPACE")]
    namespace: String,
    /// Address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080")]
    listen_status: SocketAddr,
    /// The mode for pods that no headroom.dev/resize label or annotation applies to
    #[arg(long, value_enum, default_value_t = Word::Observe)]
    unasked: Word,
    /// The most that headroom.dev/resize may ask for
    #[arg(long, value_enum, default_value_t = Word::On)]
    most: Word,
    /// Time from one look at the cluster to the next
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = seconds)]
    every: i64,
    /// Namespaces that are never looked at, beside the program's own
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "kube-system,kube-public,kube-node-lease"
    )]
    exempt_namespaces: Vec<String>,
    /// URL of a store with Prometheus' API, or its Service as NAMESPACE/SERVICE:PORT, for throttling, pressure and the alerts of teams
    #[arg(long, value_name = "URL | SERVICE")]
    prometheus: Option<Address>,
    #[command(flatten)]
    source: SourceFlag,
    /// Context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "camelCase")]
enum Word {
    /// Report what would be done
    Observe,
    /// Raise memory after an out-of-memory kill
    AfterOom,
    /// Raise and lower
    On,
}

impl From<Word> for Mode {
    fn from(word: Word) -> Self {
        match word {
            Word::Observe => Self::Observe,
            Word::AfterOom => Self::AfterOom,
            Word::On => Self::On,
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<()> {
    log::start("info", log::LogFormat::Json, Progress::hidden());
    let chosen = Chosen::of_context(args.context.clone());
    // It has a runtime of its own.
    let cluster = LiveCluster::connect(&chosen).map_err(anyhow::Error::msg)?.0;
    run_program(serve(args, chosen, cluster, Parts::default()))
}

async fn serve(args: Args, chosen: Chosen, cluster: LiveCluster, parts: Parts) -> anyhow::Result<()> {
    let (stop, metrics) = (CancellationToken::new(), Arc::new(ResizerMetrics::default()));
    let status = listen(args.listen_status).await?;
    // The API server answered the last request for the Lease.
    let is_ready = Arc::new(AtomicBool::new(false));
    let ready = Arc::clone(&is_ready);
    let problem = move || {
        let is_ready = ready.load(Ordering::Relaxed);
        (!is_ready).then(|| "the API server does not answer for the Lease".to_owned())
    };
    let serving = probes::serve(status, parts.clone(), Arc::clone(&metrics), problem);
    parts.run("status", UNBOUNDED, &stop, serving);
    signals::cancel(stop.clone())?;
    let api = ApiClient::new(kubeconfig::client(&chosen).await.map_err(anyhow::Error::msg)?);
    let name = format!("{}-{}", host_name("resizer"), std::process::id());
    let lease = Lease {
        api: api.clone(),
        namespace: args.namespace.clone(),
        name: "headroom-resizer",
        holder: Holder { suffix: name.clone(), name: name.clone(), is_dead_after: None },
        timing: Timing::lasting(LEASE),
        clock: clock::now,
        renewed: Mutex::default(),
    };
    let lease = Arc::new(RenewedLease::new(lease, &parts));
    let mut resizer = Resizer {
        runtime: Handle::current(),
        cluster: cluster.with_bound(LARGEST_LIST, &args.namespace),
        records: args.namespace.clone(),
        modes: Modes { least: Mode::Observe, unasked: args.unasked.into(), most: args.most.into() },
        rules: Rules::default(),
        signals: args.signals(&chosen, &parts).await?,
        events: Recorder { api: api.clone(), component: COMPONENT, instance: name },
        memory: headroom_resizer::Memory::default(),
        api,
    };
    let exempt: Vec<String> = args.exempt_namespaces.iter().chain([&args.namespace]).cloned().collect();
    let every = Duration::from_secs(args.every.unsigned_abs());
    tracing::info!("running");
    let (held, stopped) = (Arc::clone(&lease), stop.clone());
    let passes = parts.run_blocking("passes", LONGEST + every, &stop, move || {
        repeat(&mut resizer, &exempt, every, &metrics, &is_ready, &held, &stopped);
    });
    parts
        .or_failed(async {
            stop.cancelled().await;
            // A pass ends at its next step. What waits for an answer is left: whoever leads next finds what may have been done.
            _ = tokio::time::timeout(PATIENCE, passes).await;
            _ = tokio::time::timeout(PATIENCE, lease.release()).await;
            Ok(())
        })
        .await
}

/// Makes passes while this replica holds the Lease, until it is stopped.
fn repeat(
    resizer: &mut Resizer,
    exempt: &[String],
    every: Duration,
    metrics: &ResizerMetrics,
    is_ready: &AtomicBool,
    lease: &RenewedLease,
    stop: &CancellationToken,
) {
    let handle = resizer.runtime.clone();
    while !stop.is_cancelled() {
        let begun = Instant::now();
        let goes_on = || {
            alive();
            !stop.is_cancelled() && lease.is_ours()
        };
        let turn = handle.block_on(stop.run_until_cancelled(lease.take()));
        let is_leader = matches!(turn, Some(Ok(Turn::Ours)));
        is_ready.store(matches!(turn, Some(Ok(_))), Ordering::Relaxed);
        if metrics.leads.set(is_leader.into()) != i64::from(is_leader) {
            tracing::info!(is_leader, "the Lease has changed hands");
        }
        if !is_leader {
            metrics.seen(&PassCounts::default());
        }
        let mut is_done = true;
        match turn {
            Some(Ok(Turn::Ours)) => is_done = pass(resizer, exempt, metrics, &goes_on),
            Some(Err(failure)) => outage::failed(AWAY, &failure),
            Some(Ok(Turn::Theirs { .. })) => outage::answered(AWAY),
            None => {}
        }
        alive();
        // A pass takes at most half of the time, and begins again soon if namespaces wait for their turn.
        let took = begun.elapsed();
        let rest = if is_done { every.saturating_sub(took) } else { SOON };
        let pause = if is_leader { rest.max(took.min(every)) } else { STANDBY };
        handle.block_on(async { stop.run_until_cancelled(tokio::time::sleep(pause)).await });
    }
}

/// Returns true unless some of it was left for the next one.
fn pass(resizer: &mut Resizer, exempt: &[String], metrics: &ResizerMetrics, goes_on: &dyn Fn() -> bool) -> bool {
    let is_supported = resizer.is_supported().map_err(|error| error.to_string());
    let passed = is_supported.and_then(|is_supported| {
        metrics.supported.set(is_supported.into());
        if is_supported { resizer.pass(exempt, metrics, goes_on).map(Some) } else { Ok(None) }
    });
    match passed {
        Ok(Some(_)) => outage::answered(AWAY),
        Ok(None) => {
            tracing::warn!("the API server has no pods/resize, which Kubernetes has since 1.33: nothing is done");
        }
        Err(ref error) => outage::failed(AWAY, error),
    }
    !matches!(passed, Ok(Some(false)))
}

impl Args {
    async fn signals(&self, chosen: &Chosen, parts: &Parts) -> anyhow::Result<Option<Signals>> {
        let file = self.source.file()?;
        let Some(address) = Address::of(self.prometheus.as_ref(), file)? else { return Ok(None) };
        let options = options(file, &address, 60)?;
        let http = address.http(chosen, &options.endpoint).await?;
        Ok(Some(Signals::new(Prometheus::new(http, options), parts)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use headroom_fixtures::api_server::{ApiServer, kubeconfig};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_resizer_ends_with_each_of_its_parts() {
        for name in ["passes", "renewals of the Lease", "status"] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text = kubeconfig(&[("here", &ApiServer::new().listen(), "headroom")]);
            headroom_output::write_file(file.path(), &text).unwrap();
            let chosen = Chosen { kubeconfig: Some(file.path().to_owned()), ..Chosen::default() };
            let args = Line::parse_from(["resize", "--listen-status=127.0.0.1:0", "--every=1s"]).args;
            let cluster = LiveCluster::connect(&chosen).unwrap().0;
            let parts = Parts::default();
            let disturbed = parts.clone();
            std::thread::spawn(move || {
                while !disturbed.silent().iter().any(|(part, _)| part == name) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                disturbed.disturb(name, false);
            });
            let ended = run_program(serve(args, chosen, cluster, parts));
            let problem = ended.map_err(|error| error.to_string());
            assert_eq!(problem, Err(format!("part `{name}` ended that nobody asked to end")));
        }
    }
}
