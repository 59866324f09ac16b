//! Reads a metrics store, several queries at a time.
//!
//! A query counts as a whole or not at all; one that cannot be read is named, and what else was read stays. Whoever
//! interrupts the reading has what was read until then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use headroom_report::progress::Progress;
use headroom_sources::SourceError;
use headroom_sources::prometheus::Reader;
use headroom_sources::prometheus::reader::Killed;
use headroom_usage::observed::Kill;
use headroom_usage::sample::Window;
use headroom_usage::{cardinality, day_of};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::query_plan::{MAX_NAMESPACES, Query, Question, plan};
use super::{Histories, Part};
use crate::owners::{Owners, Pods, WorkloadRef};

/// The time before each next attempt.
const RETRY_DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(9)];

/// What came of a reading.
#[derive(Debug, Default)]
pub struct Reading {
    pub histories: Histories,
    /// What could not be read, and why.
    pub problems: Vec<String>,
    /// How many pods used something whose workload is gone.
    pub strangers: u64,
    pub is_interrupted: bool,
}

/// Adds the owners of pods that are gone by now. A problem is one line.
pub async fn add_owners(store: &Reader, namespaces: &[String], window: Window, owners: &mut Owners) -> Vec<String> {
    let mut problems = Vec::new();
    for namespaces in namespaces.chunks(MAX_NAMESPACES) {
        match store.owners(namespaces, window).await {
            Ok(all) => all.into_iter().for_each(|made| {
                let (kind, name) = made.object;
                owners.add(WorkloadRef::new(&made.namespace, kind, &name), &made.owner.0, &made.owner.1);
            }),
            Err(error) => problems.push(format!(
                "the owners of deleted pods are unknown, so these pods are assigned by their names: {error}"
            )),
        }
    }
    problems.truncate(1);
    problems
}

/// Reads a window of these namespaces.
pub async fn read(
    store: &Arc<Reader>,
    namespaces: &[String],
    window: Window,
    pods: Pods,
    concurrency: usize,
    progress: &Progress,
    stop: &CancellationToken,
) -> Reading {
    let mut reading = Reading::default();
    let mut queries = tokio::select! {
        queries = plan(store, namespaces, window, &mut reading.problems) => queries,
        () = stop.cancelled() => VecDeque::new(),
    };
    progress.begin(queries.len() as u64, "Reading usage");
    let (pods, today) = (Arc::new(pods), day_of(window.to - 1));
    let mut strangers = cardinality::Distinct::default();
    let mut running: JoinSet<(Query, Result<Part, SourceError>)> = JoinSet::new();
    loop {
        while running.len() < concurrency.max(1)
            && let Some(query) = queries.pop_front()
        {
            running.spawn(read_patiently(Arc::clone(store), Arc::clone(&pods), query));
        }
        let next = tokio::select! {
            next = running.join_next() => next,
            () = stop.cancelled() => break,
        };
        // A task that panicked has nothing to tell; there are none.
        let Some(Ok((query, read))) = next else { break };
        match (read, query.halves(store.step_seconds.into())) {
            (Ok(part), _) => {
                strangers.merge(&part.strangers);
                reading.histories.add(part, today);
                progress.advance(1);
            }
            (Err(SourceError::Overloaded(_)), Some(halves)) => {
                progress.lengthen(1);
                halves.into_iter().rev().for_each(|half| queries.push_front(half));
            }
            (Err(error), _) => {
                reading.problems.push(format!("not read: {query}: {error}"));
                progress.advance(1);
            }
        }
    }
    progress.end();
    reading.is_interrupted = stop.is_cancelled();
    reading.strangers = strangers.count();
    reading
}

async fn read_patiently(store: Arc<Reader>, pods: Arc<Pods>, query: Query) -> (Query, Result<Part, SourceError>) {
    let mut waits = RETRY_DELAYS.into_iter();
    loop {
        let read = read_query(&store, &pods, &query).await;
        match (&read, waits.next()) {
            (Err(SourceError::Temporary(reason)), Some(wait)) => {
                tracing::debug!(reason, "trying again");
                tokio::time::sleep(wait).await;
            }
            _ => return (query, read),
        }
    }
}

async fn read_query(store: &Reader, pods: &Pods, query: &Query) -> Result<Part, SourceError> {
    let (mut part, window) = (Part::default(), query.window);
    let step = u64::from(store.step_seconds);
    match query.question {
        Question::Usage(resource) => {
            store
                .usage(&query.namespaces, resource, window, &mut |place, samples| {
                    let hash = cardinality::hash(&place.namespace, &place.pod);
                    let Some(workload) = pods.of_pod(&place.namespace, &place.pod) else {
                        return part.strangers.add(hash);
                    };
                    // A day at a time, so that the day is looked for once.
                    let mut samples = samples.filter(|sample| window.contains(sample.time)).peekable();
                    while let Some(first) = samples.peek() {
                        let day = day_of(first.time);
                        let observed = part.day(workload, &place.container, day);
                        observed.pods.add(hash);
                        while let Some(sample) = samples.next_if(|sample| day_of(sample.time) == day) {
                            observed.add(resource, sample.time, sample.value, step);
                        }
                    }
                })
                .await?;
        }
        Question::Throttling => {
            for (place, counted) in store.throttling(&query.namespaces, window).await? {
                if let Some(workload) = pods.of_pod(&place.namespace, &place.pod) {
                    let sum = part.throttling.entry((workload, place.container)).or_default();
                    sum.periods += counted.periods;
                    sum.throttled += counted.throttled;
                }
            }
        }
        Question::Kills => {
            for namespace in &query.namespaces {
                for Killed { container: of, at, memory, is_limit } in store.kills(namespace, window).await? {
                    if let Some(workload) = pods.of_pod(&of.namespace, &of.pod) {
                        let observed = part.day(workload, &of.container, day_of(at));
                        observed.add_kill(Kill { at, memory, of: cardinality::hash(&of.pod, &of.container) });
                        if !is_limit {
                            part.killed_at_unknown_limit.insert((workload, of.container));
                        }
                    }
                }
            }
        }
    }
    Ok(part)
}
