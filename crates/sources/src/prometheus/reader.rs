//! Reads a window of a store whose names are known: by image for the collector, and `by_pod` for commands that keep
//! usage by workload.

mod by_pod;
mod digest;

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_usage::sample::{Batch, Container, OomKill, Resource, Series, Window};

pub use by_pod::{ContainerRef, Lives, Objects, Throttling};
pub use digest::Digest;

use super::api::{Api, EachRow};
use super::images;
use super::names::{Names, State};
use super::oom;
use super::options::Options;
use super::probe::{Probe, probe};
use super::query::{Queries, Question};
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
pub struct Reader {
    pub api: Api,
    pub names: Names,
    pub matchers: Matchers,
    pub step_seconds: u32,
    cpu_step_seconds: Option<u32>,
    /// As far as the store knows it.
    pub cluster: ClusterId,
    /// The store's clock when it was asked what it calls things.
    pub probed_at: i64,
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

/// The containers of a read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Notes {
    /// Containers whose image is known.
    pub matched: BTreeSet<(String, String)>,
    /// Containers whose image is unknown.
    pub unmatched: BTreeSet<(String, String)>,
}

impl Reader {
    /// Detects the names of a store. Fails if it has neither CPU nor memory of any container.
    pub async fn connect(http: Http, options: Options) -> Result<Arc<Self>, SourceError> {
        Self::probe(&Api::new(http, &options), &options).await
    }

    pub(super) async fn probe(api: &Api, options: &Options) -> Result<Arc<Self>, SourceError> {
        Ok(Arc::new(Self::new(api.clone(), &probe(api, options).await?, options)?))
    }

