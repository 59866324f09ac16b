//! Prometheus, and everything that speaks its API: Thanos, VictoriaMetrics, Mimir, Google Managed Prometheus.
//!
//! `query` builds the questions and `answer` reads the answers, both pure; between them is one send, here. Usage comes
//! from cAdvisor's series, images and OOM kills from kube-state-metrics'; `names` and `probe` know what they are called
//! at a given store. A range that is too much for the store is reported as such, and the pipeline asks for less.

mod answer;
mod images;
mod names;
mod oom;
mod probe;
mod query;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use self::answer::Row;
use self::images::Images;
use self::names::{Names, State};
use self::query::Queries;
use super::framing::{Pieces, Shape};
use super::http::{Endpoint, Http};
use super::{Batch, Container, OomKill, Reach, Resource, Series, Sink, Source, SourceError, Window};

pub use self::names::Overrides;
pub use self::probe::examine;

/// Prometheus refuses to answer with more points than this in one series.
const MOST_POINTS: i64 = 11_000;

/// How finely a window is searched for namespaces.
const LISTING_SECONDS: u32 = 300;

/// How to use a store that speaks Prometheus' API.
#[derive(Clone)]
pub struct Options {
    pub endpoint: Endpoint,
    pub names: Overrides,
    /// Put into every selector, such as `cluster="prod"` where several clusters share a store.
    pub matchers: String,
    pub step_seconds: u32,
    /// Take an answer in which a part of the store did not take part. What it misses is missed for ever.
    pub accept_partial: bool,
}

impl Options {
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, names: Overrides::default(), matchers: String::new(), step_seconds: 60, accept_partial: false }
    }
}

/// A store that speaks Prometheus' API. What it calls things is found out when it is first read, and again whenever
/// it is asked for its time, with which each run begins: kube-state-metrics may come and go.
pub struct Prometheus {
    api: Api,
    options: Options,
    reader: Mutex<Option<Arc<Reader>>>,
}

/// A store whose names are known.
struct Reader {
    api: Api,
    names: Names,
    matchers: String,
    step_seconds: u32,
}

/// The two questions of the API.
#[derive(Clone)]
struct Api {
    http: Http,
    accept_partial: bool,
}

/// What became of the series of a read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Notes {
    /// Containers whose image is known.
    pub matched: BTreeSet<(String, String)>,
    /// Containers whose image nobody tells.
    pub unmatched: BTreeSet<(String, String)>,
}

impl Prometheus {
    /// Asks nothing yet.
    pub fn new(http: Http, options: Options) -> Self {
        let api = Api { http, accept_partial: options.accept_partial };
        Self { api, options, reader: Mutex::default() }
    }

    /// Asks at once what the store calls things. Fails if it has neither CPU nor memory of any container.
    pub async fn connect(options: &Options) -> Result<Self, SourceError> {
        let store = Self::new(Http::new(&options.endpoint)?, options.clone());
        store.probe().await?;
        Ok(store)
    }

    async fn probe(&self) -> Result<Arc<Reader>, SourceError> {
        let names = probe::probe(&self.api, &self.options).await?.names()?;
        let reader = Arc::new(Reader::new(self.api.clone(), names, &self.options));
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader.clone());
        Ok(reader)
    }

    async fn reader(&self) -> Result<Arc<Reader>, SourceError> {
        let known = self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(reader) => Ok(reader),
            None => self.probe().await,
        }
    }
}

impl Reader {
    fn new(api: Api, names: Names, options: &Options) -> Self {
        Self { api, names, matchers: options.matchers.clone(), step_seconds: options.step_seconds.max(1) }
    }

