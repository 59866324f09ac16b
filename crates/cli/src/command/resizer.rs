//! `headroom-controller resize`: what its arguments mean. The work is `headroom_resizer`'s.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use headroom_api_server::api_client::ApiClient;
use headroom_api_server::cluster_reader::LiveCluster;
use headroom_api_server::event::Recorder;
use headroom_api_server::http_server::{ServerLimits, serve_pages};
use headroom_api_server::kubeconfig::{self, Chosen};
use headroom_api_server::lease::{Holder, Lease, RenewedLease, Timing, Turn, host_name};
use headroom_api_server::metric_registry::CONTENT_TYPE;
use headroom_api_server::{clock, outage, signals};
use headroom_metrics_stores::http::Http;
use headroom_metrics_stores::prometheus::Prometheus;
use headroom_output::log;
use headroom_output::progress::Progress;
use headroom_resizer::Resizer;
use headroom_resizer::decision::{Mode, Rules};
use headroom_resizer::metrics::{PassCounts, ResizerMetrics};
use headroom_resizer::running::Modes;
use headroom_resizer::signals::Signals;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::resize::changes::COMPONENT;
use super::seconds;
use super::source::{Address, behind_service, options};
use super::source_file::SourceFlag;

const EXAMPLES: &str = "Examples:
  # In a cluster, as the Helm chart runs it: observe, unless a namespace, workload or pod asks for more
  headroom-controller resize --namespace headroom

  # Observe only, whatever anybody asks for
  headroom-controller resize --most observe

  # With throttling, pressure and the alerts of teams from Prometheus
  headroom-controller resize --prometheus http://prometheus-operated.monitoring:9090";

/// A running controller without a sign of life for so long is stuck. Longer than the timeouts of a namespace's lists.
const STUCK_AFTER: i64 = 15 * 60;
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
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
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
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let chosen = Chosen::of_context(args.context.clone());
    let (metrics, alive) = (Arc::new(ResizerMetrics::default()), Arc::new(AtomicI64::new(clock::now())));
    // The API server answered the last request for the Lease.
    let is_ready = Arc::new(AtomicBool::new(false));
    let stop = CancellationToken::new();
    let api = runtime.block_on(async {
        let client = kubeconfig::client(&chosen).await.map_err(anyhow::Error::msg)?;
        let status = TcpListener::bind(args.listen_status).await;
        let status = status.with_context(|| format!("cannot listen at {}", args.listen_status))?;
        let (metrics, alive, is_ready) = (Arc::clone(&metrics), Arc::clone(&alive), Arc::clone(&is_ready));
        tokio::spawn(async move {
            let respond = move |request: Request<Bytes>| {
                std::future::ready(page(request.uri().path(), &metrics, &alive, &is_ready))
            };
            serve_pages(status, ServerLimits::PAGES, respond).await;
        });
        signals::cancel(stop.clone())?;
        anyhow::Ok(ApiClient::new(client))
    })?;
    let name = format!("{}-{}", host_name("resizer"), std::process::id());
    let lease = Arc::new(RenewedLease::new(Lease {
        api: api.clone(),
        namespace: args.namespace.clone(),
        name: "headroom-resizer",
        holder: Holder { suffix: name.clone(), name: name.clone(), is_dead_after: None },
        timing: Timing::lasting(LEASE),
        clock: clock::now,
        renewed: Mutex::default(),
    }));
    let mode = |word: Word| Mode::from(word);
    let mut resizer = Resizer {
        runtime: runtime.handle().clone(),
        cluster: LiveCluster::connect(&chosen).map_err(anyhow::Error::msg)?.0.with_bound(LARGEST_LIST, &args.namespace),
        records: args.namespace.clone(),
        modes: Modes { least: Mode::Observe, unasked: mode(args.unasked), most: mode(args.most) },
        rules: Rules::default(),
        signals: runtime.block_on(args.signals(&api))?,
        events: Recorder { api: api.clone(), component: COMPONENT, instance: name },
        memory: headroom_resizer::Memory::default(),
        api,
    };
    let exempt: Vec<String> = args.exempt_namespaces.iter().chain([&args.namespace]).cloned().collect();
    let every = Duration::from_secs(args.every.unsigned_abs());
    tracing::info!("running");
    let handle = runtime.handle().clone();
    let work = {
        let (stop, lease) = (stop.clone(), Arc::clone(&lease));
        std::thread::spawn(move || {
            let _ends = stop.clone().drop_guard();
            while !stop.is_cancelled() {
                let begun = Instant::now();
                let goes_on = || {
                    alive.store(clock::now(), Ordering::Relaxed);
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
                    Some(Ok(Turn::Ours)) => is_done = pass(&mut resizer, &exempt, &metrics, &goes_on),
                    Some(Err(failure)) => outage::failed(AWAY, &failure),
                    Some(Ok(Turn::Theirs { .. })) => outage::answered(),
                    None => {}
                }
                goes_on();
                // A pass takes at most half of the time, and begins again soon if namespaces wait for their turn.
                let took = begun.elapsed();
                let rest = if is_done { every.saturating_sub(took) } else { SOON };
                let pause = if is_leader { rest.max(took.min(every)) } else { STANDBY };
                handle.block_on(async { stop.run_until_cancelled(tokio::time::sleep(pause)).await });
            }
        })
    };
    runtime.block_on(stop.cancelled());
    // A pass ends at its next step. What waits for an answer is left: whoever leads next finds what may have been done.
    let stopped = Instant::now();
    while !work.is_finished() && stopped.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    _ = runtime.block_on(async { tokio::time::timeout(PATIENCE, lease.release()).await });
    runtime.shutdown_background();
    if work.is_finished() && work.join().is_err() {
        anyhow::bail!("a pass has panicked");
    }
    Ok(())
}

