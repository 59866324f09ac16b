//! Reads OOM kills from kube-state-metrics.
//!
//! kube-state-metrics has states, not events: "the last end was an OOM kill" stays true until the next end. A kill
//! is a change of state between two points: the count of restarts rose and the last end was a kill; or, in a pod that
//! is not started again, the end appeared. The first state of a container is no change, so that no kill is reported twice. A
//! change that was not observed counts where it is seen first.

use std::collections::{BTreeMap, BTreeSet};

use headroom_usage::sample::{Resource, Window};

use super::{ContainerRef, MAX_NAMED, StoreReader, unless_too_much};
use crate::SourceError;
use crate::prometheus::answer::AnswerSeries;
use crate::prometheus::names::ContainerLabels;
use crate::prometheus::query::PromQl;
use crate::prometheus::selector::{Match, PRESENT};

/// The time before a window that is read too, for the first step to be compared with.
const LOOK_BACK_SECONDS: i64 = 300;
/// The longest absence of kube-state-metrics for which a count of restarts that is higher afterwards is compared with the
/// one before.
const AWAY_SECONDS: i64 = 6 * 3_600;

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

/// The states of the containers of some namespaces.
#[derive(Debug, Default)]
struct States {
    /// While the last end of a container that runs again was a kill.
    killed_and_restarted: Timelines,
    /// While a container in a failed pod is terminated by an OOM kill.
    killed_for_good: Timelines,
    restarts: Timelines,
    /// The last count of restarts from before all of these.
    restarts_before: Timelines,
}

/// Points by container, in order of time.
#[derive(Debug, Default)]
struct Timelines(BTreeMap<ContainerRef, Vec<(i64, f64)>>);

impl Timelines {
    fn add(&mut self, row: &AnswerSeries, place: &ContainerLabels) {
        self.0.entry(ContainerRef::of(row, place)).or_default().extend(row.points());
    }

    fn before(&self, container: &ContainerRef, time: i64) -> Option<f64> {
        let points = self.0.get(container)?;
        points.iter().rev().find(|(at, _)| *at < time).map(|(_, value)| *value)
    }

    /// The largest value in the `seconds` before and at `time`.
    fn peak(&self, container: &ContainerRef, time: i64, seconds: i64) -> Option<f64> {
        let points = self.0.get(container)?;
        let near = points.iter().filter(|(at, _)| time - seconds <= *at && *at <= time);
        near.map(|(_, value)| *value).reduce(f64::max)
    }
}

impl States {
    /// Returns true if a count of restarts after a kill has no earlier count to compare with.
    fn lacks_restarts(&self, window: Window) -> bool {
        self.killed_and_restarted.0.keys().any(|key| {
            let first = self.restarts.0.get(key).and_then(|points| points.first());
            first.is_some_and(|(at, _)| window.contains(*at))
        })
    }

    /// Container and time of each kill in the window.
    fn kills(&self, window: Window) -> Vec<(&ContainerRef, i64)> {
        let mut kills = BTreeSet::new();
        for (container, killed) in &self.killed_and_restarted.0 {
            let Some(restarts) = self.restarts.0.get(container) else { continue };
            let first = restarts.first().map_or(0, |(at, _)| *at);
            let mut before = self.restarts_before.before(container, first);
            for (at, now) in restarts {
                if before.is_some_and(|before| *now > before) && killed.iter().any(|(time, _)| time == at) {
                    kills.insert((container, *at));
                }
                before = Some(*now);
            }
        }
        for (container, dead) in &self.killed_for_good.0 {
            let Some((at, _)) = dead.first() else { continue };
            if self.restarts.before(container, *at).is_some() {
                kills.insert((container, *at));
            }
        }
        kills.into_iter().filter(|(_, at)| window.contains(*at)).collect()
    }
}