    fn queries(&self) -> Queries<'_> {
        Queries { names: &self.names, matchers: &self.matchers, step_seconds: self.step_seconds }
    }

    /// Asked of the series themselves, every five minutes of the window: the API that lists a label's values is not
    /// to be had everywhere, and knows no clock. All namespaces at once may be too much, so that is halved here.
    async fn namespaces(&self, window: Window) -> Result<Vec<String>, SourceError> {
        let mut found = BTreeSet::new();
        let mut unasked = vec![window];
        while let Some(span) = unasked.pop() {
            match self.namespaces_in(span, &mut found).await {
                Err(SourceError::Overloaded(_)) if span.seconds() >= 2 * i64::from(LISTING_SECONDS) => {
                    let middle = span.from + span.seconds().div_euclid(2);
                    unasked.push(Window { from: middle, to: span.to });
                    unasked.push(Window { from: span.from, to: middle });
                }
                asked => asked?,
            }
        }
        Ok(found.into_iter().collect())
    }

    async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let images = self.read_images(namespace, window).await?;
        let notes = self.read_usage(namespace, window, &images, &mut *sink).await?;
        if let Some((pod, container)) = notes.unmatched.first() {
            tracing::warn!(
                namespace,
                containers = notes.unmatched.len(),
                "the image of some containers is not known, so their usage is left out; one is `{container}` of `{pod}`"
            );
        }
        if let Some(state) = &self.names.state {
            let kills = self.read_oom_kills(namespace, state, window, &images).await?;
            if !kills.is_empty() {
                sink(Batch::OomKills(kills));
            }
        }
        Ok(())
    }

    /// Reads usage, and says of how many containers the image is known.
    async fn read_usage(
        &self,
        namespace: &str,
        window: Window,
        images: &Images,
        sink: &mut (dyn FnMut(Batch) + Send),
    ) -> Result<Notes, SourceError> {
        let mut notes = Notes::default();
        let queries = self.queries();
        // Where kube-state-metrics tells nothing at all, the usage series have to name their image themselves.
        let by_label = images.is_empty();
        let cpu = self.names.cpu.as_ref().map(|cpu| (Resource::Cpu, queries.cpu(namespace, cpu, by_label)));
        let memory =
            self.names.memory.as_ref().map(|metric| (Resource::Memory, queries.memory(namespace, metric, by_label)));
        for (resource, question) in [cpu, memory].into_iter().flatten() {
            self.range(&question, window, &mut |row| {
                let usage = &self.names.usage;
                let (pod, name) = (row.label(&usage.pod), row.label(&usage.container));
                let by_image = if by_label {
                    images::of_usage(&row, self.names.usage_image.as_deref())
                        .map(|image| (image, images::samples(&row, resource)))
                        .into_iter()
                        .collect()
                } else {
                    images.split(pod, name, row.samples(resource))
                };
                let key = (pod.to_owned(), name.to_owned());
                if by_image.is_empty() {
                    notes.unmatched.insert(key);
                } else {
                    notes.matched.insert(key);
                }
                let series = by_image.into_iter().map(|(image, samples)| Series {
                    container: Container {
                        namespace: namespace.to_owned(),
                        pod: pod.to_owned(),
                        name: name.to_owned(),
                        image: image.to_owned(),
                    },
                    resource,
                    samples,
                    step_seconds: self.step_seconds,
                });
                sink(Batch::Usage(series.collect()));
                Ok(())
            })
            .await?;
        }
        Ok(notes)
    }

    async fn namespaces_in(&self, window: Window, found: &mut BTreeSet<String>) -> Result<(), SourceError> {
        let label = &self.names.usage.namespace;
        let metric = self.names.memory.as_ref().or(self.names.cpu.as_ref().map(|cpu| &cpu.metric));
        let Some(metric) = metric else { return Ok(()) };
        let question =
            format!("group by ({label}) (last_over_time({}[{LISTING_SECONDS}s]))", self.queries().everywhere(metric));
        // Each step looks back, so all are one later than what they look at.
        let step = i64::from(LISTING_SECONDS);
        let steps = (window.seconds() + step - 1).div_euclid(step);
        let later = Window { from: window.from + step, to: window.from + step * (steps + 1) };
        self.api
            .range(&question, later, LISTING_SECONDS, &mut |row| {
                found.insert(row.label(label).to_owned());
                Ok(())
            })
            .await
    }

    async fn read_images(&self, namespace: &str, window: Window) -> Result<Images, SourceError> {
        let mut images = Images::default();
        if let Some(state) = &self.names.state {
            let question = self.queries().images(namespace, state);
            self.range(&question, window, &mut |row| {
                images.add(&row, state);
                Ok(())
            })
            .await?;
        }
        Ok(images)
    }

    /// Most namespaces have no kill, and cost two questions; the rest is asked of the pods that have one.
    async fn read_oom_kills(
        &self,
        namespace: &str,
        state: &State,
        window: Window,
        images: &Images,
    ) -> Result<Vec<OomKill>, SourceError> {
        let queries = self.queries();
        let step = i64::from(self.step_seconds);
        let look_back = oom::LOOK_BACK_SECONDS.div_euclid(step).max(1) * step;
        let wide = Window { from: window.from - look_back, to: window.to };
        let timelines = async |question: String| {
            let mut found = oom::Timelines::default();
            self.range(&question, wide, &mut |row| {
                found.add(&row, state);
                Ok(())
            })
            .await?;
            Ok::<_, SourceError>(found)
        };
        let mut states = oom::States {
            killed_and_restarted: timelines(queries.killed_and_restarted(namespace, state)).await?,
            killed_for_good: timelines(queries.killed_for_good(namespace, state)).await?,
            restarts: oom::Timelines::default(),
        };
        if states.killed_and_restarted.is_empty() && states.killed_for_good.is_empty() {
            return Ok(Vec::new());
        }
        let pods = pod_pattern(states.killed_and_restarted.pods().chain(states.killed_for_good.pods()));
        states.restarts = timelines(queries.restarts(namespace, state, &pods)).await?;
        let kills = states.kills(window);
        if kills.is_empty() {
            return Ok(Vec::new());
        }
        let limits = timelines(queries.memory_limits(namespace, state, &pods)).await?;
        let mut used = oom::Timelines::default();
        if let Some(metric) = &self.names.memory {
            let usage = State { place: self.names.usage.clone(), ..state.clone() };
            let question = queries.memory(namespace, metric, false);
            self.range(&question, wide, &mut |row| {
                used.add(&row, &usage);
                Ok(())
            })
            .await?;
        }
        Ok(kills
            .into_iter()
            .filter_map(|(pod, container, at)| {
                // The limit of before: a Deployment that was given more has other pods by now.
                let memory = limits
                    .before(pod, container, at)
                    .or_else(|| limits.peak(pod, container, at, oom::LOOK_BACK_SECONDS))
                    .or_else(|| used.peak(pod, container, at, oom::LOOK_BACK_SECONDS))?;
                let image = images.at(pod, container, at)?;
                let memory = memory.round() as u64;
                Some(OomKill {
                    container: Container {
                        namespace: namespace.to_owned(),
                        pod: pod.to_owned(),
                        name: container.to_owned(),
                        image: image.to_owned(),
                    },
                    at,
                    memory,
                })
            })
            .collect())
    }

    /// Asks a question about each step of a window.
    async fn range(&self, question: &str, window: Window, each: &mut EachRow<'_>) -> Result<(), SourceError> {
        self.api.range(question, window, self.step_seconds, each).await
    }
}

