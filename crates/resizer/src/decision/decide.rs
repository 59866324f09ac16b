//! Decides about a workload.

use crate::decision::amounts::qos;
use crate::decision::rules::DAY;
use crate::decision::sizing::{self, Before};
use crate::decision::{
    ComputeResource, ContainerSize, Direction, Event, Harm, Kubelet, Mode, Note, ObservedContainer, ObservedPod, Past,
    Phase, PodChange, Readiness, Record, ResizeReason, Resized, Rules, Time, Workload,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decision {
    /// To be stored, if it differs, before any resize is sent.
    pub record: Record,
    pub resizes: Vec<Resize>,
    pub notes: Vec<Note>,
}

/// A `PATCH` of `pods/resize`, on condition of the version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resize {
    pub uid: String,
    pub pod: String,
    pub version: String,
    pub containers: Vec<Resized>,
}

/// The reason that a change is not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It would be refused or would wait.
    Refused(String),
    /// The pod has another version than the one that was read.
    Changed,
}

/// Returns why a change is not begun: bounds of LimitRanges and quotas, room of the node. The changes
/// are those under way, which may be made any moment.
pub type Fits<'a> = &'a mut (dyn FnMut(&PodChange, &[PodChange]) -> Result<(), Unfit> + Send);

/// Decides about a workload. `free` is how many of its pods may be changed at once, for the namespace and the cluster.
pub fn decide(workload: &Workload, record: &Record, now: Time, rules: &Rules, free: usize, fits: Fits<'_>) -> Decision {
    let mut step =
        DecisionStep { workload, now, rules, record: record.clone(), resizes: Vec::new(), notes: Vec::new() };
    step.record.forget_old(workload, now, rules);
    for change in std::mem::take(&mut step.record.changes) {
        step.advance(change);
    }
    step.begin(free, fits);
    let DecisionStep { record, resizes, notes, .. } = step;
    Decision { record, resizes, notes }
}

/// Takes back the last change of each pod, because a person wants it. Its containers are left alone for as long as if it had done
/// harm.
pub fn undo(workload: &Workload, record: &Record, now: Time, rules: &Rules) -> Decision {
    let mut step =
        DecisionStep { workload, now, rules, record: record.clone(), resizes: Vec::new(), notes: Vec::new() };
    workload.pods.iter().for_each(|pod| step.undo(pod));
    let DecisionStep { record, resizes, notes, .. } = step;
    Decision { record, resizes, notes }
}

struct DecisionStep<'a> {
    workload: &'a Workload,
    now: Time,
    rules: &'a Rules,
    record: Record,
    resizes: Vec<Resize>,
    notes: Vec<Note>,
}

