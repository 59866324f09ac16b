//! Reads the metrics store that is named on the command line, or that a person chooses among the Services that look like one.
//! Where there is none, the metrics API is read.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use headroom_admission::amount::Quantity;
use headroom_admission::timestamp::Timestamp;
use headroom_admission::truncate::count_of;
use headroom_api_server::clock;
use headroom_api_server::retry::Retry;
use headroom_dry_run::settings::ParsedSettings;
use headroom_metrics_stores::http::Http;
use headroom_metrics_stores::prometheus::{AnswerSeries, PrometheusOptions, StoreReader};
use headroom_metrics_stores::{SourceError, metrics_api, port_forward};
use headroom_output::complain;
use headroom_output::people::Unit;
use headroom_output::progress::Progress;
use headroom_recommend::bounds::quota::Past;
use headroom_recommend::history::timeline::Timeline;
use headroom_recommend::history::{self, Histories};
use headroom_recommend::report::ReportSource;
use headroom_usage::sample::{Resource, Window};
use headroom_workloads::kinds::PodKind;
use headroom_workloads::owner::{PodOwners, WorkloadRef};
use tokio_util::sync::CancellationToken;

use super::arguments::{PastOfQuotas, UsageArgs};
use super::source::Services;
use crate::command::cluster_args::{Opened, TargetArgs};
use crate::command::run_program;
use crate::command::source::{self, Address, behind_service, client, needs_port_forward};

/// The usage that was read from a metrics store or the metrics API.
pub struct StoreHistory {
    pub histories: Histories,
    pub source: ReportSource,
    pub notes: Vec<String>,
    pub past: Vec<Past>,
}

/// A greater difference of clocks is reported, in seconds.
const SKEW: u64 = 120;
/// The attempts to connect to a store that fails for a moment.
const RETRY: Retry = Retry { attempts: 2, first_wait: Duration::from_secs(1), longest_wait: Duration::from_secs(1) };
/// The last seconds, which a store may not show yet.
const UNSETTLED: i64 = 30;
const DAY: i64 = 86_400;
/// Queries at a time, unless the file of `--source` says another number.
const QUERIES: u8 = 4;
/// The steps of memory and of CPU, unless one is chosen for both.
const STEP: i64 = 300;
const CPU_STEP: u32 = 120;

/// Namespaces in one query.
const TOGETHER: usize = 50;

pub fn read(
    usage: &UsageArgs,
    target: &TargetArgs,
    opened: &mut Opened,
    namespaces: &[String],
    pods: PodOwners,
    progress: &Progress,
) -> anyhow::Result<StoreHistory> {
    // Before the runtime, since the surroundings have their own.
    let is_named = usage.address()?.is_some();
    let services = if is_named { Services::default() } else { Services::find(opened, namespaces) };
    let service = services.chosen(usage.file()?, &target.cluster)?;
    let refused = services.refused;
    let as_of = ParsedSettings::of(&opened.settings).replay_time().map(Timestamp::unix_seconds);
    progress.wait("Asking the metrics store what it has");
    let found = run_program(async {
        let stop = CancellationToken::new();
        tokio::spawn(interrupted(stop.clone()));
        let store = StoreReading { usage, target, namespaces, as_of, progress, stop };
        store.read(service, refused, pods).await
    });
    progress.end();
    found
}

/// Reads one container of a workload by the hour from the store that is named.
pub fn hours(
    usage: &UsageArgs,
    target: &TargetArgs,
    opened: &Opened,
    workload: &WorkloadRef,
    container: &str,
) -> anyhow::Result<Timeline> {
    let address = usage.address()?.ok_or_else(|| anyhow!("no metrics store is read"))?;
    let as_of = ParsedSettings::of(&opened.settings).replay_time().map(Timestamp::unix_seconds);
    let (progress, stop) = (&Progress::hidden(), CancellationToken::new());
    let store = StoreReading { usage, target, namespaces: &[], as_of, progress, stop };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let reader = store.reader(&address).await?;
        Ok(Timeline::of_hours(&reader, workload, container, store.window(&reader)).await?)
    })
}

