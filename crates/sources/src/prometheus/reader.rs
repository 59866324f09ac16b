//! Reads a window of a store whose names are known: by image for the collector, and `by_pod` for commands that keep
//! usage by workload.

mod by_pod;
mod digest;
mod past_day;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_usage::DAY;
use headroom_usage::sample::{Batch, OomKill, Resource, Series, Window};

pub use by_pod::{Lives, Objects, Throttling};
pub use digest::Digest;

use super::absence::Absence;
use super::answer::AnswerSeries;
pub use super::answer::ContainerRef;
use super::api::{Api, EachRow};
use super::images;
use super::names::{Names, State};
use super::oom;
use super::options::PrometheusOptions;
use super::probe::{Probe, probe};
pub use super::query::{PodSelection, UsageGroup};
use super::query::{PromQl, Queries};
use super::selector::{Match, Matchers, PRESENT};
use crate::cluster_id::ClusterId;
use crate::http::Http;
use crate::images::{Images, warn_of_unknown};
use crate::{Sink, SourceError};

/// The step of the query that lists namespaces.
const LISTING_SECONDS: u32 = 300;

/// The time before a window in which an image is searched for that is missing in it.
const BEFORE_SECONDS: i64 = 6 * 3_600;
/// The maximum number of pods in a selector.
const MAX_NAMED_PODS: usize = 50;
/// The time after a window in which kube-state-metrics may still report an image of it.
const LATER_SECONDS: i64 = 600;

/// A store whose names are known.
pub struct StoreReader {
    pub api: Api,
    pub names: Names,
    pub matchers: Matchers,
    pub step_seconds: u32,
    cpu_step_seconds: Option<u32>,
    /// As far as the store knows it.
    pub cluster: ClusterId,
    /// The store's clock when it was asked what it calls things.
    pub probed_at: i64,
    /// The last moment with usage, if an outage of the store, or of what fills it, lasts.
    pub outage_since: Option<i64>,
}

/// A container that was killed because its memory ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Killed {
    pub container: ContainerRef,
    /// Unix seconds.
    pub at: i64,
    /// The limit in force, or what was used; in bytes.
    pub memory: u64,
    /// False if the store does not know the limit.
    pub is_limit: bool,
}

/// Images by namespace.
pub type ImagesOf = BTreeMap<String, Images>;

/// The containers of a read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Notes {
    /// Containers whose image is known.
    pub matched: BTreeSet<ContainerRef>,
    /// Containers whose image is unknown.
    pub unmatched: BTreeSet<ContainerRef>,
}

impl StoreReader {
    /// Detects the names of a store. Fails if it has neither CPU nor memory of any container. In an outage that began within a
    /// day, or before a moment that was chosen, the store is read as of its begin.
    pub async fn connect(http: Http, options: PrometheusOptions) -> Result<Arc<Self>, SourceError> {
        let api = Api::new(http.clone(), &options);
        let probed = probe(&api, &options).await?;
        let ended = probed.absence.as_ref().and_then(Absence::ended_at);
        let Some(at) = ended.filter(|at| options.as_of.is_some() || probed.now - at < DAY) else {
            return Ok(Arc::new(Self::new(api, &probed, &options)?));
        };
        let options = PrometheusOptions { as_of: Some(at), ..options };
        let api = Api::new(http, &options);
        let reader = Self::new(api.clone(), &probe(&api, &options).await?, &options)?;
        Ok(Arc::new(Self { outage_since: Some(at), ..reader }))
    }

    pub(super) async fn probe(api: &Api, options: &PrometheusOptions) -> Result<Arc<Self>, SourceError> {
        Ok(Arc::new(Self::new(api.clone(), &probe(api, options).await?, options)?))
    }

    /// Fails if there is nothing to read.
    pub(super) fn new(api: Api, probed: &Probe, options: &PrometheusOptions) -> Result<Self, SourceError> {
        let (matchers, step_seconds) = (options.matchers.clone(), options.step_seconds.max(1));
        let (names, cluster, probed_at) = (probed.names()?, probed.clusters.id(), probed.now);
        let cpu_step_seconds = options.cpu_step_seconds;
        Ok(Self { api, names, matchers, step_seconds, cpu_step_seconds, cluster, probed_at, outage_since: None })
    }

