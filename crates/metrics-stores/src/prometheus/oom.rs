//! Finds the times of OOM kills. Pure.
//!
//! kube-state-metrics has states, not events: "the last end was an OOM kill" stays true until the next end. A kill
//! is a change of state between two points: the count of restarts rose and the last end was a kill; or, in a pod that
//! is not started again, the end appeared. The first state of a container is no change, so that no kill is reported twice. A
//! change that was not observed counts where it is seen first.

use std::collections::{BTreeMap, BTreeSet};

use headroom_usage::sample::Window;

use super::answer::{AnswerSeries, ContainerRef};
use super::names::ContainerLabels;

/// The time before a window that is read too, for the first step to be compared with.
pub const LOOK_BACK_SECONDS: i64 = 300;
/// The longest absence of kube-state-metrics for which a count of restarts that is higher afterwards is compared with the
/// one before.
pub const AWAY_SECONDS: i64 = 6 * 3_600;

/// The states of the containers of some namespaces.
#[derive(Debug, Default)]
pub struct States {
    /// While the last end of a container that runs again was a kill.
    pub killed_and_restarted: Timelines,
    /// While a container in a failed pod is terminated by an OOM kill.
    pub killed_for_good: Timelines,
    pub restarts: Timelines,
    /// The last count of restarts from before all of these.
    pub restarts_before: Timelines,
}

/// Points by container, in order of time.
#[derive(Debug, Default)]
pub struct Timelines(BTreeMap<ContainerRef, Vec<(i64, f64)>>);

impl Timelines {
    pub fn add(&mut self, row: &AnswerSeries, place: &ContainerLabels) {
        self.0.entry(ContainerRef::of(row, place)).or_default().extend(row.points());
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn containers(&self) -> impl Iterator<Item = &ContainerRef> {
        self.0.keys()
    }

    pub fn before(&self, container: &ContainerRef, time: i64) -> Option<f64> {
        let points = self.0.get(container)?;
        points.iter().rev().find(|(at, _)| *at < time).map(|(_, value)| *value)
    }

    /// The largest value in the `seconds` before and at `time`.
    pub fn peak(&self, container: &ContainerRef, time: i64, seconds: i64) -> Option<f64> {
        let points = self.0.get(container)?;
        let near = points.iter().filter(|(at, _)| time - seconds <= *at && *at <= time);
        near.map(|(_, value)| *value).reduce(f64::max)
    }
}

impl States {
    /// Returns true if a count of restarts after a kill has no earlier count to compare with.
    pub fn lacks_restarts(&self, window: Window) -> bool {
        self.killed_and_restarted.0.keys().any(|key| {
            let first = self.restarts.0.get(key).and_then(|points| points.first());
            first.is_some_and(|(at, _)| window.contains(*at))
        })
    }

    /// Container and time of each kill in the window.
    pub fn kills(&self, window: Window) -> Vec<(&ContainerRef, i64)> {
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