/// Returns true unless some of it was left for the next one.
fn pass(resizer: &mut Resizer, exempt: &[String], metrics: &ResizerMetrics, goes_on: &dyn Fn() -> bool) -> bool {
    match resizer.is_supported() {
        Ok(true) => {
            metrics.supported.set(1);
            match resizer.pass(exempt, metrics, goes_on) {
                Ok(is_done) => {
                    outage::answered();
                    return is_done;
                }
                Err(error) => outage::failed(AWAY, &error),
            }
        }
        Ok(false) => {
            metrics.supported.set(0);
            tracing::warn!("the API server has no pods/resize, which Kubernetes has since 1.33: nothing is done");
        }
        Err(error) => outage::failed(AWAY, &error),
    }
    true
}

impl Args {
    async fn signals(&self, api: &ApiClient) -> anyhow::Result<Option<Signals>> {
        let file = self.source.file()?;
        let Some(address) = Address::of(self.prometheus.as_ref(), file)? else { return Ok(None) };
        let options = options(file, &address, 60)?;
        let http = match address {
            Address::Url(_) => Http::new(&options.endpoint)?,
            Address::Service(target) => behind_service(api.client().clone(), target, &options.endpoint).await?,
        };
        Ok(Some(Signals::new(Prometheus::new(http, options))))
    }
}

fn page(path: &str, metrics: &ResizerMetrics, alive: &AtomicI64, is_ready: &AtomicBool) -> Response<Full<Bytes>> {
    let silent = clock::now() - alive.load(Ordering::Relaxed);
    let (status, text) = match path {
        "/metrics" => (StatusCode::OK, metrics.to_string()),
        "/healthz" if silent <= STUCK_AFTER => (StatusCode::OK, "ok\n".to_owned()),
        "/healthz" => (StatusCode::SERVICE_UNAVAILABLE, format!("no sign of life for {silent} s\n")),
        "/readyz" if is_ready.load(Ordering::Relaxed) => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "the API server does not answer for the Lease\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = if path == "/metrics" { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