/// The first Ctrl-C ends the reading, and the report is made of what was read; the second ends everything.
async fn interrupted(stop: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        complain!("interrupted: reporting on what was read so far; press Ctrl-C again to quit");
        stop.cancel();
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    }
}

struct StoreReading<'a> {
    usage: &'a UsageArgs,
    target: &'a TargetArgs,
    namespaces: &'a [String],
    /// `estimates.replayTime`, if set.
    as_of: Option<i64>,
    progress: &'a Progress,
    stop: CancellationToken,
}

impl StoreReading<'_> {
    async fn read(
        &self,
        chosen: Option<port_forward::ForwardTarget>,
        refused: Option<String>,
        pods: PodOwners,
    ) -> anyhow::Result<StoreHistory> {
        if let Some(address) = self.usage.address()?.or(chosen.map(Address::Service)) {
            let reader = self.reader(&address).await?;
            return self.history(reader, address.to_string(), pods).await;
        }
        self.of_now(pods).await.map_err(|error| {
            let tried = match refused {
                None => "no Service of the cluster looks like a metrics store".to_owned(),
                Some(refused) => format!(
                    "no metrics store was found, because {refused}: bind this account to the Role headroom-metrics in the \
                     store's namespace"
                ),
            };
            anyhow!("{tried}; name the store with --prometheus, by its URL or as NAMESPACE/SERVICE:PORT; {error:#}")
        })
    }

    async fn reader(&self, address: &Address) -> anyhow::Result<Arc<StoreReader>> {
        let options = self.options(address)?;
        Ok(match address {
            Address::Url(_) => self.probe(Http::new(&options.endpoint)?, options).await?,
            Address::Service(target) => self.reach(&client(&self.target.cluster).await?, target, options).await?,
        })
    }

    /// The days to read, in whole steps.
    fn window(&self, reader: &StoreReader) -> Window {
        let (now, step) = (reader.probed_at, i64::from(reader.step_seconds));
        // VictoriaMetrics answers nothing about the last half minute, and others not all of it.
        let is_past = self.as_of.or(reader.outage_since).is_some();
        let settled = if is_past { now } else { now - UNSETTLED };
        let to = settled.div_euclid(step) * step;
        Window { from: (to - i64::from(self.usage.store.days) * DAY).div_euclid(step) * step, to }
    }

    fn options(&self, address: &Address) -> anyhow::Result<PrometheusOptions> {
        let file = self.usage.file()?;
        let step = file.step()?;
        let options = source::options(file, address, step.unwrap_or(STEP))?;
        let cpu_step_seconds = step.is_none().then_some(CPU_STEP);
        Ok(PrometheusOptions { as_of: self.as_of, cpu_step_seconds, ..options })
    }

    /// Asks the store for its metrics and labels, and once more if it fails for a moment. Ctrl-C ends that.
    async fn probe(&self, http: Http, options: PrometheusOptions) -> Result<Arc<StoreReader>, SourceError> {
        let may_pass = |error: &SourceError| matches!(error, SourceError::Temporary(_));
        let probing = RETRY.run(may_pass, || StoreReader::connect(http.clone(), options.clone()));
        tokio::select! {
            reader = probing => reader,
            () = self.stop.cancelled() => Err(SourceError::Permanent("interrupted before any usage was read".to_owned())),
        }
    }

    /// Connects to the store behind a Service. Who may not use the API server's proxy may be allowed to forward a port.
    async fn reach(
        &self,
        client: &kube::Client,
        target: &port_forward::ForwardTarget,
        options: PrometheusOptions,
    ) -> anyhow::Result<Arc<StoreReader>> {
        let http = behind_service(client.clone(), target.clone(), &options.endpoint).await?;
        let refused = match self.probe(http, options.clone()).await {
            Err(SourceError::Forbidden(text)) if !needs_port_forward(&options.endpoint) => text,
            reader => return Ok(reader?),
        };
        let forwarded = async {
            let http = port_forward::http(client.clone(), target.clone(), &options.endpoint).await?;
            self.probe(http, options).await.map_err(anyhow::Error::from)
        };
        forwarded.await.map_err(|error| {
            anyhow!(
                "{refused}; a port-forward does not reach it either: {error}; this account needs `get services/proxy` or \
                 `create pods/portforward` in namespace {}: bind it to the Role headroom-metrics there",
                target.namespace
            )
        })
    }

    async fn history(&self, reader: Arc<StoreReader>, name: String, pods: PodOwners) -> anyhow::Result<StoreHistory> {
        let mut notes = Vec::new();
        let now = reader.probed_at;
        let skew = now.abs_diff(clock::now());
        if self.as_of.or(reader.outage_since).is_none() && skew > SKEW {
            notes.push(format!(
                "the store's clock and this machine's differ by {skew} s: check both; history is read by the store's"
            ));
        }
        let window = self.window(&reader);
        if reader.names.state.is_none() {
            notes.push(
                "the store has no kube-state-metrics: pods that are gone are told apart by their names, and \
                 out-of-memory kills only as far as pods tell their last one"
                    .to_owned(),
            );
        }
        let concurrency = usize::from(self.usage.file()?.concurrency.unwrap_or(QUERIES));
        let reading =
            history::read(&reader, self.namespaces, window, pods, concurrency, self.progress, &self.stop).await;
        let is_partial = reading.is_interrupted || !reading.problems.is_empty();
        match reading.problems.first() {
            _ if !reading.histories.is_empty() => {}
            Some(problem) => bail!("nothing was read from {name}: {problem}"),
            None if reading.is_interrupted => bail!("interrupted before any usage was read"),
            None => {}
        }
        if reading.is_interrupted {
            notes.push("interrupted: the recommendations are based on what was read until then".to_owned());
        }
        let is_own = |(kind, _): &(&String, &u64)| kind.is_empty() || PodKind::named(kind).is_some();
        let (gone, others): (Vec<_>, Vec<_>) = reading.strangers.iter().partition(is_own);
        let gone: u64 = gone.into_iter().map(|(_, pods)| pods).sum();
        if gone > 0 {
            notes.push(format!(
                "usage of about {} ignored: their workloads no longer exist or were not selected",
                count_of(gone, "pod")
            ));
        }
        notes.extend(others.into_iter().map(|(kind, pods)| {
            format!(
                "usage of about {} of {kind} objects has no row here: they are gone or not selected; `kubectl headroom recommend image \
                 IMAGE` sizes them by their image",
                count_of(*pods, "pod")
            )
        }));
        if reading.histories.lack_kill_limits() {
            notes.push(
                "the store has no kube_pod_container_resource_limits for containers that were OOM-killed: they count \
                 as killed at the limit that they have now"
                    .to_owned(),
            );
        }
        notes.extend(reading.problems);
        let moment = |at: i64| jiff::Timestamp::from_second(at).ok().map(|at| at.to_string());
        let source = ReportSource {
            name,
            from: moment(window.from),
            to: moment(window.to),
            step_seconds: Some(reader.step_seconds),
            cpu_step_seconds: Some(reader.step_of(Resource::Cpu)).filter(|step| *step != reader.step_seconds),
            outage_since: reader.outage_since.and_then(moment),
            is_partial: is_partial || reader.outage_since.is_some(),
        };
        let past = past_of_quotas(&reader, self.namespaces, self.usage.quotas, &mut notes).await;
        let past = past.unwrap_or_else(|problem| {
            notes.push(format!("no peaks and trends of quotas: {problem}"));
            Vec::new()
        });
        Ok(StoreHistory { histories: reading.histories, source, notes, past })
    }

    /// One look at the metrics API.
    async fn of_now(&self, pods: PodOwners) -> anyhow::Result<StoreHistory> {
        let source = metrics_api::MetricsApi::new(client(&self.target.cluster).await?);
        let all = self.target.all_namespaces;
        let histories = history::read_instant(&source, (!all).then_some(self.namespaces), pods).await?;
        let note = "no history: the metrics API has one current sample per container, too little to base requests on; name a \
             metrics store with --prometheus, by its URL or as NAMESPACE/SERVICE:PORT";
        let source = ReportSource { name: "the metrics API".to_owned(), ..ReportSource::default() };
        Ok(StoreHistory { histories, source, notes: vec![note.to_owned()], past: Vec::new() })
    }
}