type EachRow<'a> = dyn FnMut(Row) -> Result<(), SourceError> + Send + 'a;

impl Api {
    async fn range(
        &self,
        question: &str,
        window: Window,
        step_seconds: u32,
        each: &mut EachRow<'_>,
    ) -> Result<(), SourceError> {
        let step = i64::from(step_seconds);
        let points = window.seconds().div_euclid(step);
        if points > MOST_POINTS {
            return Err(SourceError::Overloaded(format!(
                "a window of {} s has {points} steps of {step} s, more than the {MOST_POINTS} that Prometheus answers",
                window.seconds()
            )));
        }
        // A range query answers for its end too, and a window's end belongs to the next one.
        let (start, end, step) = (window.from.to_string(), (window.to - step).to_string(), step.to_string());
        let moments = [("start", start.as_str()), ("end", end.as_str()), ("step", step.as_str())];
        self.ask("/api/v1/query_range", question, &moments, each).await
    }

    /// Asks about one moment, now if none is given.
    async fn moment(&self, question: &str, at: Option<i64>) -> Result<Vec<Row>, SourceError> {
        let mut rows = Vec::new();
        let time = at.map(|at| at.to_string());
        let moment: Vec<_> = time.iter().map(|time| ("time", time.as_str())).collect();
        self.ask("/api/v1/query", question, &moment, &mut |row| {
            rows.push(row);
            Ok(())
        })
        .await?;
        Ok(rows)
    }

