//! The findings of `doctor` about a store: its names, and a read of the last minutes.

use headroom_usage::batch::Impossible;
use headroom_usage::sample::{Batch, Window};

use super::PrometheusOptions;
use super::absence::Absence;
use super::api::Api;
use super::names::{ContainerLabels, Labels, MetricNames, Names, Overrides, State};
use super::probe::{Probe, labels, probe};
use super::query::{self, rate_seconds};
use super::reader::StoreReader;
use crate::SourceError;
use crate::cluster_id::ClusterId;
use crate::diagnosis::{self, SourceFinding, clock, duration};
use crate::http::{Authentication, Http};

/// The ages of history that the store is asked for, in days. The policy's longest window needs 30.
const DAYS: [i64; 5] = [1, 3, 7, 14, 30];

impl Probe {
    fn findings(&self, step: u32) -> Vec<SourceFinding> {
        let mut findings = vec![
            self.metric("memory metric", &self.usage.memory, self.memory, "metrics.memory"),
            self.metric("cpu metric", &self.usage.cpu.metric, self.cpu, "metrics.cpu"),
        ];
        if let Some(storage) = self.storage {
            findings.push(self.metric("storage metric", &self.usage.storage, storage, "metrics.storage"));
        }
        if let Some(question) = self.clusters.question() {
            let advice = "one store of the collector holds one cluster";
            findings.push(SourceFinding::bad("cluster", question, advice));
        }
        if self.names().is_err() {
            return findings;
        }
        findings.push(SourceFinding::good("usage labels", labels(&self.usage.place)));
        if self.clusters.id() != ClusterId::default() {
            findings.push(SourceFinding::good("cluster", format!("one {}", self.clusters.id())));
        }
        findings.push(match (&self.names.state, &self.names.usage_image) {
            (Some(_), _) if self.state_ago > 0 => SourceFinding::doubtful(
                "image",
                format!("`{}` was seen last {} ago", self.wanted.info(), duration(self.state_ago)),
                "check that kube-state-metrics runs and is scraped; usage whose image is not known waits for it for some hours",
            ),
            (Some(State { info, place, image, .. }), _) if image != "image" => SourceFinding::good(
                "image",
                format!("`{image}` of `{info}`, {} containers, labels {}", self.in_state, labels(place)),
            ),
            (Some(State { info, .. }), _) => SourceFinding::doubtful(
                "image",
                format!("`image` of `{info}`, {} containers; no `image_spec`", self.in_state),
                "update kube-state-metrics to 2.0 or later: `image` is what the runtime made of the image, and pods may call it otherwise",
            ),
            (None, Some(label)) => SourceFinding::doubtful(
                "image",
                format!("only the label `{label}` of the usage series, {} containers", self.with_image),
                "scrape kube-state-metrics: it has the image as pods name it, also of init containers, and OOM kills",
            ),
            (None, None) => SourceFinding::bad(
                "image",
                format!("no `{}`, and no label with an image on the usage series", self.wanted.info()),
                "`recommend` needs no images; to collect the history of images, scrape kube-state-metrics, or name the metric as `metrics.info` in --source",
            ),
        });
        findings.push(match self.scrape_seconds {
            None => SourceFinding::doubtful(
                "sample interval",
                "unknown: no samples in the last 10 minutes",
                "check that the kubelets are being scraped now",
            ),
            Some(scrape) => {
                let rate = rate_seconds(step, scrape);
                let found = format!("{scrape} s; cpu is averaged over {rate} s");
                if rate > step && !self.usage.cpu.is_rate {
                    let enough = step / 2;
                    let advice =
                        format!("scrape the kubelets at least every {enough} s to capture CPU peaks of {step} s");
                    SourceFinding::doubtful("sample interval", found, advice)
                } else {
                    SourceFinding::good("sample interval", found)
                }
            }
        });
        findings
    }