/// Reads the past of the quotas in these namespaces, and of all TenantQuotas.
async fn past_of_quotas(
    reader: &StoreReader,
    namespaces: &[String],
    wanted: PastOfQuotas,
    notes: &mut Vec<String>,
) -> Result<Vec<Past>, SourceError> {
    let (queries, mut found) = (reader.queries(), Vec::new());
    if wanted == PastOfQuotas::None {
        return Ok(found);
    }
    let jobs = reader.ledger_jobs().await?;
    let others: Vec<_> = jobs.others().map(|job| job.name.as_str()).collect();
    if wanted == PastOfQuotas::All && !others.is_empty() {
        let (job, others) = (jobs.name(), others.join("`, `"));
        notes.push(format!("TenantQuotas: their past is read from job `{job}`, and not from `{others}`"));
    }
    let ledger = jobs.matchers();
    let [of_namespace, of_tenants] = queries.quota_peaks(&ledger);
    for (question, name, is_peak) in [
        (of_namespace, "resourcequota", true),
        (queries.quota_growth(), "resourcequota", false),
        (of_tenants, "quota", true),
        (queries.tenant_quota_growth(&ledger), "quota", false),
    ] {
        let is_wanted = wanted == PastOfQuotas::All || wanted == PastOfQuotas::Growth && !is_peak;
        for row in if is_wanted { reader.api.moment(&question, None).await? } else { Vec::new() } {
            let labels = ["exported_namespace", "namespace"].map(|label| row.label(label));
            let namespace = labels.into_iter().find(|label| !label.is_empty() && name != "quota").unwrap_or_default();
            if name == "quota" || namespaces.iter().any(|of| of == namespace) {
                let key = [namespace, row.label(name), row.label("resource")].map(str::to_owned);
                add_past(&mut found, key, &row, is_peak);
            }
        }
    }
    let Some(state) = queries.names.state.as_ref().filter(|_| wanted == PastOfQuotas::All) else { return Ok(found) };
    let named: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    for part in named.chunks(TOGETHER) {
        for (place, question) in queries.requested(part, state).into_iter().enumerate() {
            for row in reader.api.moment(&question, None).await? {
                let name = match row.label("resource") {
                    "" => "pods".to_owned(),
                    resource => format!("requests.{resource}"),
                };
                add_past(
                    &mut found,
                    [row.label(&state.place.namespace).to_owned(), String::new(), name],
                    &row,
                    place < 2,
                );
            }
        }
    }
    Ok(found)
}

fn add_past(found: &mut Vec<Past>, [namespace, quota, name]: [String; 3], row: &AnswerSeries, is_peak: bool) {
    let Some(value) = row.value() else { return };
    let is_it = |past: &Past| past.namespace == namespace && past.quota == quota && past.name == name;
    let unit = Unit::of(&name, []);
    // A float saturates.
    let amount = |value: f64| match unit {
        Unit::Cores => Quantity::from_milli((value * 1_000.0).ceil() as i64),
        Unit::MiB | Unit::GiB if value > 0.0 => Quantity::from_bytes(value.ceil() as u64),
        Unit::MiB | Unit::GiB | Unit::One => Quantity::from_milli((value * 1_000.0).round() as i64),
    };
    let at = found.iter().position(is_it).unwrap_or_else(|| {
        found.push(Past { namespace, quota, name, peak: Quantity::ZERO, per_day: Quantity::ZERO });
        found.len() - 1
    });
    if let Some(past) = found.get_mut(at) {
        if is_peak {
            past.peak = amount(value).max(past.peak.clone());
        } else {
            past.per_day = amount(value * DAY as f64);
        }
    }
}
