//! Finds out what a store calls things, by counting the series of each candidate name. What is missing is not an
//! error here: `doctor` wants to tell all of it at once.

use crate::source::examination::{Finding, clock, duration};
use crate::source::{SourceError, Window};

use super::Options;
use super::api::Api;
use super::images::Images;
use super::names::{Cpu, Names, Overrides, Place, State};
use super::query::{self, rate_seconds};
use super::reader::Reader;
use crate::source::http::Http;

/// How far back the store is asked whether it remembers, in days. 30 is what the policy's longest window needs.
const DAYS: [i64; 3] = [1, 7, 30];

/// What a store has.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    wanted: Overrides,
    store: String,
    cpu: Counted<Cpu>,
    memory: Counted<String>,
    usage: Place,
    usage_image: Counted<String>,
    state: Option<Counted<State>>,
    /// The distance of two samples in the store, if it can be told.
    scrape_seconds: Option<u32>,
    metrics_ql: bool,
}

/// A name, and how many containers have series of it.
#[derive(Debug, Clone)]
struct Counted<T> {
    name: T,
    containers: f64,
}

impl<T> Counted<T> {
    fn found(&self) -> Option<&T> {
        (self.containers > 0.0).then_some(&self.name)
    }
}

/// Asks the store for each name in turn until one has series.
pub(super) async fn probe(api: &Api, options: &Options) -> Result<Probe, SourceError> {
    let (wanted, matchers) = (&options.names, options.matchers.as_str());
    let count = async |metric: &str, place: &Place, image: Option<&str>| {
        let question = query::count_of_containers(metric, place, image, matchers);
        Ok::<f64, SourceError>(api.number(&question, None).await?.unwrap_or(0.0))
    };

    let mut memory = Counted { name: wanted.memory(), containers: 0.0 };
    let mut cpu = Counted { name: wanted.cpu(), containers: 0.0 };
    let mut usage = None;
    for place in wanted.usage_places() {
        memory.containers = count(&memory.name, &place, None).await?;
        cpu.containers = count(&cpu.name.metric, &place, None).await?;
        usage = Some(place);
        if memory.containers + cpu.containers > 0.0 {
            break;
        }
    }
    let usage = usage.ok_or_else(|| SourceError::Permanent("no label names to try".to_owned()))?;
    let metric = if memory.containers > 0.0 { &memory.name } else { &cpu.name.metric };

    let mut usage_image = Counted { name: String::new(), containers: 0.0 };
    for name in wanted.usage_images() {
        if usage_image.containers == 0.0 {
            usage_image = Counted { containers: count(metric, &usage, Some(&name)).await?, name };
        }
    }
    let mut state = None;
    'found: for place in wanted.state_places() {
        for image in wanted.state_images() {
            let containers = count(&wanted.info(), &place, Some(&image)).await?;
            if containers > 0.0 {
                state = Some(Counted { name: State { info: wanted.info(), place, image }, containers });
                break 'found;
            }
        }
    }
    let scrape_seconds = scrape_seconds(api, metric, &usage, matchers).await?;
    let metrics_ql = match api.number(query::METRICS_QL, None).await {
        Ok(time) => time.is_some(),
        Err(SourceError::Temporary(text)) => return Err(SourceError::Temporary(text)),
        Err(_) => false, // whatever status it is refused with
    };
    let store = api.http.name().to_owned();
    Ok(Probe { wanted: wanted.clone(), store, cpu, memory, usage, usage_image, state, scrape_seconds, metrics_ql })
}

impl Probe {
    /// The names to read with; an error if there is nothing to read.
    pub fn names(&self) -> Result<Names, SourceError> {
        let (cpu, memory) = (self.cpu.found().cloned(), self.memory.found().cloned());
        if cpu.is_none() && memory.is_none() {
            return Err(SourceError::Permanent(format!(
                "`{}` has no container in `{}` or `{}` under the labels {}: is cAdvisor (the kubelets) scraped, and are the metrics called so? \
                 names can be set by hand, and `kubectl headroom doctor` tells what was tried",
                self.store,
                self.memory.name,
                self.cpu.name.metric,
                self.wanted.usage_places().iter().map(labels).collect::<Vec<_>>().join(" or ")
            )));
        }
        Ok(Names {
            cpu,
            memory,
            usage: self.usage.clone(),
            usage_image: self.usage_image.found().cloned(),
            state: self.state.as_ref().map(|state| state.name.clone()),
            scrape_seconds: self.scrape(),
            metrics_ql: self.metrics_ql,
        })
    }