impl StoreReader {
    /// The containers of these namespaces that were killed because their memory ran out. Most namespaces have none, and cost two
    /// questions; the rest is asked of the pods that have one.
    pub async fn kills(&self, namespaces: &[&str], window: Window) -> Result<Vec<Killed>, SourceError> {
        // Without kube-state-metrics nothing says why a container ended.
        let Some(state) = &self.names.state else { return Ok(Vec::new()) };
        let queries = self.queries();
        let step = i64::from(self.step_seconds);
        let wide = Window { from: window.from - self.steps_in(LOOK_BACK_SECONDS), to: window.to };
        let timelines = async |question: PromQl| {
            let mut found = Timelines::default();
            self.range(&question, wide, &mut |row| found.add(&row, &state.place)).await?;
            Ok::<_, SourceError>(found)
        };
        let mut states = States {
            killed_and_restarted: timelines(queries.killed_and_restarted(namespaces, state)).await?,
            killed_for_good: timelines(queries.killed_for_good(namespaces, state)).await?,
            ..States::default()
        };
        let killed = states.killed_and_restarted.0.keys().chain(states.killed_for_good.0.keys());
        let (in_namespaces, pods): (BTreeSet<String>, BTreeSet<String>) =
            killed.map(|of| (of.namespace.clone(), of.pod.clone())).unzip();
        if pods.is_empty() {
            return Ok(Vec::new());
        }
        let [namespaces, pods] =
            [&in_namespaces, &pods].map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        // Any, if there are too many to name.
        let pods = if pods.len() > MAX_NAMED { PRESENT } else { Match::OneOf(&pods) };
        // The states stay true until the next end, so that only the count of restarts tells two kills apart.
        states.restarts = timelines(queries.restarts(&namespaces, state, pods, None)).await?;
        if states.lacks_restarts(window) {
            let question = queries.restarts(&namespaces, state, pods, Some(AWAY_SECONDS));
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
            limits.before(of, at).or_else(|| limits.peak(of, at, LOOK_BACK_SECONDS))
        };
        // Where no limit is known, the memory used before the kill stands for it.
        let without_limit = kills.iter().filter(|(of, at)| limit_of(of, *at).is_none());
        let without_limit: BTreeSet<&str> = without_limit.map(|(of, _)| of.namespace.as_str()).collect();
        let without_limit: Vec<&str> = without_limit.into_iter().collect();
        let mut used = Timelines::default();
        let question = queries.usage(&without_limit, Resource::Memory, false).filter(|_| !without_limit.is_empty());
        if let Some(question) = question {
            self.range(&question, wide, &mut |row| used.add(&row, &self.names.usage)).await?;
        }
        Ok(kills
            .into_iter()
            .filter_map(|(container, at)| {
                let limit = limit_of(container, at);
                let memory = limit.or_else(|| used.peak(container, at, LOOK_BACK_SECONDS))?;
                let (memory, is_limit) = (memory.round() as u64, limit.is_some());
                Some(Killed { container: container.clone(), at, memory, is_limit })
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timelines(points: &[(i64, f64)]) -> Timelines {
        let container = ContainerRef { namespace: "n".into(), pod: "p".into(), container: "c".into() };
        Timelines(BTreeMap::from([(container, points.to_vec())]))
    }

    fn check(states: &States, expected: &[i64]) {
        let kills: Vec<_> = states.kills(Window { from: 600, to: 1200 }).into_iter().map(|(_, at)| at).collect();
        assert_eq!(kills, expected);
    }

    #[test]
    fn a_kill_is_a_change_of_state_in_the_window_of_its_time() {
        let check = |killed: &[(i64, f64)], dead: &[(i64, f64)], restarts: &[(i64, f64)], expected: &[i64]| {
            let [killed_and_restarted, killed_for_good, restarts] = [killed, dead, restarts].map(timelines);
            check(&States { killed_and_restarted, killed_for_good, restarts, ..States::default() }, expected);
        };
        // A restart after a kill is reported once.
        let restarts = [(540, 0.0), (600, 0.0), (660, 1.0), (720, 1.0), (780, 2.0), (840, 2.0)];
        check(&[(660, 1.0), (720, 1.0), (780, 1.0), (840, 1.0)], &[], &restarts, &[660, 780]);
        // A restart after another end is no kill.
        check(&[(540, 1.0), (600, 1.0)], &[], &[(540, 1.0), (600, 1.0), (660, 2.0)], &[]);
        // Ends from before the watch began are not reported; the restarts of the dead one had been seen at 720.
        check(&[(660, 1.0), (720, 1.0)], &[(900, 1.0)], &[(660, 3.0), (720, 3.0)], &[900]);
        // A kill belongs to the window of its time.
        let restarts = [(480, 0.0), (540, 1.0), (600, 1.0), (1200, 2.0)];
        check(&[(540, 1.0), (600, 1.0), (1200, 1.0)], &[], &restarts, &[]);
        // A Job that is not started again is reported once it has ended.
        check(&[], &[(720, 1.0), (780, 1.0)], &[(660, 0.0), (720, 0.0)], &[720]);
    }

    #[test]
    fn a_kill_while_nobody_told_of_it_is_found_afterwards() {
        let mut states = States {
            killed_and_restarted: timelines(&[(900, 1.0), (960, 1.0)]),
            killed_for_good: timelines(&[(900, 1.0)]),
            restarts: timelines(&[(900, 1.0), (960, 1.0)]),
            ..States::default()
        };
        assert!(states.lacks_restarts(Window { from: 600, to: 1200 }));
        check(&states, &[]);
        states.restarts_before = timelines(&[(599, 1.0)]);
        check(&states, &[]); // nothing has changed, and who lay dead before may lie dead still
        states.restarts_before = timelines(&[(599, 0.0)]);
        check(&states, &[900]);
        assert!(!states.lacks_restarts(Window { from: 1200, to: 1800 }));
    }
}
