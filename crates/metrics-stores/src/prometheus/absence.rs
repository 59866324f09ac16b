//! Explains why a store shows no usage under the usual names. It asks only where none was found, so the usual probe costs no more.

use std::fmt;

use headroom_admission::timestamp::Timestamp;
use headroom_usage::sample::Window;

use super::PrometheusOptions;
use super::answer::AnswerSeries;
use super::api::Api;
use super::names::{self, ContainerLabels, Labels, MetricNames, Overrides, PLACE};
use super::query::{self, PromQl};
use super::selector::Matchers;
use crate::SourceError;
use crate::diagnosis::duration;

/// The ages at which usage is searched for that has ended, in seconds.
const AGES: [i64; 6] = [900, 6 * 3_600, 86_400, 3 * 86_400, 8 * 86_400, 30 * 86_400];
/// Memory with the page cache, which some exporters have in place of the working set.
pub const USAGE_BYTES: &str = "container_memory_usage_bytes";

/// The reason why no usage was found.
#[derive(Debug, Clone)]
pub enum Absence {
    /// Without the user's matchers there is some.
    Matchers(Matchers),
    /// The last samples, and the store's time now, in unix seconds.
    Ended {
        at: i64,
        now: i64,
    },
    /// It has names of other exporters.
    Named(&'static UnsearchedNames),
    /// There is CPU, and memory with the page cache of so many containers.
    PageCache(f64),
    /// The series are of pods; no label names a container.
    OnlyPods,
    Unknown,
}

/// Names that are not looked for unless a user writes them: usage under them is less exact, or costs more to find.
#[derive(Debug)]
pub struct UnsearchedNames {
    what: &'static str,
    cpu: &'static str,
    cpu_is_rate: bool,
    memory: &'static str,
    place: [&'static str; 3],
}

const OTEL: [&str; 3] = ["k8s_namespace_name", "k8s_pod_name", "k8s_container_name"];
const RULE_MEMORY: &str = "node_namespace_pod_container:container_memory_working_set_bytes";

const DOCKER: [&str; 3] = [
    "container_label_io_kubernetes_pod_namespace",
    "container_label_io_kubernetes_pod_name",
    "container_label_io_kubernetes_container_name",
];
const MIXIN: &str = "the recording rules of kubernetes-mixin";
const KUBELETSTATS: &str = "OpenTelemetry's kubeletstats";

static UNSEARCHED: [UnsearchedNames; 6] = [
    named(MIXIN, "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_rate5m", true, RULE_MEMORY, PLACE),
    named(MIXIN, "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate", true, RULE_MEMORY, PLACE),
    named("the system metrics of GKE", names::GOOGLE_CPU, false, names::GOOGLE_MEMORY, names::GOOGLE_PLACE),
    named(KUBELETSTATS, "container_cpu_time_seconds_total", false, names::MEMORY, OTEL),
    named(KUBELETSTATS, "container_cpu_usage", true, names::MEMORY, OTEL),
    named("a cAdvisor with the labels of Docker", names::CPU, false, names::MEMORY, DOCKER),
];

const fn named(
    what: &'static str,
    cpu: &'static str,
    cpu_is_rate: bool,
    memory: &'static str,
    place: [&'static str; 3],
) -> UnsearchedNames {
    UnsearchedNames { what, cpu, cpu_is_rate, memory, place }
}

impl UnsearchedNames {
    /// The names as a user would write them.
    pub fn names(&self, written: &Overrides) -> Overrides {
        let [namespace, pod, container] = self.place.map(|label| Some(label.to_owned()));
        Overrides {
            metrics: MetricNames {
                cpu: Some(self.cpu.to_owned()),
                cpu_is_rate: self.cpu_is_rate,
                memory: Some(self.memory.to_owned()),
                ..written.metrics.clone()
            },
            labels: Labels { namespace, pod, container, image: written.labels.image.clone() },
            info_labels: written.info_labels.clone(),
        }
    }
}

impl Absence {
    /// `counts` are questions that found nothing: how many containers each of the usual metrics has.
    pub async fn find(
        api: &Api,
        options: &PrometheusOptions,
        now: i64,
        counts: impl Fn(&Matchers) -> Vec<PromQl>,
    ) -> Result<Self, SourceError> {
        let matchers = &options.matchers;
        let mut questions = vec![query::count_of_pods(&options.names.memory(), matchers)];
        let cpu =
            |of: &UnsearchedNames| query::count_of_containers(of.cpu, &ContainerLabels::of(of.place), None, matchers);
        questions.extend(UNSEARCHED.iter().map(cpu));
        if !matchers.is_empty() {
            questions.extend(counts(&Matchers::default()));
        }
        let answers = api.moments(&questions, None).await?;
        let mut there = answers.iter().map(|rows| rows.first().and_then(AnswerSeries::value).is_some());
        let has_pods = there.next().unwrap_or(false);
        let found = UNSEARCHED.iter().zip(&mut there).find_map(|(names, is_there)| is_there.then_some(names));
        if there.any(|is_there| is_there) {
            return Ok(Self::Matchers(matchers.clone()));
        }
        if let Some(names) = found {
            return Ok(Self::Named(names));
        }
        if has_pods {
            return Ok(Self::OnlyPods);
        }
        let counts = counts(matchers);
        let mut later = 0;
        for age in AGES {
            let answers = api.moments(&counts, Some(now - age)).await?;
            if let Some((_, question)) = answers.iter().zip(&counts).find(|(rows, _)| !rows.is_empty()) {
                return Ok(Self::Ended { at: last_answer(api, question, now - age, now - later).await?, now });
            }
            later = age;
        }
        Ok(Self::Unknown)
    }
}

/// The last moment with an answer, in unix seconds, of a span that begins with one.
async fn last_answer(api: &Api, question: &PromQl, from: i64, to: i64) -> Result<i64, SourceError> {
    let step = (to - from).div_euclid(200).max(60);
    let mut last = from;
    let mut take = |row: AnswerSeries| last = row.points().last().map_or(last, |(time, _)| last.max(*time));
    api.range(question, Window { from, to }, u32::try_from(step).unwrap_or(u32::MAX), &mut take).await?;
    Ok(last)
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matchers(matchers) => {
                write!(f, "no usage matches `{matchers}`, and there is some without it: change `matchers` in --source")
            }
            Self::Ended { at, now } => {
                write!(f, "the newest usage is {} old: check that the kubelets are being scraped", duration(now - at))?;
                if now - at < AGES[0] {
                    f.write_str(", and that samples, also those of recording rules, are at most 4 minutes apart")?;
                }
                match Timestamp::from_unix_seconds(*at) {
                    Some(at) => write!(
                        f,
                        "; `kubectl headroom recommend` reads what was there then, with `estimates: {{replayTime: \"{at}\"}}` in \
                         the file of --settings"
                    ),
                    None => Ok(()),
                }
            }
            Self::Named(UnsearchedNames { what, cpu, place: [.., container], .. }) => write!(
                f,
                "usage is there as `{cpu}` with the label `{container}` ({what}): \
                 `kubectl headroom doctor … -o source > source.yaml` writes the names, for --source"
            ),
            Self::PageCache(containers) => write!(
                f,
                "`{USAGE_BYTES}` is there, {containers} containers: named as `metrics.memory` in --source it is read, but it \
                 counts the page cache too, so requests come out larger"
            ),
            Self::OnlyPods => f.write_str(
                "the usage of pods is there, without a label that names the container: some runtimes, such as Docker by \
                 cri-dockerd, tell cAdvisor of no containers; scrape the kubelets' /metrics/resource",
            ),
            Self::Unknown => f.write_str(
                "scrape the kubelets' /metrics/cadvisor, or name the metrics and labels in --source; \
                 `kubectl headroom doctor` tells what was tried",
            ),
        }
    }
}