    /// A minute, Prometheus' own default, where the store is too young to tell.
    fn scrape(&self) -> u32 {
        self.scrape_seconds.unwrap_or(60)
    }

    fn findings(&self, step: u32) -> Vec<Finding> {
        let mut findings = vec![
            self.metric("memory metric", &self.memory.name, self.memory.containers, "--memory-metric"),
            self.metric("cpu metric", &self.cpu.name.metric, self.cpu.containers, "--cpu-metric"),
        ];
        if self.names().is_err() {
            return findings;
        }
        findings.push(Finding::good("usage labels", labels(&self.usage)));
        findings.push(match &self.state {
            Some(Counted { name, containers }) if name.image != "image" => Finding::good(
                "image",
                format!("`{}` of `{}`, {containers} containers, labels {}", name.image, name.info, labels(&name.place)),
            ),
            Some(Counted { name, containers }) => Finding::doubtful(
                "image",
                format!("`image` of `{}`, {containers} containers; no `image_spec`", name.info),
                "update kube-state-metrics to 2.0 or later: `image` is what the runtime made of the image, and pods may call it otherwise",
            ),
            None if self.usage_image.containers > 0.0 => Finding::doubtful(
                "image",
                format!("only the label `{}` of the usage series, {} containers", self.usage_image.name, self.usage_image.containers),
                "scrape kube-state-metrics: it tells the image as pods name it, init containers' too, and OOM kills",
            ),
            None => Finding::bad(
                "image",
                format!("no `{}`, and no label with an image on the usage series", self.wanted.info()),
                "scrape kube-state-metrics, or name the metric with --info-metric: without an image there is no history",
            ),
        });
        findings.push(match self.scrape_seconds {
            None => Finding::doubtful(
                "sample interval",
                "cannot be told: nothing in the last 10 minutes",
                "check that the kubelets are being scraped now",
            ),
            Some(_) => {
                let (scrape, rate) = (self.scrape(), rate_seconds(step, self.scrape()));
                if rate > step && !self.cpu.name.is_rate {
                    Finding::doubtful(
                        "sample interval",
                        format!("{scrape} s; cpu is averaged over {rate} s"),
                        format!("scrape the kubelets every {} s or oftener to see cpu peaks of {step} s", step / 2),
                    )
                } else {
                    Finding::good("sample interval", format!("{scrape} s; cpu is averaged over {rate} s"))
                }
            }
        });
        findings
    }

    fn metric(&self, subject: &'static str, metric: &str, containers: f64, option: &str) -> Finding {
        if containers > 0.0 {
            return Finding::good(subject, format!("`{metric}`, {containers} containers"));
        }
        let tried = self.wanted.usage_places().iter().map(labels).collect::<Vec<_>>().join(" or ");
        let found = format!("no series of `{metric}` with {tried}");
        let advice = format!("scrape the kubelets' /metrics/cadvisor, or name the metric with {option}");
        if self.memory.containers + self.cpu.containers > 0.0 {
            Finding::doubtful(subject, found, advice)
        } else {
            Finding::bad(subject, found, advice)
        }
    }
}

/// The distance of a series' samples, if the store shows them.
async fn scrape_seconds(api: &Api, metric: &str, place: &Place, matchers: &str) -> Result<Option<u32>, SourceError> {
    let steadiest = api.moment(&query::steadiest(metric, place, matchers), None).await?;
    let Some(series) = steadiest.first() else { return Ok(None) };
    match api.moment(&query::stored_samples(metric, series.labels()), None).await {
        Ok(stored) => Ok(stored.first().and_then(|row| usual_distance(row.points()))),
        Err(SourceError::Temporary(text)) => Err(SourceError::Temporary(text)),
        Err(_) => Ok(None), // not every store shows what it stores
    }
}

/// The median, because a scrape may be missing.
fn usual_distance(points: &[(i64, f64)]) -> Option<u32> {
    let mut distances: Vec<i64> =
        points.windows(2).filter_map(|pair| pair.last()?.0.checked_sub(pair.first()?.0)).collect();
    distances.sort_unstable();
    let median = *distances.get(distances.len() / 2)?;
    u32::try_from(median.clamp(1, 600)).ok()
}

