//! Reads a metrics store, several queries at a time.
//!
//! A query counts as a whole or not at all; one that cannot be read is named, and what else was read stays. Whoever
//! interrupts the reading has what was read until then.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use headroom_kube::retry::Retry;
use headroom_report::progress::Progress;
use headroom_sources::SourceError;
use headroom_sources::paced::read_all;
use headroom_sources::prometheus::StoreReader;
use headroom_sources::prometheus::reader::{ContainerRef, Killed, Lives, UsageGroup};
use headroom_usage::observed::{Kill, Observed};
use headroom_usage::sample::{Resource, Window};
use headroom_usage::{DAY, cardinality, day_of};
use tokio_util::sync::CancellationToken;

use super::query_plan::{MAX_NAMESPACES, Query, Question, plan};
use super::{Histories, Part};
use headroom_workloads::owner::{self, Owners, PodOwners, WorkloadRef};

/// The attempts of a query that fails for a moment.
const RETRY: Retry = Retry { attempts: 4, first_wait: Duration::from_secs(2), longest_wait: Duration::from_secs(8) };

/// The result of a reading.
#[derive(Debug, Default)]
pub struct HistoryReading {
    pub histories: Histories,
    /// The parts that could not be read, with the reasons.
    pub problems: Vec<String>,
    /// The number of pods with usage whose workload is gone.
    pub strangers: u64,
    pub is_interrupted: bool,
}

/// The facts that are known before any usage is read.
#[derive(Debug, Default)]
struct Surroundings {
    /// None if the store does not tell how long containers were seen: then usage is read sample by sample.
    lives: Option<Lives>,
    /// Namespaces with kills.
    killed: BTreeSet<String>,
}

/// Asks whose the pods are that are gone by now, and how long each container was seen.
async fn surroundings(
    store: &StoreReader,
    namespaces: &[String],
    window: Window,
    owners: &mut Owners,
    problems: &mut Vec<String>,
) -> Surroundings {
    let mut found = Surroundings { lives: Some(Lives::default()), killed: BTreeSet::new() };
    // Up to now, for who made a pod may have been told only since the last whole step.
    let until_now = Window { to: window.to + i64::from(store.step_seconds), ..window };
    for namespaces in namespaces.chunks(MAX_NAMESPACES) {
        match repeated(|| store.objects(namespaces, until_now)).await {
            Ok(objects) => {
                for made in objects.made {
                    let (kind, name) = made.object;
                    owners.add(WorkloadRef::new(&made.namespace, kind, &name), &made.owner.0, &made.owner.1);
                }
                found.killed.extend(objects.killed);
            }
            Err(error) => problems.push(format!(
                "the owners of deleted pods are unknown, so these pods are assigned by their names, and out-of-memory kills \
                 are unknown: {error}"
            )),
        }
        match (repeated(|| store.lives(namespaces, window)).await, &mut found.lives) {
            (Ok(lives), Some(all)) => all.extend(lives),
            (Err(error), _) => {
                tracing::debug!(%error, "the lives of containers are unknown");
                found.lives = None;
            }
            (Ok(_), None) => {}
        }
    }
    problems.truncate(1);
    found
}

/// The inputs of all queries of a reading.
struct Shared {
    store: Arc<StoreReader>,
    pods: PodOwners,
    lives: Lives,
    /// The end of the window.
    to: i64,
}

