//! Reads a metrics store, several queries at a time, or once a source of current usage: the metrics API.
//!
//! A query counts as a whole or not at all; one that cannot be read is named, and what else was read stays. Whoever
//! interrupts the reading has what was read until then.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use headroom_api_server::retry::Retry;
use headroom_metrics_stores::paced::read_all;
use headroom_metrics_stores::prometheus::StoreReader;
use headroom_metrics_stores::prometheus::reader::{ContainerRef, Killed, Lives};
use headroom_metrics_stores::{Source, SourceError};
use headroom_output::progress::Progress;
use headroom_usage::sample::{Batch, Series, Window};
use headroom_usage::{DAY, cardinality};
use tokio_util::sync::CancellationToken;

use super::query_plan::{MAX_NAMESPACES, Query, Question, plan};
use super::{Histories, PartialHistory, PodsRead, pod_of};
use headroom_workloads::owner::{Owners, PodOwners, WorkloadRef};

/// The attempts of a query that fails for a moment.
const RETRY: Retry = Retry { attempts: 4, first_wait: Duration::from_secs(2), longest_wait: Duration::from_secs(8) };

#[derive(Debug, Default)]
pub struct HistoryReading {
    pub histories: Histories,
    /// The parts that could not be read, with the reasons.
    pub problems: Vec<String>,
    /// The number of pods with usage that no workload stands for, by the kind of their owner.
    pub strangers: BTreeMap<String, u64>,
    pub is_interrupted: bool,
}

/// Asks whose the pods are that are gone by now. Yields how long each container was seen, or none if the store does not tell all
/// of it: then usage is read sample by sample; and the namespaces with kills.
async fn surroundings(
    store: &StoreReader,
    namespaces: &[String],
    window: Window,
    owners: &mut Owners,
    problems: &mut Vec<String>,
) -> (Option<Lives>, BTreeSet<String>) {
    let (mut seen, mut killed) = (Some(Lives::default()), BTreeSet::new());
    // Up to now, for who made a pod may have been told only since the last whole step.
    let until_now = Window { to: window.to + i64::from(store.step_seconds), ..window };
    for namespaces in namespaces.chunks(MAX_NAMESPACES) {
        let namespaces: &[&str] = &namespaces.iter().map(String::as_str).collect::<Vec<_>>();
        match repeated(|| store.objects(namespaces, until_now)).await {
            Ok(objects) => {
                for made in objects.made {
                    let (kind, name) = made.object;
                    owners.add(&WorkloadRef::new(&made.namespace, kind, &name), &made.owner.0, &made.owner.1);
                }
                killed.extend(objects.killed);
            }
            Err(error) => problems.push(format!(
                "the owners of deleted pods are unknown, so these pods are assigned by their names, and out-of-memory kills \
                 are unknown: {error}"
            )),
        }
        match (repeated(|| store.lives(namespaces, window)).await, &mut seen) {
            (Ok(lives), Some(all)) => all.extend(lives),
            (Err(error), _) => {
                tracing::debug!(%error, "the lives of containers are unknown");
                seen = None;
            }
            (Ok(_), None) => {}
        }
    }
    problems.truncate(1);
    (seen, killed)
}

struct Shared {
    store: Arc<StoreReader>,
    pods: PodsRead,
    lives: Lives,
}

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
    let (lives, killed) = tokio::select! {
        found = surroundings(store, namespaces, window, &mut pods.owners, &mut reading.problems) => found,
        () = stop.cancelled() => return HistoryReading { is_interrupted: true, ..HistoryReading::default() },
    };
    let queries = plan(store, namespaces, window, lives.as_ref(), &killed);
    progress.begin(queries.len() as u64, "Reading usage");
    let pods = PodsRead { owners: pods, to: window.to };
    let shared = Arc::new(Shared { store: Arc::clone(store), pods, lives: lives.unwrap_or_default() });
    reading.histories.to = window.to;
    let mut strangers: BTreeMap<String, cardinality::Distinct> = BTreeMap::new();
    let step = store.step_seconds.into();
    // In a task of its own, so that several processors parse the answers.
    let read = async |query: Query| {
        let (shared, asked) = (Arc::clone(&shared), query.clone());
        let task = tokio::spawn(async move { repeated(|| shared.read(&asked)).await });
        // Tasks do not panic.
        (query, task.await.unwrap_or_else(|error| Err(SourceError::Permanent(error.to_string()))))
    };
    let cut = |query: &Query, error: &SourceError| {
        let halves = query.halves(step).filter(|_| matches!(error, SourceError::Overloaded(_)))?;
        progress.lengthen(1);
        Some(halves)
    };
    let take = |query: Query, read: Result<PartialHistory, SourceError>| {
        progress.advance(1);
        match read {
            Ok(part) => {
                part.strangers.iter().for_each(|(kind, pods)| strangers.entry(kind.clone()).or_default().merge(pods));
                reading.histories.add(part);
            }
            Err(error) if query.question.is_optional() => {
                tracing::debug!(%error, "{query}");
            }
            Err(error) => reading.problems.push(format!("not read: {query}: {error}")),
        }
        Ok::<_, Infallible>(())
    };
    let Ok(is_done) = read_all(queries, concurrency, stop, read, cut, take).await;
    progress.end();
    reading.is_interrupted = !is_done;
    reading.strangers = strangers.into_iter().map(|(kind, pods)| (kind, pods.count())).collect();
    reading
}

