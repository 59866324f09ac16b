//! The state that the caller stores for a workload: the changes under way, what was changed lately, and what is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::decision::rules::DAY;
use crate::decision::{Amounts, ComputeResource, ContainerSize, Kubelet, ObservedPod, Rules, Time, Workload};

/// The state of a workload, in one small object that is changed by compare-and-swap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    #[serde(default)]
    pub changes: Vec<PodChange>,
    /// The changes of the last week that still matter, by the uid of the pod, oldest first.
    #[serde(default)]
    pub past: BTreeMap<String, Vec<Past>>,
    #[serde(default)]
    pub left_alone: Vec<LeftAlone>,
}

/// A change of one pod from its start until it has settled or was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PodChange {
    pub uid: String,
    pub pod: String,
    pub direction: Direction,
    pub why: ResizeReason,
    pub begun: Time,
    pub containers: Vec<Resized>,
    pub phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Resized {
    pub name: String,
    pub from: ContainerSize,
    pub to: ContainerSize,
    /// Restarts before the change.
    pub restarts: u32,
    pub stalled_percent: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// May have been sent, on condition of this version of the pod.
    Asked { version: String },
    /// As before, but it is sent no more, because the API server refused it or it is no longer right. It is kept until the
    /// pod has another version: a request may still be under way.
    Withheld { version: String },
    /// The spec has the new size since then.
    Watched { since: Time },
    /// The old size may have been sent, on condition of this version.
    TakenBack {
        version: String,
        harm: Harm,
        /// The number of times that the API server has refused it.
        #[serde(default, skip_serializing_if = "is_zero")]
        refused: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Up,
    Down,
}

/// The reason of a change, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResizeReason {
    Killed,
    Used,
    Admission,
}

/// The reason that a change is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Harm {
    Killed,
    Restarted,
    NotReady,
    Stalled,
    UsesMore,
    Objective,
    Deferred,
    Infeasible,
    Interference,
    Refused(String),
    Undone,
}

/// A change that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Past {
    pub begun: Time,
    pub direction: Direction,
    pub why: ResizeReason,
    /// True once it was watched to its end and nothing got worse.
    pub quiet: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raises_limit: bool,
    /// When containers were first known to run with a raised memory limit, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Time>,
    /// The containers that it changed, if it can be undone: it is the last change of its pod, and not of too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Resized>,
}

/// A container that is not changed in one direction for some time, because such a change was taken back or refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftAlone {
    /// The name of the one pod that it is about: another may be on a node with room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    pub container: String,
    pub direction: Direction,
    pub strikes: u32,
    pub until: Time,
    pub harm: Harm,
}

impl Record {
    pub fn change_of(&self, uid: &str) -> Option<&PodChange> {
        self.changes.iter().find(|change| change.uid == uid)
    }