/// Reads a window of these namespaces.
pub async fn read(
    store: &Arc<StoreReader>,
    namespaces: &[String],
    window: Window,
    mut pods: PodOwners,
    concurrency: usize,
    progress: &Progress,
    stop: &CancellationToken,
) -> HistoryReading {
    let mut reading = HistoryReading::default();
    let found = tokio::select! {
        found = surroundings(store, namespaces, window, &mut pods.owners, &mut reading.problems) => found,
        () = stop.cancelled() => return HistoryReading { is_interrupted: true, ..HistoryReading::default() },
    };
    let queries = plan(store, namespaces, window, found.lives.as_ref(), &found.killed);
    progress.begin(queries.len() as u64, "Reading usage");
    let lives = found.lives.unwrap_or_default();
    let shared = Arc::new(Shared { store: Arc::clone(store), pods, lives, to: window.to });
    reading.histories.to = window.to;
    let mut strangers = cardinality::Distinct::default();
    let step = store.step_seconds.into();
    // In a task of its own, so that several processors parse the answers.
    let read = async |query: Query| {
        let (shared, asked) = (Arc::clone(&shared), query.clone());
        let task = tokio::spawn(async move { repeated(|| shared.read(&asked)).await });
        // Tasks do not panic.
        (query, task.await.unwrap_or_else(|error| Err(SourceError::Permanent(error.to_string()))))
    };
    let take = |queries: &mut VecDeque<Query>, query: Query, read| {
        match (read, query.halves(step)) {
            (Ok(part), _) => {
                let part: Part = part;
                strangers.merge(&part.strangers);
                reading.histories.add(part);
                progress.advance(1);
            }
            (Err(SourceError::Overloaded(_)), Some(halves)) => {
                progress.lengthen(1);
                halves.into_iter().rev().for_each(|half| queries.push_front(half));
            }
            (Err(error), _) if matches!(query.question, Question::Course | Question::Ended) => {
                tracing::debug!(%error, "{query}");
                progress.advance(1);
            }
            (Err(SourceError::Permanent(reason)), _) if matches!(query.question, Question::Digest(_)) => {
                tracing::debug!(reason, "the store makes no percentiles: reading all samples");
                queries.iter_mut().for_each(|query| *query = query.by_samples());
                queries.push_front(query.by_samples());
            }
            (Err(error), _) => {
                reading.problems.push(format!("not read: {query}: {error}"));
                progress.advance(1);
            }
        }
        Ok::<_, Infallible>(())
    };
    let Ok(is_done) = read_all(queries, concurrency, stop, read, take).await;
    progress.end();
    reading.is_interrupted = !is_done;
    reading.strangers = strangers.count();
    reading
}

/// Repeats a query that fails for a moment.
async fn repeated<T, F: Future<Output = Result<T, SourceError>>>(ask: impl Fn() -> F) -> Result<T, SourceError> {
    RETRY.run(|error| matches!(error, SourceError::Temporary(_)), ask).await
}

impl Shared {
    /// The age of a moment in the window, in days of UTC: five minutes more of data change nothing but today.
    fn age(&self, at: i64) -> u32 {
        day_of(self.to - 1).saturating_sub(day_of(at))
    }