impl DecisionStep<'_> {
    /// Keeps a change with its next phase, or ends it.
    fn advance(&mut self, change: PodChange) {
        let Some(pod) = self.workload.pods.iter().find(|pod| pod.uid == change.uid) else { return };
        match change.phase {
            Phase::Asked { .. } | Phase::Withheld { .. } => self.advance_begun(change, pod),
            Phase::Watched { .. } | Phase::TakenBack { .. } => self.advance_made(change, pod),
        }
    }

    /// Goes on with a change that was not seen to be made.
    fn advance_begun(&mut self, mut change: PodChange, pod: &ObservedPod) {
        let is_withheld = matches!(change.phase, Phase::Withheld { .. });
        if change.is_at(pod, |of| of.to) {
            let was_undone = change.containers.iter().any(|of| {
                self.record.harms(pod, &of.name, change.direction, self.now).any(|harm| *harm == Harm::Undone)
            });
            if is_withheld && was_undone && !change.raises_limit() {
                return self.take_back(change, pod, Harm::Undone);
            }
            change.phase = Phase::Watched { since: self.now };
            self.note_new_limits(&change, pod);
        } else if !change.may_still_be_made(pod) {
            if pod.left_alone.is_none() && !change.is_at(pod, |of| of.from) && !change.is_replaced(pod) {
                return self.interfered(&change, pod);
            }
            self.record.forget(&change);
            return self.note(pod, Event::Dropped("the pod has changed since"));
        } else if is_withheld || !self.is_still_right(&change, pod) {
            change.phase = Phase::Withheld { version: pod.version.clone() };
        } else {
            if self.now - change.begun > self.rules.watch {
                // It counts as a change of today.
                self.record.forget(&change);
                change.begun = self.now;
                self.record.remember(&change);
            }
            self.resizes.push(resize(pod, change.containers.clone()));
        }
        self.record.changes.push(change);
    }

    /// Goes on with a change that was made: watches it, or sees to it that it is taken back.
    fn advance_made(&mut self, mut change: PodChange, pod: &ObservedPod) {
        let (is_old, is_new) = (change.is_at(pod, |of| of.from), change.is_at(pod, |of| of.to));
        let is_in_force = change.limit_is_in_force(pod);
        let is_undone = matches!(change.phase, Phase::TakenBack { harm: Harm::Undone, .. });
        match &mut change.phase {
            Phase::TakenBack { .. } if is_old => {}
            _ if pod.left_alone.is_some() || pod.mode == Mode::Off && !is_undone => {
                self.note(pod, Event::Dropped("the pod ends, asks to be left, or is somebody else's now"));
            }
            Phase::TakenBack { version, .. } if is_new => {
                if is_in_force {
                    // The kubelet has made it after all.
                    change.phase = Phase::Watched { since: self.now };
                } else {
                    version.clone_from(&pod.version);
                    self.resizes.push(resize(pod, change.reversed()));
                }
                self.record.changes.push(change);
            }
            &mut Phase::Watched { since } if is_new => match self.harm(&change, pod, since) {
                Some(harm) => {
                    self.record.strike(&change, &harm, self.now, self.rules);
                    self.take_back(change, pod, harm);
                }
                None => self.watch(change, pod),
            },
            _ => self.interfered(&change, pod),
        }
    }

    /// Ends a change whose pod has neither its old nor its new size. It stays among those that were begun.
    fn interfered(&mut self, change: &PodChange, pod: &ObservedPod) {
        self.record.strike(change, &Harm::Interference, self.now, self.rules);
        self.note(pod, Event::Dropped("somebody else, or admission, has given the pod another size"));
    }

    fn take_back(&mut self, mut change: PodChange, pod: &ObservedPod, harm: Harm) {
        let containers = change.reversed();
        self.resizes.push(resize(pod, containers.clone()));
        change.phase = Phase::TakenBack { version: pod.version.clone(), harm: harm.clone(), refused: 0 };
        self.note(pod, Event::TakingBack { harm, containers });
        self.record.changes.push(change);
    }

    fn undo(&mut self, pod: &ObservedPod) {
        let last = self.record.past_of(&pod.uid).find(|past| !past.containers.is_empty());
        let again = |past: &Past| PodChange {
            uid: pod.uid.clone(),
            pod: pod.name.clone(),
            direction: past.direction,
            why: past.why,
            begun: past.begun,
            containers: past.containers.clone(),
            phase: Phase::Watched { since: past.begun },
        };
        let change = self.record.change_of(&pod.uid).cloned().or_else(|| last.map(again));
        let Some(mut change) = change else { return };
        let (is_old, is_new) = (change.is_at(pod, |of| of.from), change.is_at(pod, |of| of.to));
        let refusal = match (&pod.left_alone, &change.phase) {
            (Some(why), _) => Some(why.as_str()),
            (None, Phase::TakenBack { .. }) if is_new && !change.limit_is_in_force(pod) => None,
            _ if is_new => change.raises_limit().then_some("a memory limit is never lowered in place"),
            (None, Phase::Asked { .. }) => None,
            _ if is_old => Some("the pod has the size from before"),
            _ => Some("somebody else has resized the pod since"),
        };
        if let Some(why) = refusal {
            return self.note(pod, Event::NotTakenBack(why.to_owned()));
        }
        self.record.strike(&change, &Harm::Undone, self.now, self.rules);
        self.record.changes.retain(|of| of.uid != pod.uid);
        match change.phase {
            Phase::Asked { version } if !is_new => {
                let why = "it may be made at this moment, and is taken back as soon as it is seen";
                self.note(pod, Event::NotTakenBack(why.to_owned()));
                change.phase = Phase::Withheld { version };
                self.record.changes.push(change);
            }
            _ => self.take_back(change, pod, Harm::Undone),
        }
    }

    /// Returns true if a change that was begun earlier would still be begun. The caller has not asked again whether it fits:
    /// its room is reserved by the record.
    fn is_still_right(&self, change: &PodChange, pod: &ObservedPod) -> bool {
        let is_allowed = pod.left_alone.is_none() && allows(pod.mode, change.why);
        let is_enough = |of: &Resized| {
            let is_free = self.record.harms(pod, &of.name, change.direction, self.now).next().is_none();
            is_free && pod.container(&of.name).is_some_and(|container| is_enough(container, of, self.now, self.rules))
        };
        is_allowed
            && (change.direction == Direction::Up
                || !self.workload.is_rolling_out
                    && pod.readiness == Readiness::Ready
                    && change.containers.iter().all(is_enough))
    }

    /// Watches on, or lets the change settle.
    fn watch(&mut self, change: PodChange, pod: &ObservedPod) {
        let Phase::Watched { since } = change.phase else { return };
        let watched_for = self.now - since;
        let counts_after = self.note_new_limits(&change, pod);
        let killed = change.containers.iter().filter_map(|of| pod.container(&of.name)?.killed).max();
        if change.direction == Direction::Up && killed > Some(counts_after) {
            // It was not enough.
            return;
        }
        let is_measured = change.containers.iter().all(|of| {
            let used = pod.container(&of.name).and_then(|container| container.used(self.now, self.rules));
            used.is_some_and(|used| used.at > since)
        });
        let is_seen = is_measured && pod.readiness == Readiness::Ready || change.direction == Direction::Up;
        let is_done = pod.kubelet == Kubelet::Done && is_seen;
        if watched_for >= self.rules.watch && is_done {
            self.record.past_mut(&change).into_iter().for_each(|past| past.quiet = true);
            self.note(pod, Event::Settled);
        } else if watched_for >= self.rules.kubelet_is_stuck_after && change.direction == Direction::Up {
            self.note(pod, Event::Dropped("the kubelet has not made it yet"));
        } else {
            if watched_for >= self.rules.watch {
                let why = match (pod.readiness, pod.kubelet) {
                    (Readiness::NotHeardOf, _) => "its node is not heard of",
                    (_, Kubelet::Done) => "it has no recent usage",
                    _ => "the kubelet has not made it",
                };
                self.note(pod, Event::Unsettled(why));
            }
            self.record.changes.push(change);
        }
    }

    /// Notes in the record when the containers were first seen to run with their new memory limits. Returns the time
    /// after which kills are kills at these.
    fn note_new_limits(&mut self, change: &PodChange, pod: &ObservedPod) -> Time {
        let runs_with = |of: &Resized| pod.container(&of.name)?.runs_with;
        let is_made =
            change.containers.iter().all(|of| runs_with(of).is_some() && runs_with(of) == of.to.limits.memory);
        // A kill that is known already was at the limits of before, whatever the clock of the node says.
        let killed = change.containers.iter().filter_map(|of| pod.container(&of.name)?.killed);
        let made_at = killed.chain([self.now]).max();
        let rules = self.rules;
        self.record.past_mut(change).map_or(change.begun, |past| {
            if past.raises_limit && is_made && past.made.is_none() {
                past.made = made_at;
            }
            past.kills_count_after(rules)
        })
    }

    /// Returns what got worse since a change was made. Nothing gets worse by more room, but no change is left waiting.
    fn harm(&self, change: &PodChange, pod: &ObservedPod, since: Time) -> Option<Harm> {
        match pod.kubelet {
            Kubelet::Deferred => return Some(Harm::Deferred),
            Kubelet::Infeasible => return Some(Harm::Infeasible),
            Kubelet::Done | Kubelet::InProgress => {}
        }
        if change.direction == Direction::Up {
            return None;
        }
        for of in &change.containers {
            let Some(container) = pod.container(&of.name) else { continue };
            if container.killed.is_some_and(|killed| killed >= change.begun) {
                return Some(Harm::Killed);
            }
            if container.restarts > of.restarts {
                return Some(Harm::Restarted);
            }
            let Some(used) = container.used(self.now, self.rules).filter(|used| used.at > since) else { continue };
            let lacks = |resource: ComputeResource| {
                let amounts = used.amounts.of(resource).zip(of.to.requests.of(resource));
                amounts.is_some_and(|(used, request)| self.rules.is_lacking(resource, used, request))
            };
            if ComputeResource::ALL.into_iter().any(lacks) {
                return Some(Harm::UsesMore);
            }
            let stalled = |percent: u32| percent > of.stalled_percent.unwrap_or(0) + self.rules.stall_points;
            if of.to.requests.cpu < of.from.requests.cpu && used.stalled_percent.is_some_and(stalled) {
                return Some(Harm::Stalled);
            }
        }
        // A node that stays away is no moment's silence, and nothing else ends such a change: some pods are never evicted.
        let is_late = self.now - since >= self.rules.kubelet_is_stuck_after;
        match (pod.readiness, pod.kubelet) {
            (Readiness::NotReady, _) => return Some(Harm::NotReady),
            (Readiness::NotHeardOf, _) if is_late => return Some(Harm::NotReady),
            (_, Kubelet::InProgress) if is_late => return Some(Harm::Infeasible),
            _ => {}
        }
        (self.workload.objective_is_met == Some(false)).then_some(Harm::Objective)
    }

    /// Begins changes, the most urgent first, as many as may be under way at once.
    fn begin(&mut self, free: usize, fits: Fits<'_>) {
        let mut wanted: Vec<(&ObservedPod, PodChange)> =
            self.workload.pods.iter().filter_map(|pod| Some((pod, self.change(pod)?))).collect();
        wanted.sort_by_cached_key(|(_, change)| (change.direction, change.why, change.uid.clone()));
        let is_full = self.record.all_past().count() >= self.rules.most_past;
        let quiet = [Direction::Up, Direction::Down].map(|direction| self.quiet(direction));
        for (pod, change) in wanted {
            let of_today = self.record.past_of(&pod.uid).filter(|past| self.now - past.begun < DAY).count();
            let others = || self.record.changes.iter().filter(|of| of.uid != pod.uid).cloned().collect::<Vec<_>>();
            let (why, containers) = (change.why, change.containers.clone());
            let event = match () {
                () if !keeps_class(pod, &change) => Event::DoesNotFit("the pod would get another QoS class".to_owned()),
                () if !allows(pod.mode, why) => Event::Would { why, containers },
                () if of_today >= self.rules.changes_a_day => Event::Waits("the pod was changed often enough today"),
                () if is_full => Event::Waits("too many pods were changed lately to remember more"),
                () if self.record.under_way() >= self.at_once(&change, quiet).min(free) => {
                    Event::Waits("other pods come first")
                }
                () => match fits(&change, &others()) {
                    Ok(()) => Event::Begun { why, containers },
                    Err(Unfit::Refused(why)) => Event::DoesNotFit(why),
                    Err(Unfit::Changed) => Event::Later,
                },
            };
            let is_begun = matches!(event, Event::Begun { .. });
            self.note(pod, event);
            if !is_begun {
                continue;
            }
            self.resizes.push(resize(pod, change.containers.clone()));
            // A raise takes the place of a decrease that was not made: both are sent on condition of the same version.
            let again = self.record.change_of(&pod.uid).filter(|of| of.containers == change.containers);
            if let Some(again) = again.cloned() {
                self.record.forget(&again);
            }
            self.record.changes.retain(|of| of.uid != pod.uid);
            self.record.remember(&change);
            self.record.changes.push(change);
        }
    }

    /// Returns how many changes of the workload may be under way with this one: one, after a quiet one a tenth of the pods, then all.
    fn at_once(&self, change: &PodChange, [quiet_up, quiet_down]: [usize; 2]) -> usize {
        let all = self.rules.at_once.workload;
        if matches!(change.why, ResizeReason::Killed | ResizeReason::Used) {
            return all;
        }
        let tenth = self.workload.pods.len().div_ceil(10);
        match if change.direction == Direction::Up { quiet_up } else { quiet_down } {
            0 => 1,
            quiet if quiet <= tenth => tenth.min(all),
            _ => all,
        }
    }

    /// The changes of a day that nothing got worse by.
    fn quiet(&self, direction: Direction) -> usize {
        let is_quiet = |past: &&Past| past.quiet && past.direction == direction && self.now - past.begun < DAY;
        self.record.all_past().filter(is_quiet).count()
    }

    fn change(&self, pod: &ObservedPod) -> Option<PodChange> {
        let change = self.record.change_of(&pod.uid);
        // A decrease that was not made may give way to a raise, and what is withheld to what is right.
        let may_give_way = |change: &PodChange| match change.phase {
            Phase::Asked { .. } => change.direction == Direction::Down,
            Phase::Withheld { .. } => true,
            Phase::Watched { .. } | Phase::TakenBack { .. } => false,
        };
        if change.is_some_and(|change| !may_give_way(change)) {
            return None;
        }
        if pod.left_alone.is_some() || pod.mode == Mode::Off || pod.kubelet != Kubelet::Done {
            return None;
        }
        let past = || self.record.past_of(&pod.uid);
        let before = Before {
            now: self.now,
            last_change: past().map(|past| past.begun).max(),
            kills_count_after: past().map(|past| past.kills_count_after(self.rules)).max(),
            limit_raises: past().filter(|past| past.raises_limit).count(),
        };
        let is_free = |container: &&ObservedContainer, direction| {
            self.record.harms(pod, &container.name, direction, self.now).next().is_none()
        };
        let up = || pod.containers.iter().filter(|container| is_free(container, Direction::Up));
        let killed =
            |of: &ObservedContainer| Some((sizing::after_kill(of, &before, self.rules)?, ResizeReason::Killed));
        let only_killed = pod.mode == Mode::AfterOom && up().any(|of| killed(of).is_some());
        let up = up().filter_map(|of| {
            let raised = if only_killed { killed(of) } else { sizing::raised(of, &before, self.rules) };
            raised.map(|(size, why)| (of, size, why))
        });
        let up: Vec<(&ObservedContainer, ContainerSize, ResizeReason)> = up.collect();
        if let Some(why) = up.iter().map(|(_, _, why)| *why).min() {
            return self.of(pod, Direction::Up, why, up.iter().map(|(container, size, _)| (*container, *size)));
        }
        let is_other = |past: &&Past| change.is_none_or(|change| !past.is_of(change));
        let lowered_today =
            past().filter(is_other).any(|past| past.direction == Direction::Down && self.now - past.begun < DAY);
        let suffers = pod.readiness != Readiness::Ready || self.workload.objective_is_met == Some(false);
        if lowered_today || suffers || self.workload.is_rolling_out {
            return None;
        }
        if let Some(change) = change {
            // Another decrease could not be told from this one.
            let again =
                PodChange { begun: self.now, phase: Phase::Asked { version: pod.version.clone() }, ..change.clone() };
            let is_withheld = matches!(change.phase, Phase::Withheld { .. });
            return (is_withheld && self.is_still_right(&again, pod)).then_some(again);
        }
        let down = pod.containers.iter().filter(|container| is_free(container, Direction::Down));
        let down = down.filter_map(|container| Some((container, sizing::lowered(container, self.now, self.rules)?)));
        self.of(pod, Direction::Down, ResizeReason::Admission, down)
    }

    /// A change of some containers; none if there are none.
    fn of<'c>(
        &self,
        pod: &'c ObservedPod,
        direction: Direction,
        why: ResizeReason,
        sizes: impl Iterator<Item = (&'c ObservedContainer, ContainerSize)>,
    ) -> Option<PodChange> {
        let containers: Vec<Resized> = sizes
            .map(|(container, to)| Resized {
                name: container.name.clone(),
                from: container.size,
                to,
                restarts: container.restarts,
                stalled_percent: container.used.as_ref().and_then(|used| used.stalled_percent),
            })
            .collect();
        let phase = Phase::Asked { version: pod.version.clone() };
        let (uid, pod, begun) = (pod.uid.clone(), pod.name.clone(), self.now);
        let change = PodChange { uid, pod, direction, why, begun, containers, phase };
        (!change.containers.is_empty()).then_some(change)
    }

    fn note(&mut self, pod: &ObservedPod, event: Event) {
        self.notes.push(Note { pod: pod.name.clone(), event });
    }
}