    /// Fails if there is nothing to read.
    pub(super) fn new(api: Api, probed: &Probe, options: &Options) -> Result<Self, SourceError> {
        let (matchers, step_seconds) = (options.matchers.clone(), options.step_seconds.max(1));
        let (names, cluster, probed_at) = (probed.names()?, probed.clusters.id(), probed.now);
        let cpu_step_seconds = options.cpu_step_seconds;
        Ok(Self { api, names, matchers, step_seconds, cpu_step_seconds, cluster, probed_at })
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

    /// Redactor of the series themselves, every five minutes of the window: the API that lists a label's values is not
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

    pub async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let images = self.read_images(namespace, window).await?;
        let notes = self.read_usage(namespace, window, &images, &mut *sink).await?;
        if let Some((pod, container)) = notes.unmatched.first() {
            if let Some(since) = self.away_since(window) {
                return Err(SourceError::Permanent(format!(
                    "kube-state-metrics has not been seen since {since}, so the image of some containers is not known, such \
                     as `{container}` of `{namespace}/{pod}`: their usage waits until it is back"
                )));
            }
            warn_of_unknown(namespace, &notes.unmatched);
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
    pub async fn read_usage(
        &self,
        namespace: &str,
        window: Window,
        images: &Images,
        sink: &mut (dyn FnMut(Batch) + Send),
    ) -> Result<Notes, SourceError> {
        let mut notes = Notes::default();
        let queries = self.queries();
        // Without kube-state-metrics, images are in a label of the usage series. While it
        // is only away, that would be another name for the same image.
        let by_label = images.is_empty() && self.away_since(window).is_none();
        for resource in Resource::ALL {
            let Some(question) = queries.usage(&[namespace], resource, by_label) else { continue };
            self.range(&question, window, &mut |row| {
                let usage = &self.names.usage;
                let (pod, name) = (row.label(&usage.pod), row.label(&usage.container));
                let by_image = if by_label {
                    images::of_usage(&row, self.names.usage_image.as_deref())
                        .map(|image| (image, row.samples(resource).collect()))
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

    pub async fn read_images(&self, namespace: &str, window: Window) -> Result<Images, SourceError> {
        let mut images = Images::default();
        let Some(state) = &self.names.state else { return Ok(images) };
        // A little longer, for images that kube-state-metrics reports only when it is back.
        let step = i64::from(self.step_seconds);
        let after = LATER_SECONDS.div_euclid(step).max(1) * step;
        let longer = Window { from: window.from, to: window.to + after };
        self.range(&self.queries().images(&[namespace], state), longer, &mut |row| {
            images::add(&mut images, &row, state);
            Ok(())
        })
        .await?;
        if images.is_empty() {
            // It may have been away, and have reported before.
            let before = Window { from: window.from - BEFORE_SECONDS, to: window.from };
            let question = self.queries().images(&[namespace], state);
            let mut add = |row| {
                images::add(&mut images, &row, state);
                Ok(())
            };
            unless_too_much(self.api.range(&question, before, LISTING_SECONDS, &mut add).await)?;
        }
        Ok(images)
    }

    /// Most namespaces have no kill, and cost two questions; the rest is asked of the pods that have one.
    async fn kills_by(&self, namespace: &str, state: &State, window: Window) -> Result<Vec<Killed>, SourceError> {
        let queries = self.queries();
        let step = i64::from(self.step_seconds);
        let look_back = oom::LOOK_BACK_SECONDS.div_euclid(step).max(1) * step;
        let wide = Window { from: window.from - look_back, to: window.to };
        let timelines = async |question: Question| {
            let mut found = oom::Timelines::default();
            self.range(&question, wide, &mut |row| {
                found.add(&row, state);
                Ok(())
            })
            .await?;
            Ok::<_, SourceError>(found)
        };
        let mut states = oom::States {
            killed_and_restarted: timelines(queries.killed_and_restarted(&[namespace], state)).await?,
            killed_for_good: timelines(queries.killed_for_good(&[namespace], state)).await?,
            ..oom::States::default()
        };
        if states.killed_and_restarted.is_empty() && states.killed_for_good.is_empty() {
            return Ok(Vec::new());
        }
        let killed = states.killed_and_restarted.pods().chain(states.killed_for_good.pods());
        let pods: BTreeSet<String> = killed.map(str::to_owned).collect();
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        // Any, if there are too many to name.
        let pods = if pods.len() > MAX_NAMED_PODS { PRESENT } else { Match::OneOf(&pods) };
        states.restarts = timelines(queries.restarts(&[namespace], state, pods)).await?;
        if states.lacks_restarts(window) {
            let question = queries.restarts_before(&[namespace], state, pods, oom::AWAY_SECONDS);
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
        let limits = timelines(queries.memory_limits(&[namespace], state, pods)).await?;
        let limit_of = |pod: &str, container: &str, at: i64| {
            // The limit of before: a Deployment that was given more has other pods by now.
            limits.before(pod, container, at).or_else(|| limits.peak(pod, container, at, oom::LOOK_BACK_SECONDS))
        };
        let lacks_limit = kills.iter().any(|(pod, container, at)| limit_of(pod, container, *at).is_none());
        let mut used = oom::Timelines::default();
        if let Some(question) = queries.usage(&[namespace], Resource::Memory, false).filter(|_| lacks_limit) {
            let usage = State { place: self.names.usage.clone(), ..state.clone() };
            self.range(&question, wide, &mut |row| {
                used.add(&row, &usage);
                Ok(())
            })
            .await?;
        }
        Ok(kills
            .into_iter()
            .filter_map(|(pod, container, at)| {
                let limit = limit_of(pod, container, at);
                let memory = limit.or_else(|| used.peak(pod, container, at, oom::LOOK_BACK_SECONDS))?;
                let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
                let container = ContainerRef { namespace, pod, container };
                Some(Killed { container, at, memory: memory.round() as u64, is_limit: limit.is_some() })
            })
            .collect())
    }

    async fn read_oom_kills(
        &self,
        namespace: &str,
        state: &State,
        window: Window,
        images: &Images,
    ) -> Result<Vec<OomKill>, SourceError> {
        let kills = self.kills_by(namespace, state, window).await?.into_iter();
        let with_image =
            |Killed { container: ContainerRef { namespace, pod, container: name }, at, memory, .. }: Killed| {
                let image = images.at(&pod, &name, at)?.to_owned();
                Some(OomKill { container: Container { namespace, pod, name, image }, at, memory })
            };
        Ok(kills.filter_map(with_image).collect())
    }

    /// Asks a question about each step of a window.
    async fn range(&self, question: &Question, window: Window, each: &mut EachRow<'_>) -> Result<(), SourceError> {
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