    /// The jobs whose series are not read, and whether they claim the containers of the job that is.
    async fn contested(&self, api: &Api, options: &PrometheusOptions) -> Result<Vec<SourceFinding>, SourceError> {
        let metric = if self.memory > 0.0 { &self.usage.memory } else { &self.usage.cpu.metric };
        let mut findings = Vec::new();
        let state = self.names.state.as_ref().map(|state| (&state.info, &state.place));
        let usage = Some((metric, &self.usage.place));
        for (jobs, metric) in [(&self.usage_jobs, usage), (&self.state_jobs, state)] {
            let others: Vec<String> = jobs.others().map(|job| format!("`{}`", job.name)).collect();
            let Some((metric, place)) = metric.filter(|_| !others.is_empty()) else { continue };
            let question = query::count_of_contested(metric, place, &options.matchers);
            let contested = api.number(&question, None).await?.unwrap_or(0.0);
            let found = format!(
                "`{metric}` is read from job `{}`, and not from {}; {contested} containers have series of several jobs",
                jobs.name(),
                others.join(", ")
            );
            let advice = if contested > 0.0 {
                "an exporter may claim containers that are not its own: set `overrideHonorLabels: true` in the Prometheus resource, or name the right jobs as `matchers: job=~\"…\"` in --source"
            } else {
                "if they scrape other nodes of this cluster, name all jobs as `matchers: job=~\"…|…\"` in --source"
            };
            findings.push(SourceFinding::doubtful("scrape jobs", found, advice));
        }
        Ok(findings)
    }

    fn metric(&self, subject: &'static str, metric: &str, containers: f64, field: &str) -> SourceFinding {
        if containers > 0.0 {
            return SourceFinding::good(subject, format!("`{metric}`, {containers} containers"));
        }
        let found = match &self.absence {
            Some(Absence::Ended { .. } | Absence::Matchers(_)) => format!("no current series of `{metric}`"),
            _ => {
                let tried = self.wanted.usage_places().iter().map(labels).collect::<Vec<_>>().join(" or ");
                format!("no series of `{metric}` with {tried}")
            }
        };
        let advice = match &self.absence {
            None => format!("scrape the kubelets' /metrics/cadvisor, or name the metric as `{field}` in --source"),
            Some(absence) => absence.to_string(),
        };
        if self.memory + self.cpu > 0.0 {
            SourceFinding::doubtful(subject, found, advice)
        } else {
            SourceFinding::bad(subject, found, advice)
        }
    }
}

/// Detects what the store calls its metrics and labels.
pub async fn detect(http: Http, options: &PrometheusOptions) -> Result<Overrides, SourceError> {
    let api = Api::new(http, options);
    let mut probed = probe(&api, options).await?;
    if let Some(Absence::Named(known)) = &probed.absence {
        let options = PrometheusOptions { names: known.names(&options.names), ..options.clone() };
        probed = probe(&api, &options).await?;
    }
    let Names { cpu, memory, storage, usage, usage_image, state, .. } = probed.names()?;
    let labels = |place: &ContainerLabels, image| {
        let ContainerLabels { namespace, pod, container } = place.clone();
        Labels { namespace: Some(namespace), pod: Some(pod), container: Some(container), image }
    };
    Ok(Overrides {
        labels: labels(&usage, usage_image),
        info_labels: state.as_ref().map(|state| labels(&state.place, Some(state.image.clone()))).unwrap_or_default(),
        metrics: MetricNames {
            cpu_is_rate: cpu.as_ref().is_some_and(|cpu| cpu.is_rate),
            cpu: cpu.map(|cpu| cpu.metric),
            memory,
            storage,
            info: state.map(|state| state.info),
        },
    })
}