    async fn read(&self, query: &Query) -> Result<Part, SourceError> {
        let (store, mut part, Query { namespaces, window, .. }) = (&self.store, Part::default(), query);
        match query.question {
            Question::Digest(resource) => {
                let end = window.to;
                store
                    .digests(namespaces, resource, *window, UsageGroup::ALL, &mut |place, digest| {
                        let Some((pod, observed)) = self.observed(&mut part, &place, end - 1) else { return };
                        let life = self.lives.on(&place, end);
                        let seconds = life.map_or(store.step_of(resource).into(), |life| life.seconds);
                        let (seconds, at) = (seconds.min(window.seconds().max(0) as u64), end - 1);
                        let mean = life.and_then(|life| life.mean_cpu).filter(|_| resource == Resource::Cpu);
                        let mut of_pod = Observed::default();
                        match mean {
                            Some(mean) => of_pod.add(resource, at, mean, seconds),
                            None => digest.spread(seconds, &mut |amount, seconds| {
                                of_pod.add(resource, at, amount, seconds);
                            }),
                        }
                        observed.merge(&of_pod);
                        self.add_pod(&mut part, &place, pod, end - 1, &of_pod);
                    })
                    .await?;
            }
            Question::Usage(resource) => {
                let step = u64::from(store.step_of(resource));
                store
                    .usage(namespaces, resource, *window, &mut |place, samples| {
                        // A day at a time, so that the day is looked for once.
                        let mut samples = samples.filter(|sample| window.contains(sample.time)).peekable();
                        while let Some(first) = samples.peek() {
                            let (at, age, mut of_pod) = (first.time, self.age(first.time), Observed::default());
                            let Some((pod, observed)) = self.observed(&mut part, &place, at) else { return };
                            while let Some(sample) = samples.next_if(|sample| self.age(sample.time) == age) {
                                of_pod.add(resource, sample.time, sample.value, step);
                            }
                            observed.merge(&of_pod);
                            self.add_pod(&mut part, &place, pod, at, &of_pod);
                        }
                    })
                    .await?;
            }
            Question::Throttling => {
                for (place, counted) in store.throttling(namespaces, *window).await? {
                    if let Some(workload) = self.pods.of_pod(&place.namespace, &place.pod) {
                        let sum = part.throttling.entry((workload, place.container)).or_default();
                        sum.periods += counted.periods;
                        sum.throttled += counted.throttled;
                    }
                }
            }
            Question::Course => {
                for (place, hour, cpu) in store.busy_hours(namespaces, *window).await? {
                    if let Some(workload) = self.pods.of_pod(&place.namespace, &place.pod) {
                        let pod = cardinality::hash(&place.namespace, &place.pod);
                        let of_day = u32::try_from(hour.rem_euclid(DAY) / 3_600).unwrap_or(0);
                        part.course(workload, &place.container).add_busy_hour(pod, (self.age(hour), of_day), cpu);
                    }
                }
                for (place, memory) in store.lasting_memory(namespaces, *window).await? {
                    if let Some(workload) = self.pods.of_pod(&place.namespace, &place.pod) {
                        part.course(workload, &place.container).add_lasting_memory(memory);
                    }
                }
            }
            Question::Ended => {
                for (place, last) in store.ended(namespaces, window.to).await? {
                    if let Some(workload) = self.pods.of_pod(&place.namespace, &place.pod) {
                        let pod = cardinality::hash(&place.namespace, &place.pod);
                        part.course(workload, &place.container).add_end(pod, last);
                    }
                }
            }
            Question::Kills => {
                for Killed { container: of, at, memory, is_limit } in store.kills(namespaces, *window).await? {
                    if let Some(workload) = self.pods.of_pod(&of.namespace, &of.pod) {
                        let observed = part.day(workload, &of.container, self.age(at));
                        observed.add_kill(Kill { at, memory, of: cardinality::hash(&of.pod, &of.container) });
                        if !is_limit {
                            part.killed_at_unknown_limit.insert((workload, of.container));
                        }
                    }
                }
            }
        }
        Ok(part)
    }

    /// Keeps the CPU usage of a pod apart from that of others.
    fn add_pod(&self, part: &mut Part, place: &ContainerRef, pod: u32, at: i64, of_pod: &Observed) {
        if let Some(workload) = self.pods.of_pod(&place.namespace, &place.pod)
            && !of_pod.cpu.is_empty()
        {
            let course = part.course(workload, &place.container);
            course.add_pod(pod, self.age(at), of_pod);
            if let Some(template) = owner::template_of(&place.pod) {
                course.add_template(cardinality::hash(&place.namespace, template), self.age(at));
            }
        }
    }

    /// The pod, and where to keep what its container used at a moment; none if its workload is gone.
    fn observed<'p>(&self, part: &'p mut Part, place: &ContainerRef, at: i64) -> Option<(u32, &'p mut Observed)> {
        let hash = cardinality::hash(&place.namespace, &place.pod);
        let Some(workload) = self.pods.of_pod(&place.namespace, &place.pod) else {
            part.strangers.add(hash);
            return None;
        };
        let observed = part.day(workload, &place.container, self.age(at));
        observed.pods.add(hash);
        Some((hash, observed))
    }
}
