//! Reads OOM kills from kube-state-metrics.

use std::collections::BTreeSet;

use headroom_usage::sample::{Resource, Window};

use super::{ContainerRef, MAX_NAMED, StoreReader, unless_too_much};
use crate::SourceError;
use crate::prometheus::oom;
use crate::prometheus::query::PromQl;
use crate::prometheus::selector::{Match, PRESENT};

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

impl StoreReader {
    /// The containers of these namespaces that were killed because their memory ran out. Most namespaces have none, and cost two
    /// questions; the rest is asked of the pods that have one.
    pub async fn kills(&self, namespaces: &[&str], window: Window) -> Result<Vec<Killed>, SourceError> {
        // Without kube-state-metrics nothing says why a container ended.
        let Some(state) = &self.names.state else { return Ok(Vec::new()) };
        let queries = self.queries();
        let step = i64::from(self.step_seconds);
        let wide = Window { from: window.from - self.steps_in(oom::LOOK_BACK_SECONDS), to: window.to };
        let timelines = async |question: PromQl| {
            let mut found = oom::Timelines::default();
            self.range(&question, wide, &mut |row| found.add(&row, &state.place)).await?;
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
        let pods = if pods.len() > MAX_NAMED { PRESENT } else { Match::OneOf(&pods) };
        // The states stay true until the next end, so that only the count of restarts tells two kills apart.
        states.restarts = timelines(queries.restarts(&namespaces, state, pods, None)).await?;
        if states.lacks_restarts(window) {
            let question = queries.restarts(&namespaces, state, pods, Some(oom::AWAY_SECONDS));
            // The step before the first.
            let at = Window { from: wide.from - step, to: wide.from };
            let mut add = |row| states.restarts_before.add(&row, &state.place);
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
        // Where no limit is known, the memory used before the kill stands for it.
        let without_limit = kills.iter().filter(|(of, at)| limit_of(of, *at).is_none());
        let without_limit: BTreeSet<&str> = without_limit.map(|(of, _)| of.namespace.as_str()).collect();
        let without_limit: Vec<&str> = without_limit.into_iter().collect();
        let mut used = oom::Timelines::default();
        let question = queries.usage(&without_limit, Resource::Memory, false).filter(|_| !without_limit.is_empty());
        if let Some(question) = question {
            self.range(&question, wide, &mut |row| used.add(&row, &self.names.usage)).await?;
        }
        Ok(kills
            .into_iter()
            .filter_map(|(container, at)| {
                let limit = limit_of(container, at);
                let memory = limit.or_else(|| used.peak(container, at, oom::LOOK_BACK_SECONDS))?;
                let (memory, is_limit) = (memory.round() as u64, limit.is_some());
                Some(Killed { container: container.clone(), at, memory, is_limit })
            })
            .collect())
    }
}