    /// The single number that answers a question, if there is one.
    async fn number(&self, question: &str, at: Option<i64>) -> Result<Option<f64>, SourceError> {
        Ok(self.moment(question, at).await?.first().and_then(Row::value))
    }

    /// The store's clock, in whole unix seconds.
    async fn now(&self) -> Result<i64, SourceError> {
        let time = self.number("vector(time())", None).await?;
        time.map(|time| time.floor() as i64)
            .ok_or_else(|| SourceError::Permanent(format!("`{}` does not tell its time", self.http.name())))
    }

    async fn ask(
        &self,
        path: &str,
        question: &str,
        moments: &[(&str, &str)],
        each: &mut EachRow<'_>,
    ) -> Result<(), SourceError> {
        let timeout = format!("{}s", self.http.timeout().as_secs().max(1));
        let partial = if self.accept_partial { ["true", "0"] } else { ["false", "1"] };
        let mut parameters = vec![("query", question)];
        parameters.extend(moments);
        // The store gives up when we do; and each product has its own word for whole answers and for fresh ones.
        parameters.push(("timeout", &timeout));
        parameters.push(("partial_response", partial[0])); // Thanos
        parameters.push(("deny_partial_response", partial[1])); // VictoriaMetrics
        parameters.push(("nocache", "1")); // VictoriaMetrics
        tracing::debug!(question, ?moments, "asking");
        let mut answer = self.http.get(path, &parameters).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(answer::refusal(self.http.name(), status, &answer.error_text().await?));
        }
        let mut pieces = Pieces::new(Shape::ArrayAt(2, "result"));
        while let Some(bytes) = answer.next().await? {
            pieces.feed(&bytes, &mut |piece| each(answer::row(piece)?))?;
        }
        for warning in answer::close(&pieces.finish()?, self.accept_partial)? {
            tracing::warn!(store = self.http.name(), "the store warns: {warning}");
        }
        Ok(())
    }
}

/// A regular expression for these pods' names, or for any if there are too many to name.
fn pod_pattern<'a>(pods: impl Iterator<Item = &'a str>) -> String {
    let pods: BTreeSet<_> = pods.map(|pod| pod.replace('.', "\\.")).collect();
    if pods.len() > 50 { ".+".to_owned() } else { pods.into_iter().collect::<Vec<_>>().join("|") }
}

#[async_trait]
impl Source for Prometheus {
    async fn now(&self) -> Result<i64, SourceError> {
        self.probe().await?;
        self.api.now().await
    }

    async fn namespaces(&self, window: Window) -> Result<Vec<String>, SourceError> {
        self.reader().await?.namespaces(window).await
    }

    async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        self.reader().await?.read(namespace, window, sink).await
    }

    fn step_seconds(&self) -> u32 {
        self.options.step_seconds.max(1)
    }

    fn reach(&self) -> Reach {
        Reach::Past
    }
}