    /// The changes that count against the largest number at once.
    pub fn under_way(&self) -> usize {
        self.changes.iter().filter(|change| !matches!(change.phase, Phase::Withheld { .. })).count()
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Marks a change as refused by the API server. It is not tried again for as long as one that did harm; one that is taken back
    /// is tried some times, then given up: its place is for others. Returns true if it is given up, none if it is no news.
    pub fn refuse(&mut self, uid: &str, version: &str, why: &str, now: Time, rules: &Rules) -> Option<bool> {
        let is_it = |change: &PodChange| match &change.phase {
            Phase::Asked { version: of } | Phase::TakenBack { version: of, .. } => change.uid == uid && of == version,
            Phase::Withheld { .. } | Phase::Watched { .. } => false,
        };
        let at = self.changes.iter().position(is_it)?;
        let change = self.changes.get_mut(at)?;
        if let Phase::TakenBack { refused, .. } = &mut change.phase {
            *refused += 1;
            let (is_first, is_last) = (*refused == 1, *refused >= rules.most_refused);
            if is_last {
                self.changes.remove(at);
            }
            return (is_first || is_last).then_some(is_last);
        }
        change.phase = Phase::Withheld { version: version.to_owned() };
        let (change, harm) = (change.clone(), Harm::Refused(why.chars().take(500).collect()));
        self.strike(&change, &harm, now, rules);
        Some(false)
    }

    pub(crate) fn strike(&mut self, change: &PodChange, harm: &Harm, now: Time, rules: &Rules) {
        let of_pods = self.left_alone.iter().filter(|left| now < left.until).filter_map(|left| left.pod.as_ref());
        let of_pods = of_pods.collect::<BTreeSet<_>>().len();
        let is_of_node = matches!(harm, Harm::Deferred | Harm::Infeasible) && of_pods < rules.most_full_nodes;
        let pod = is_of_node.then(|| change.pod.clone());
        for resized in &change.containers {
            let [first, further] = rules.left_alone;
            let is_it = |left: &&mut LeftAlone| {
                left.container == resized.name && left.direction == change.direction && left.pod == pod
            };
            if let Some(left) = self.left_alone.iter_mut().find(is_it) {
                left.harm = harm.clone();
                // Changes that were made at the same time are one strike.
                if left.until <= now {
                    left.strikes += 1;
                    left.until = now + further;
                }
            } else {
                self.left_alone.push(LeftAlone {
                    pod: pod.clone(),
                    container: resized.name.clone(),
                    direction: change.direction,
                    strikes: 1,
                    until: now + first,
                    harm: harm.clone(),
                });
            }
        }
    }

    /// The harms by which a container of a pod is still left alone.
    pub(crate) fn harms(
        &self,
        pod: &ObservedPod,
        container: &str,
        direction: Direction,
        now: Time,
    ) -> impl Iterator<Item = &Harm> {
        let is_it = move |left: &&LeftAlone| {
            let is_of_pod = left.pod.as_ref().is_none_or(|name| *name == pod.name);
            is_of_pod && left.container == container && left.direction == direction && now < left.until
        };
        self.left_alone.iter().filter(is_it).map(|left| &left.harm)
    }

    pub(crate) fn remember(&mut self, change: &PodChange) {
        let raises_limit = change.raises_limit();
        let PodChange { uid, begun, direction, why, containers, .. } = change.clone();
        let of_pod = self.past.entry(uid).or_default();
        of_pod.iter_mut().for_each(|past| past.containers.clear());
        of_pod.push(Past { begun, direction, why, quiet: false, raises_limit, made: None, containers });
    }

    /// Forgets a change that was not made.
    pub(crate) fn forget(&mut self, change: &PodChange) {
        if let Some(of_pod) = self.past.get_mut(&change.uid) {
            of_pod.retain(|past| !past.is_of(change));
        }
        self.past.retain(|_, of_pod| !of_pod.is_empty());
    }

    /// The entry of a change under way among those that were begun.
    pub(crate) fn past_mut(&mut self, change: &PodChange) -> Option<&mut Past> {
        self.past.get_mut(&change.uid).into_iter().flatten().find(|past| past.is_of(change))
    }

    /// Keeps what still matters: the changes of a day, for a week the raises of limits and what can be undone.
    pub(crate) fn forget_old(&mut self, workload: &Workload, now: Time, rules: &Rules) {
        let present: BTreeSet<&str> = workload.pods.iter().map(|pod| pod.uid.as_str()).collect();
        let mut undoable: Vec<(Time, usize)> = self
            .all_past()
            .filter(|past| !past.containers.is_empty())
            .map(|past| (past.begun, past.containers.len()))
            .collect();
        undoable.sort_unstable_by(|one, other| other.cmp(one));
        let mut containers = 0;
        let too_many = undoable.into_iter().find(|(_, count)| {
            containers += count;
            containers > rules.most_undoable
        });
        for (uid, of_pod) in &mut self.past {
            let is_present = present.contains(uid.as_str());
            of_pod.retain_mut(|past| {
                if !is_present || too_many.is_some_and(|(begun, _)| past.begun <= begun) {
                    past.containers.clear();
                }
                let matters = is_present && (!past.containers.is_empty() || past.raises_limit);
                now - past.begun < if matters { 7 * DAY } else { DAY }
            });
        }
        self.past.retain(|_, of_pod| !of_pod.is_empty());
        let is_gone = |name: &String| workload.pods.iter().all(|pod| pod.name != *name);
        self.left_alone
            .retain(|left| now - left.until < rules.strikes_count_for && !left.pod.as_ref().is_some_and(is_gone));
    }

    pub fn all_past(&self) -> impl Iterator<Item = &Past> {
        self.past.values().flatten()
    }

    pub(crate) fn past_of(&self, uid: &str) -> impl Iterator<Item = &Past> {
        self.past.get(uid).into_iter().flatten()
    }
}

impl Past {
    pub(crate) fn is_of(&self, change: &PodChange) -> bool {
        (self.begun, self.direction) == (change.begun, change.direction)
    }