pub async fn read_instant(
    source: &dyn Source,
    namespaces: Option<&[String]>,
    owners: PodOwners,
) -> Result<Histories, SourceError> {
    let step = i64::from(source.step_seconds());
    let from = source.now().await?.div_euclid(step) * step;
    let window = Window { from, to: from + step };
    let (mut part, pods) = (PartialHistory::default(), PodsRead { owners, to: window.to });
    let mut take = |batch: Batch| match batch {
        Batch::Usage(all) => all.iter().for_each(|series| part.add_usage(series, window, &pods)),
        Batch::OomKills(all) => all.iter().for_each(|kill| {
            part.add_kill(&ContainerRef::from(&kill.container), (kill.at, kill.memory), true, &pods);
        }),
    };
    match namespaces {
        Some(namespaces) => {
            for namespace in namespaces {
                source.read(&[namespace], window, &mut take).await?;
            }
        }
        None => {
            if !source.read_all(window, &mut take).await? {
                return Err(SourceError::Permanent(
                    "not allowed to list the metrics of all namespaces: look at one with -n".to_owned(),
                ));
            }
        }
    }
    let mut histories = Histories::default();
    histories.add(part);
    Ok(histories)
}

async fn repeated<T, F: Future<Output = Result<T, SourceError>>>(ask: impl Fn() -> F) -> Result<T, SourceError> {
    RETRY.run(|error| matches!(error, SourceError::Temporary(_)), ask).await
}

impl Shared {
    async fn read(&self, query: &Query) -> Result<PartialHistory, SourceError> {
        let (Self { store, pods, lives }, window, mut part) = (self, query.slice.window, PartialHistory::default());
        let namespaces = query.slice.names();
        match query.question {
            Question::Usage(resource) => {
                let lives = (!query.by_samples).then_some(lives);
                let mut take = |series: Series| part.add_usage(&series, window, pods);
                store.usage(&namespaces, resource, window, lives, &mut take).await?;
            }
            Question::Throttling => {
                for (place, counted) in store.throttling(&namespaces, window).await? {
                    let Some(of) = part.of(&place, pods) else { continue };
                    of.throttling.periods += counted.periods;
                    of.throttling.throttled += counted.throttled;
                }
                for (place, kills) in store.kernel_kills(&namespaces, window).await? {
                    part.of(&place, pods).into_iter().for_each(|of| of.kernel_kills += kills);
                }
            }
            Question::Course => {
                for (place, hour, cpu) in store.busy_hours(&namespaces, window).await? {
                    let Some(of) = part.of(&place, pods) else { continue };
                    let of_day = u32::try_from(hour.rem_euclid(DAY) / 3_600).unwrap_or(0);
                    of.course.add_busy_hour(pod_of(&place), (pods.age(hour), of_day), cpu);
                }
            }
            Question::Hours => {
                for (place, last, hours) in store.hours_seen(&namespaces, window).await? {
                    let of = part.of(&place, pods).into_iter();
                    of.for_each(|of| of.course.pods.entry(pod_of(&place)).or_default().hours.add(last, hours));
                }
            }
            Question::Ended => {
                for (place, last) in store.ended(&namespaces, window.to).await? {
                    let of = part.of(&place, pods).into_iter();
                    of.for_each(|of| of.course.pods.entry(pod_of(&place)).or_default().end = Some(last));
                }
            }
            Question::Kills => {
                for Killed { container, at, memory, is_limit } in store.kills(&namespaces, window).await? {
                    part.add_kill(&container, (at, memory), is_limit, pods);
                }
            }
        }
        Ok(part)
    }
}