pub async fn diagnose(
    http: Http,
    options: &PrometheusOptions,
    our_clock: i64,
) -> Result<Vec<SourceFinding>, SourceError> {
    let api = Api::new(http, options);
    let mut findings = Vec::new();
    if let Authentication::Cloud(identity) = &options.endpoint.authentication {
        findings.push(SourceFinding::good("identity", identity.describe()));
    }
    findings.push(clock(our_clock, api.now().await?));
    let probed = probe(&api, options).await?;
    findings.extend(probed.findings(options.step_seconds));
    findings.extend(probed.contested(&api, options).await?);
    let Ok(store) = StoreReader::new(api, &probed, options) else { return Ok(findings) };
    findings.extend(store.tells_kills().await?);
    findings.extend(store.matched().await?);
    findings.push(store.memory_of_the_past(&probed).await?);
    Ok(findings)
}

impl StoreReader {
    /// Checks that OOM kills can be read. None without kube-state-metrics.
    async fn tells_kills(&self) -> Result<Option<SourceFinding>, SourceError> {
        let Some(state) = &self.names.state else { return Ok(None) };
        let matchers = self.matchers.clone().and_all(&state.job);
        let question = query::count_of_containers(query::RESTARTS, &state.place, None, &matchers);
        let restarts = self.api.number(&question, None).await?;
        Ok(Some(match restarts {
            Some(containers) => {
                SourceFinding::good("oom kills", format!("`{}`, {containers} containers", query::RESTARTS))
            }
            None => SourceFinding::doubtful(
                "oom kills",
                format!("unknown: no `{}`", query::RESTARTS),
                "expose it from kube-state-metrics, and `kube_pod_container_status_last_terminated_reason`",
            ),
        }))
    }

    /// Reads the last ten minutes of every namespace as `collect` would, and counts.
    async fn matched(&self) -> Result<Vec<SourceFinding>, SourceError> {
        let step = i64::from(self.step_seconds);
        let to = self.api.now().await?.div_euclid(step) * step;
        let window = Window { from: to - (600_i64.div_euclid(step).max(1)) * step, to };
        let (mut matched, mut unmatched, mut samples, mut example) = (0, 0, 0, None);
        let mut impossible = Impossible::default();
        for namespace in self.namespaces(window).await? {
            let images = self.read_images(&[&namespace], window).await?;
            let notes = self
                .read_samples(&[&namespace], window, &images, &mut |batch| {
                    if let Batch::Usage(series) = batch {
                        samples += series.iter().map(|series| series.samples.len()).sum::<usize>();
                        series.iter().for_each(|series| impossible.check_series(series));
                    }
                })
                .await?;
            matched += notes.matched.len();
            unmatched += notes.unmatched.len();
            example = example.or_else(|| {
                notes.unmatched.into_iter().next().map(|of| format!("`{}` of `{namespace}/{}`", of.container, of.pod))
            });
        }
        let found = format!(
            "{matched} of {} containers with usage in the last 10 minutes, {samples} samples",
            matched + unmatched
        );
        let advice =
            "check that kube-state-metrics sees all namespaces, and that both are scraped with the same cluster label";
        let matched =
            diagnosis::matched(matched, found, example, "check that the kubelets are being scraped now", advice);
        Ok([matched].into_iter().chain(diagnosis::impossible(&impossible)).collect())
    }

    /// Measures the age of the history. It is that of the store as a whole: a young cluster in an old
    /// store has no past either.
    async fn memory_of_the_past(&self, probed: &Probe) -> Result<SourceFinding, SourceError> {
        let now = self.api.now().await?;
        let metric = self.names.memory.as_ref().unwrap_or(&probed.usage.cpu.metric);
        let matchers = self.queries().usage_matchers(metric);
        let question = query::count_of_containers(metric, &self.names.usage, None, &matchers);
        let mut reaches = 0;
        for days in DAYS {
            if self.api.number(&question, Some(now - days * 86_400 + 300)).await?.is_some() {
                reaches = days;
            }
        }
        let longest = DAYS.last().copied().unwrap_or_default();
        let found = match reaches {
            0 => format!("less than {}", duration(86_400)),
            days => format!("at least {}", duration(days * 86_400)),
        };
        Ok(diagnosis::history(found, reaches == longest))
    }
}