fn labels(place: &Place) -> String {
    format!("`{}`, `{}`, `{}`", place.namespace, place.pod, place.container)
}

/// Everything `doctor` has to say about a store.
pub async fn examine(http: Http, options: &Options, our_clock: i64) -> Result<Vec<Finding>, SourceError> {
    let api = Api { http, accept_partial: options.accept_partial };
    let mut findings = vec![clock(our_clock, api.now().await?)];
    let probed = probe(&api, options).await?;
    findings.extend(probed.findings(options.step_seconds));
    let Ok(names) = probed.names() else { return Ok(findings) };
    let store = Reader::new(api, names, options);
    findings.extend(store.tells_kills().await?);
    findings.push(store.matched().await?);
    findings.push(store.memory_of_the_past(&probed).await?);
    Ok(findings)
}

impl Reader {
    /// Whether OOM kills can be told; nothing to say where kube-state-metrics is missing altogether.
    async fn tells_kills(&self) -> Result<Option<Finding>, SourceError> {
        let Some(state) = &self.names.state else { return Ok(None) };
        let restarts = self.api.number(&self.queries().count_of_restarts(state), None).await?;
        Ok(Some(match restarts {
            Some(containers) => Finding::good("oom kills", format!("`{}`, {containers} containers", query::RESTARTS)),
            None => Finding::doubtful(
                "oom kills",
                format!("cannot be told: no `{}`", query::RESTARTS),
                "let kube-state-metrics tell it, and `kube_pod_container_status_last_terminated_reason`",
            ),
        }))
    }

    /// Reads the last ten minutes of every namespace as `collect` would, and counts.
    async fn matched(&self) -> Result<Finding, SourceError> {
        let step = i64::from(self.step_seconds);
        let to = self.api.now().await?.div_euclid(step) * step;
        let window = Window { from: to - (600_i64.div_euclid(step).max(1)) * step, to };
        let (mut matched, mut unmatched, mut samples, mut example) = (0, 0, 0, None);
        for namespace in self.namespaces(window).await? {
            let images: Images = self.read_images(&namespace, window).await?;
            let notes = self
                .read_usage(&namespace, window, &images, &mut |batch| {
                    if let crate::source::Batch::Usage(series) = batch {
                        samples += series.iter().map(|series| series.samples.len()).sum::<usize>();
                    }
                })
                .await?;
            matched += notes.matched.len();
            unmatched += notes.unmatched.len();
            example = example.or_else(|| {
                notes
                    .unmatched
                    .into_iter()
                    .next()
                    .map(|(pod, container)| format!("`{container}` of `{namespace}/{pod}`"))
            });
        }
        let found = format!(
            "{matched} of {} containers with usage in the last 10 minutes, {samples} samples",
            matched + unmatched
        );
        Ok(match example {
            None if matched > 0 => Finding::good("matched images", found),
            None => Finding::bad("matched images", found, "check that the kubelets are being scraped now"),
            Some(example) => {
                let advice = "check that kube-state-metrics sees all namespaces, and that both are scraped with the same cluster label";
                let found = format!("{found}; none for {example}");
                if matched > 0 {
                    Finding::doubtful("matched images", found, advice)
                } else {
                    Finding::bad("matched images", found, advice)
                }
            }
        })
    }

    /// Whether there is something to read that far back. Answers for the store as a whole: a young cluster in an old
    /// store has no past either.
    async fn memory_of_the_past(&self, probed: &Probe) -> Result<Finding, SourceError> {
        let now = self.api.now().await?;
        let metric = self.names.memory.as_ref().unwrap_or(&probed.cpu.name.metric);
        let question = query::count_of_containers(metric, &self.names.usage, None, &self.matchers);
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
        Ok(if reaches == longest {
            Finding::good("history", found)
        } else {
            Finding::doubtful(
                "history",
                found,
                "nothing to do if the store or cluster is young, since what is collected is kept; else raise the store's retention",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_scrape_does_not_change_the_distance() {
        let check = |times: &[i64], expected| {
            let points: Vec<_> = times.iter().map(|&time| (time, 0.0)).collect();
            assert_eq!(usual_distance(&points), expected, "{times:?}");
        };
        check(&[0, 15, 30, 60, 75, 90], Some(15));
        check(&[0, 31, 60], Some(31));
        check(&[0], None);
        check(&[], None);
    }
}