    /// The step at which usage is read by pod.
    pub fn step_of(&self, resource: Resource) -> u32 {
        self.cpu_step_seconds.filter(|_| resource == Resource::Cpu).unwrap_or(self.step_seconds)
    }

    /// Builds the questions about usage by pod.
    fn queries_of(&self, resource: Resource) -> Queries<'_> {
        let is_average_of_minute = resource == Resource::Cpu && self.cpu_step_seconds.is_some();
        let step_seconds = if is_average_of_minute { self.step_of(resource).min(60) } else { self.step_seconds };
        Queries { step_seconds, leaves_border: is_average_of_minute, ..self.queries() }
    }

    pub fn queries(&self) -> Queries<'_> {
        Queries { names: &self.names, matchers: &self.matchers, step_seconds: self.step_seconds, leaves_border: false }
    }

    /// Lists namespaces by the series themselves, every five minutes of the window: the API that lists a label's values is not
    /// to be had everywhere, and knows no clock. All namespaces at once may be too much, so that is halved here.
    pub async fn namespaces(&self, window: Window) -> Result<Vec<String>, SourceError> {
        let mut found = BTreeSet::new();
        let mut unasked = vec![window];
        while let Some(span) = unasked.pop() {
            match (self.namespaces_in(span, &mut found).await, span.halves(LISTING_SECONDS.into())) {
                (Err(SourceError::Overloaded(_)), Some(halves)) => unasked.extend(halves.into_iter().rev()),
                (asked, _) => asked?,
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Reads usage and kills of these namespaces: of a whole day by percentiles, wherever that says as much.
    pub async fn read(&self, namespaces: &[&str], window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let rest = self.read_day(namespaces, window, &mut *sink).await?;
        let images = self.read_images(&rest, window).await?;
        let notes = self.read_usage(&rest, window, &images, &mut *sink).await?;
        if let Some(ContainerRef { namespace, pod, container }) = notes.unmatched.first() {
            if let Some(since) = self.away_since(window) {
                return Err(SourceError::Permanent(format!(
                    "kube-state-metrics has not been seen since {since}, so the image of some containers is not known, such \
                     as `{container}` of `{namespace}/{pod}`: their usage waits until it is back"
                )));
            }
            let unknown = notes.unmatched.iter().map(|of| (&*of.namespace, (&*of.pod, &*of.container)));
            warn_of_unknown(unknown);
        }
        if let Some(state) = &self.names.state {
            let kills = self.read_oom_kills(namespaces, state, window, images).await?;
            if !kills.is_empty() {
                sink(Batch::OomKills(kills));
            }
        }
        Ok(())
    }

    /// Reads usage, and says of how many containers the image is known.
    pub async fn read_usage(
        &self,
        namespaces: &[&str],
        window: Window,
        images: &ImagesOf,
        sink: &mut (dyn FnMut(Batch) + Send),
    ) -> Result<Notes, SourceError> {
        let mut notes = Notes::default();
        let queries = self.queries();
        // Without kube-state-metrics, images are in a label of the usage series. While it
        // is only away, that would be another name for the same image.
        let may_be_labels = self.away_since(window).is_none();
        let (by_label, by_state): (Vec<_>, Vec<_>) =
            namespaces.iter().partition(|namespace| may_be_labels && !images.contains_key(**namespace));
        for (namespaces, by_label) in [(by_label, true), (by_state, false)] {
            for resource in Resource::ALL {
                let question = queries.usage(&namespaces, resource, by_label).filter(|_| !namespaces.is_empty());
                let Some(question) = question else { continue };
                self.range(&question, window, &mut |row| {
                    let of = self.container(&row);
                    let by_image = match images.get(&of.namespace) {
                        _ if by_label => images::of_usage(&row, self.names.usage_image.as_deref())
                            .map(|image| (image, row.samples(resource).collect()))
                            .into_iter()
                            .collect(),
                        Some(images) => images.split(&of.pod, &of.container, row.samples(resource)),
                        None => Vec::new(),
                    };
                    let series = by_image.into_iter().map(|(image, samples)| Series {
                        container: of.with_image(image),
                        resource,
                        samples,
                        step_seconds: self.step_seconds,
                    });
                    let series: Vec<Series> = series.collect();
                    let noted = if series.is_empty() { &mut notes.unmatched } else { &mut notes.matched };
                    noted.insert(of);
                    sink(Batch::Usage(series));
                    Ok(())
                })
                .await?;
            }
        }
        Ok(notes)
    }

    /// Since when kube-state-metrics is away, if that is before the window's end and it may come back.
    fn away_since(&self, window: Window) -> Option<jiff::Timestamp> {
        let since = self.names.state_away_since.filter(|since| *since < window.to)?;
        jiff::Timestamp::from_second(since).ok()
    }

    async fn namespaces_in(&self, window: Window, found: &mut BTreeSet<String>) -> Result<(), SourceError> {
        let label = &self.names.usage.namespace;
        let metric = self.names.memory.as_ref().or(self.names.cpu.as_ref().map(|cpu| &cpu.metric));
        let Some(metric) = metric else { return Ok(()) };
        let question = self.queries().namespaces(metric, LISTING_SECONDS);
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

    /// The images of these namespaces, as far as kube-state-metrics knows any.
    pub async fn read_images(&self, namespaces: &[&str], window: Window) -> Result<ImagesOf, SourceError> {
        let mut images = ImagesOf::default();
        let Some(state) = self.names.state.as_ref().filter(|_| !namespaces.is_empty()) else { return Ok(images) };
        let add = |images: &mut ImagesOf, row: AnswerSeries| {
            let namespace = row.label(&state.place.namespace).to_owned();
            images::add(images.entry(namespace).or_default(), &row, state);
            Ok(())
        };
        // A little longer, for images that kube-state-metrics reports only when it is back.
        let longer = Window { from: window.from, to: window.to + self.steps_in(LATER_SECONDS) };
        self.range(&self.queries().images(namespaces, state), longer, &mut |row| add(&mut images, row)).await?;
        let unknown: Vec<&str> =
            namespaces.iter().copied().filter(|namespace| !images.contains_key(*namespace)).collect();
        if !unknown.is_empty() {
            // It may have been away, and have reported before.
            let before = Window { from: window.from - BEFORE_SECONDS, to: window.from };
            let question = self.queries().images(&unknown, state);
            let asked = self.api.range(&question, before, LISTING_SECONDS, &mut |row| add(&mut images, row)).await;
            unless_too_much(asked)?;
        }
        Ok(images)
    }

    /// So many seconds in whole steps, at least one.
    fn steps_in(&self, seconds: i64) -> i64 {
        let step = i64::from(self.step_seconds);
        seconds.div_euclid(step).max(1) * step
    }

    /// Most namespaces have no kill, and cost two questions; the rest is asked of the pods that have one.
    async fn kills_by(&self, namespaces: &[&str], state: &State, window: Window) -> Result<Vec<Killed>, SourceError> {
        let queries = self.queries();
        let step = i64::from(self.step_seconds);
        let wide = Window { from: window.from - self.steps_in(oom::LOOK_BACK_SECONDS), to: window.to };
        let timelines = async |question: PromQl| {
            let mut found = oom::Timelines::default();
            self.range(&question, wide, &mut |row| {
                found.add(&row, state);
                Ok(())
            })
            .await?;
            Ok::<_, SourceError>(found)
        };
        let mut states = oom::States {
            killed_and_restarted: timelines(queries.killed_and_restarted(namespaces, state)).await?,
            killed_for_good: timelines(queries.killed_for_good(namespaces, state)).await?,
            ..oom::States::default()
        };
        if states.killed_and_restarted.is_empty() && states.killed_for_good.is_empty() {
            return Ok(Vec::new());
        }
        let killed = states.killed_and_restarted.containers().chain(states.killed_for_good.containers());
        let (in_namespaces, pods): (BTreeSet<String>, BTreeSet<String>) =
            killed.map(|of| (of.namespace.clone(), of.pod.clone())).unzip();
        let [namespaces, pods] =
            [&in_namespaces, &pods].map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        // Any, if there are too many to name.
        let pods = if pods.len() > MAX_NAMED_PODS { PRESENT } else { Match::OneOf(&pods) };
        states.restarts = timelines(queries.restarts(&namespaces, state, pods)).await?;
        if states.lacks_restarts(window) {
            let question = queries.restarts_before(&namespaces, state, pods, oom::AWAY_SECONDS);
            // The step before the first.
            let at = Window { from: wide.from - step, to: wide.from };
            let mut add = |row| {
                states.restarts_before.add(&row, state);
                Ok(())
            };
            unless_too_much(self.range(&question, at, &mut add).await)?;
        }
        let kills = states.kills(window);
        if kills.is_empty() {
            return Ok(Vec::new());
        }
        let limits = timelines(queries.memory_limits(&namespaces, state, pods)).await?;
        let limit_of = |of: &ContainerRef, at: i64| {
            // The limit of before: a Deployment that was given more has other pods by now.
            limits.before(of, at).or_else(|| limits.peak(of, at, oom::LOOK_BACK_SECONDS))
        };
        let without_limit = kills.iter().filter(|(of, at)| limit_of(of, *at).is_none());
        let without_limit: BTreeSet<&str> = without_limit.map(|(of, _)| of.namespace.as_str()).collect();
        let without_limit: Vec<&str> = without_limit.into_iter().collect();
        let mut used = oom::Timelines::default();
        let question = queries.usage(&without_limit, Resource::Memory, false).filter(|_| !without_limit.is_empty());
        if let Some(question) = question {
            let usage = State { place: self.names.usage.clone(), ..state.clone() };
            self.range(&question, wide, &mut |row| {
                used.add(&row, &usage);
                Ok(())
            })
            .await?;
        }
        Ok(kills
            .into_iter()
            .filter_map(|(container, at)| {
                let limit = limit_of(container, at);
                let memory = limit.or_else(|| used.peak(container, at, oom::LOOK_BACK_SECONDS))?;
                Some(Killed {
                    container: container.clone(),
                    at,
                    memory: memory.round() as u64,
                    is_limit: limit.is_some(),
                })
            })
            .collect())
    }

    async fn read_oom_kills(
        &self,
        namespaces: &[&str],
        state: &State,
        window: Window,
        mut images: ImagesOf,
    ) -> Result<Vec<OomKill>, SourceError> {
        let kills = self.kills_by(namespaces, state, window).await?;
        // Those that were read by percentiles.
        let others: BTreeSet<&str> = kills.iter().map(|killed| killed.container.namespace.as_str()).collect();
        let others: Vec<&str> = others.into_iter().filter(|namespace| !images.contains_key(*namespace)).collect();
        images.extend(self.read_images(&others, window).await?);
        let with_image = |killed: &Killed| {
            let of = &killed.container;
            let image = images.get(&of.namespace)?.at(&of.pod, &of.container, killed.at)?;
            Some(OomKill { container: of.with_image(image), at: killed.at, memory: killed.memory })
        };
        Ok(kills.iter().filter_map(with_image).collect())
    }

    /// Asks a question about each step of a window.
    async fn range(&self, question: &PromQl, window: Window, each: &mut EachRow<'_>) -> Result<(), SourceError> {
        self.api.range(question, window, self.step_seconds, each).await
    }
}

/// Ignores that an optional query was too much for the store.
fn unless_too_much(asked: Result<(), SourceError>) -> Result<(), SourceError> {
    match asked {
        Err(SourceError::Overloaded(reason)) => {
            tracing::debug!(reason, "not asked about the time before");
            Ok(())
        }
        asked => asked,
    }
}