    /// The time from which on containers are killed at their limits of after the change.
    pub(crate) fn kills_count_after(&self, rules: &Rules) -> Time {
        let made = self.made.unwrap_or(self.begun + rules.kubelet_is_stuck_after);
        if self.raises_limit { made } else { self.begun }
    }
}

impl PodChange {
    pub(crate) fn reversed(&self) -> Vec<Resized> {
        self.containers.iter().map(|of| Resized { from: of.to, to: of.from, ..of.clone() }).collect()
    }

    /// Returns true if taking it back would lower a memory limit.
    pub(crate) fn raises_limit(&self) -> bool {
        self.containers.iter().any(|of| of.from.limits.memory < of.to.limits.memory)
    }

    /// Returns true if it raises a memory limit, and the kubelet has set that or is about to.
    pub(crate) fn limit_is_in_force(&self, pod: &ObservedPod) -> bool {
        self.raises_limit() && matches!(pod.kubelet, Kubelet::Done | Kubelet::InProgress)
    }

    /// Returns true if it is a raise that took the place of a decrease, which was made by a late request.
    pub(crate) fn is_replaced(&self, pod: &ObservedPod) -> bool {
        let is_less = |now: Amounts, from: Amounts| ComputeResource::ALL.iter().any(|of| now.of(*of) < from.of(*of));
        let is_smaller =
            |of: &Resized| pod.container(&of.name).is_some_and(|now| is_less(now.size.requests, of.from.requests));
        self.direction == Direction::Up && self.containers.iter().any(is_smaller)
    }

    /// Returns true if the spec of the pod has the size from before the change, or after it.
    pub(crate) fn is_at(&self, pod: &ObservedPod, size: impl Fn(&Resized) -> ContainerSize) -> bool {
        self.containers.iter().all(|of| pod.container(&of.name).is_some_and(|container| container.size == size(of)))
    }

    /// Returns true if a request for the change may still be under way: the pod is as it was when the change was sent.
    pub(crate) fn may_still_be_made(&self, pod: &ObservedPod) -> bool {
        let (Phase::Asked { version } | Phase::Withheld { version }) = &self.phase else { return false };
        *version == pod.version && self.is_at(pod, |of| of.from)
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl fmt::Display for ResizeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "it was killed for memory",
            Self::Used => "it uses more than it requests",
            Self::Admission => "it would be admitted so today",
        })
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "a container was killed for memory",
            Self::Restarted => "a container restarted",
            Self::NotReady => "the pod is no longer ready",
            Self::Stalled => "a container is throttled or waits for CPU more than before",
            Self::UsesMore => "a container uses more than its new request",
            Self::Objective => "the expression of its team says that the workload suffers",
            Self::Deferred => "the kubelet deferred the resize",
            Self::Infeasible => "the kubelet cannot make the resize",
            Self::Interference => "somebody else, or admission, gave the pod another size",
            Self::Undone => "somebody has asked for it",
            Self::Refused(why) => return write!(f, "the API server refused the resize: {why}"),
        })
    }
}