fn keeps_class(pod: &ObservedPod, change: &PodChange) -> bool {
    let after = |container: &ObservedContainer| {
        let resized = change.containers.iter().find(|resized| resized.name == container.name);
        resized.map_or(container.size, |resized| resized.to)
    };
    qos(pod.containers.iter().map(|of| of.size)) == qos(pod.containers.iter().map(after))
}

fn allows(mode: Mode, why: ResizeReason) -> bool {
    match mode {
        Mode::Off | Mode::Observe => false,
        Mode::AfterOom => why == ResizeReason::Killed,
        Mode::On => true,
    }
}

/// Returns true if no request is lowered below what is wanted, used, or its floor.
fn is_enough(container: &ObservedContainer, of: &Resized, now: Time, rules: &Rules) -> bool {
    let Some(used) = container.used(now, rules) else { return false };
    ComputeResource::ALL.into_iter().all(|resource| {
        let Some(to) = of.to.requests.of(resource).filter(|to| of.from.requests.of(resource) != Some(*to)) else {
            return true;
        };
        [container.wanted, container.floor, used.amounts]
            .iter()
            .all(|least| least.of(resource).is_some_and(|least| to >= least))
    })
}

fn resize(pod: &ObservedPod, containers: Vec<Resized>) -> Resize {
    Resize { uid: pod.uid.clone(), pod: pod.name.clone(), version: pod.version.clone(), containers }
}
