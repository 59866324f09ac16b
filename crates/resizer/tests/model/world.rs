//! The states of the model, their possible next steps, and the properties that are checked.
//!
//! Memory is a handful of units, which pods use, request and are killed above. Two leaders run the loop as the program does:
//! read the record, read the pods, decide, store the record, send. Each of these may be late, lost or the last.

use std::fmt;

use headroom_fixtures::search::{Space, fingerprint};
use headroom_resizer::decision::{
    Amounts, AtOnce, ContainerSize, Decision, Harm, Kubelet, Mode, ObservedContainer, ObservedPod, Past, Phase,
    PodChange, Readiness, Record, Resize, Rules, Time, Unfit, Used, Workload, decide, undo,
};
use serde_json::json;

const DAY: Time = 86_400;
/// A tick in which changes settle.
const QUARTER: Time = 900;
const START: Time = 100 * DAY;

/// The difference between a naive variant and the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    NoCompareAndSwap,
    NoPodVersion,
    SentBeforeStored,
    PodsReadBeforeRecord,
    UnsentIsDropped,
    UnderWayIsNotReserved,
    BelowPeak,
    StaleUsage,
    NothingLeftAlone,
    NoDailyLimit,
    NotWatched,
    NoCanary,
    UndoneIsMadeAgain,
    SilenceHasNoEnd,
    LateRaiseIsNotSeen,
}

#[derive(Debug, Clone, Default)]
pub struct Scenario {
    pub name: &'static str,
    /// The request and the limit of each pod at the start.
    pub pods: Vec<(u64, u64)>,
    pub wanted: u64,
    /// The most that was used before; half of it is used now.
    pub peak: u64,
    /// The request that pods need to be ready, which nobody knows.
    pub needs: u64,
    pub bound: u64,
    /// The levels that usage of any pod may rise to, in this order.
    pub rises: Vec<u64>,
    /// True if the author allows limits to move with requests.
    pub scales: bool,
    pub leaders: usize,
    pub left: Left,
}

/// The number of times that something may still happen.
#[derive(Debug, Clone, Copy, Default, Hash)]
pub struct Left {
    /// The number of resizes that the kubelet may defer; it always defers those of the first pod, if it is `u8::MAX`.
    pub defers: u8,
    pub refusals: u8,
    pub deletions: u8,
    /// The number of times that the node of a pod is not heard of for a while, or for ever.
    pub silences: u8,
    /// The number of times that a person takes the last changes back.
    pub undos: u8,
    /// The number of times that a quarter of an hour passes, and a day.
    pub quarters: u8,
    pub days: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PodState {
    exists: bool,
    is_away: bool,
    version: u16,
    request: u64,
    limit: u64,
    used: u64,
    peak: u64,
    /// The usage and the peak that the store has, and since when.
    in_store: (Time, u64, u64),
    killed: Option<Time>,
    restarts: u32,
    kubelet: Kubelet,
    /// The times of changes that were made today, without those that were taken back.
    changed: Vec<Time>,
    /// The number of decreases.
    lowered: u8,
    /// The time from which it is left alone for a day, because a person took a change back.
    undone: Option<Time>,
}

/// The usage that a leader knew when it decided: the time at which each pod was measured, and its peak.
type UsageSeen = Vec<(Time, u64)>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Leader {
    Idle,
    /// Has read the record, with its version.
    Read(u16, Record),
    /// Has read the pods, in the variant that does so first.
    Saw(Vec<PodState>),
    Decided(u16, Decision, UsageSeen),
    /// Has stored the record, and sends; what it saw.
    Sends(Vec<Resize>, UsageSeen),
}

#[derive(Debug, Clone, Hash)]
pub struct World {
    now: Time,
    pods: Vec<PodState>,
    record: (u16, Record),
    leaders: Vec<Leader>,
    rises: usize,
    left: Left,
    violated: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub struct Step(&'static str, usize, &'static str);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.0, self.1, self.2)
    }
}

pub struct Model<'s> {
    pub scenario: &'s Scenario,
    pub flaw: Flaw,
}

impl Space for Model<'_> {
    type State = World;
    type Step = Step;

    fn start(&mut self) -> World {
        let Scenario { peak, .. } = *self.scenario;
        let pod = |(request, limit): &(u64, u64)| PodState {
            exists: true,
            is_away: false,
            version: 1,
            request: *request,
            limit: *limit,
            used: peak / 2,
            peak: peak.min(*limit),
            in_store: (START, peak / 2, peak.min(*limit)),
            killed: None,
            restarts: 0,
            kubelet: Kubelet::Done,
            changed: Vec::new(),
            lowered: 0,
            undone: None,
        };
        World {
            now: START,
            pods: self.scenario.pods.iter().map(pod).collect(),
            record: (1, Record::default()),
            leaders: vec![Leader::Idle; self.scenario.leaders],
            rises: 0,
            left: self.scenario.left,
            violated: None,
        }
    }

    fn next(&mut self, world: &World) -> Vec<(Step, World)> {
        let mut next = Vec::new();
        for leader in 0..world.leaders.len() {
            self.leader_steps(world, leader, &mut next);
        }
        for place in (0..world.pods.len()).filter(|place| world.pods[*place].exists) {
            self.pod_steps(world, place, &mut next);
        }
        if world.pods.iter().any(|pod| !pod.is_away && pod.in_store != (world.now, pod.used, pod.peak)) {
            let mut after = world.clone();
            measure(&mut after);
            next.push((Step("metrics", 0, "arrive"), after));
        }
        let Left { quarters, days, .. } = world.left;
        for (what, left, seconds) in [("a quarter", quarters, QUARTER), ("a day", days, DAY + 1)] {
            if left > 0 {
                let mut after = world.clone();
                after.now += seconds;
                if seconds == QUARTER {
                    after.left.quarters -= 1;
                } else {
                    after.left.days -= 1;
                    // Nobody sends what was decided yesterday.
                    after.leaders.fill(Leader::Idle);
                }
                next.push((Step("time", 0, what), after));
            }
        }
        next
    }

    fn violation(&mut self, world: &World) -> Option<&'static str> {
        if let Some(violated) = world.violated {
            return Some(violated);
        }
        let asked: u64 = world.pods.iter().filter(|pod| pod.exists).map(|pod| pod.request).sum();
        if asked > self.scenario.bound {
            return Some("BOUND: the pods request more than the bound");
        }
        if world.pods.iter().filter(|pod| pod.exists && pod.request < self.scenario.needs).count() > 1 {
            return Some("CANARY: two pods suffer from a decrease that no pod has stood");
        }
        self.unclean(world)
    }

    fn fingerprint(&self, world: &World) -> u128 {
        // It makes no difference which leader is which.
        let leaders = world.leaders.iter().map(fingerprint).fold(0, u128::wrapping_add);
        fingerprint((leaders, &world.now, &world.pods, &world.record, world.rises, world.left, world.violated))
    }
}

impl Model<'_> {
    fn rules(&self) -> Rules {
        let rules = Rules {
            worth_percent: 10,
            worth_memory: 1,
            memory_step: 1,
            kill_raise: 2,
            at_once: AtOnce { workload: 10, namespace: 10, cluster: 10 },
            ..Rules::default()
        };
        match self.flaw {
            Flaw::NothingLeftAlone => Rules { left_alone: [0, 0], ..rules },
            Flaw::NoDailyLimit => Rules { changes_a_day: 100, ..rules },
            Flaw::SilenceHasNoEnd => Rules { kubelet_is_stuck_after: Time::MAX / 2, ..rules },
            Flaw::StaleUsage => Rules { stale_after: Time::MAX / 2, ..rules },
            _ => rules,
        }
    }

    fn observed(&self, pods: &[PodState]) -> Workload {
        let pod = |(place, pod): (usize, &PodState)| {
            let memory = |amount: u64| Amounts { cpu: None, memory: Some(amount) };
            let size = |request, limit| ContainerSize { requests: memory(request), limits: memory(limit) };
            let (request, limit) = self.scenario.pods[place];
            let (at, used, peak) = pod.in_store;
            ObservedPod {
                uid: place.to_string(),
                name: format!("web-{place}"),
                version: pod.version.to_string(),
                mode: Mode::On,
                left_alone: None,
                readiness: match () {
                    () if pod.is_away => Readiness::NotHeardOf,
                    () if pod.request >= self.scenario.needs => Readiness::Ready,
                    () => Readiness::NotReady,
                },
                kubelet: pod.kubelet,
                containers: vec![ObservedContainer {
                    name: "web".to_owned(),
                    size: size(pod.request, pod.limit),
                    wanted: memory(self.scenario.wanted),
                    days: 30,
                    floor: memory(if self.flaw == Flaw::BelowPeak { 0 } else { peak }),
                    used: Some(Used { at, amounts: memory(used), ..Used::default() }),
                    killed: pod.killed,
                    runs_with: Some(pod.limit),
                    restarts: pod.restarts,
                    scales: self.scenario.scales.then_some(size(request, limit)),
                    ..ObservedContainer::default()
                }],
            }
        };
        let pods = pods.iter().enumerate().filter(|(_, pod)| pod.exists).map(pod).collect();
        Workload { pods, is_rolling_out: false, objective_is_met: None }
    }

    fn decide(&self, pods: &[PodState], record: &Record, now: Time) -> Decision {
        let mut workload = self.observed(pods);
        for pod in workload.pods.iter_mut().filter(|_| self.flaw == Flaw::LateRaiseIsNotSeen) {
            if record.change_of(&pod.uid).is_some_and(|change| matches!(change.phase, Phase::TakenBack { .. })) {
                pod.kubelet = Kubelet::Deferred;
            }
        }
        let request = |size: &ContainerSize| size.requests.memory.unwrap_or(0);
        let mut fits = |change: &PodChange, others: &[PodChange]| {
            let reserved = |uid: &str, spec: u64| {
                let reserves = others.iter().chain([change]).find(|of| of.uid == uid);
                let reserves = reserves.filter(|of| self.flaw != Flaw::UnderWayIsNotReserved || of.uid == change.uid);
                reserves.map_or(spec, |of| spec.max(request(&of.containers[0].from)).max(request(&of.containers[0].to)))
            };
            let sum: u64 = workload.pods.iter().map(|pod| reserved(&pod.uid, request(&pod.containers[0].size))).sum();
            if sum <= self.scenario.bound { Ok(()) } else { Err(Unfit::Refused("the bound".to_owned())) }
        };
        let mut record = record.clone();
        if self.flaw == Flaw::NoCanary {
            let quiet = json!({"begun": now, "direction": "down", "why": "admission", "quiet": true});
            let quiet: Past = serde_json::from_value(quiet).unwrap();
            record.past.insert("x".to_owned(), vec![quiet.clone(), quiet]);
        }
        let mut decision = decide(&workload, &record, now, &self.rules(), usize::MAX, &mut fits);
        let is_kept = |change: &PodChange| match change.phase {
            Phase::Withheld { .. } => self.flaw != Flaw::UnsentIsDropped,
            Phase::Watched { .. } => self.flaw != Flaw::NotWatched,
            Phase::Asked { .. } | Phase::TakenBack { .. } => true,
        };
        decision.record.changes.retain(is_kept);
        if self.flaw == Flaw::UndoneIsMadeAgain {
            decision.record.left_alone.retain(|left| left.harm != Harm::Undone);
        }
        // What people are told makes no difference.
        decision.notes.clear();
        decision
    }

    fn leader_steps(&self, world: &World, leader: usize, next: &mut Vec<(Step, World)>) {
        let mut step = |what, after: World| next.push((Step("leader", leader, what), after));
        let becomes = |state: Leader| {
            let mut after = world.clone();
            after.leaders[leader] = state;
            after
        };
        let decided = |version: u16, record: &Record, pods: &Vec<PodState>| {
            let decision = self.decide(pods, record, world.now);
            let is_idle = decision.record == *record && decision.resizes.is_empty();
            if is_idle { Leader::Idle } else { Leader::Decided(version, decision, usage_seen(pods)) }
        };
        match &world.leaders[leader] {
            Leader::Idle if self.flaw == Flaw::PodsReadBeforeRecord => {
                step("reads the pods", becomes(Leader::Saw(world.pods.clone())));
            }
            Leader::Idle => step("reads the record", becomes(Leader::Read(world.record.0, world.record.1.clone()))),
            Leader::Saw(pods) => step("decides", becomes(decided(world.record.0, &world.record.1, pods))),
            Leader::Read(version, record) => {
                step("decides", becomes(decided(*version, record, &world.pods)));
                if world.left.undos > 0 {
                    let mut decision = undo(&self.observed(&world.pods), record, world.now, &self.rules());
                    decision.notes.clear();
                    let mut after = becomes(Leader::Decided(*version, decision, usage_seen(&world.pods)));
                    after.left.undos -= 1;
                    step("undoes at a person's request", after);
                }
            }
            Leader::Decided(version, decision, seen) => {
                let sends = Leader::Sends(decision.resizes.clone(), seen.clone());
                if decision.record == world.record.1 && *version == world.record.0 {
                    step("has nothing to store", becomes(sends));
                } else if *version == world.record.0 || self.flaw == Flaw::NoCompareAndSwap {
                    let mut after = becomes(sends);
                    after.record = (world.record.0 + 1, decision.record.clone());
                    step("stores the record", after);
                } else {
                    step("cannot store the record", becomes(Leader::Idle));
                }
                if self.flaw == Flaw::SentBeforeStored {
                    for resize in &decision.resizes {
                        let mut after = becomes(Leader::Idle);
                        self.land(&mut after, resize, seen, false);
                        step("sends before it stores, and dies", after);
                    }
                }
                step("dies", becomes(Leader::Idle));
            }
            Leader::Sends(resizes, seen) => {
                let Some((resize, left)) = resizes.split_first() else {
                    return step("is done", becomes(Leader::Idle));
                };
                let left = Leader::Sends(left.to_vec(), seen.clone());
                let mut after = becomes(left.clone());
                self.land(&mut after, resize, seen, false);
                step("sends a resize", after);
                if world.left.defers > 0 {
                    let mut after = becomes(left.clone());
                    self.land(&mut after, resize, seen, true);
                    step("sends a resize, and the kubelet defers it", after);
                }
                if world.left.refusals > 0 {
                    let mut after = becomes(left);
                    after.left.refusals -= 1;
                    let (version, mut record) = world.record.clone();
                    record.refuse(&resize.uid, &resize.version, "no", world.now, &self.rules());
                    after.record = (version + 1, record);
                    step("is refused a resize", after);
                }
                step("dies", becomes(Leader::Idle));
            }
        }
    }

    /// Makes a resize, if the pod still has its version.
    fn land(&self, world: &mut World, resize: &Resize, usage: &UsageSeen, is_deferred: bool) {
        let place: usize = resize.uid.parse().unwrap();
        let size = resize.containers[0].to;
        let (request, limit) = (size.requests.memory.unwrap(), size.limits.memory.unwrap());
        let (now, pod) = (world.now, &mut world.pods[place]);
        let is_same = pod.version.to_string() == resize.version;
        if !pod.exists || !is_same && self.flaw != Flaw::NoPodVersion || (pod.request, pod.limit) == (request, limit) {
            return;
        }
        let change = world.record.1.change_of(&resize.uid);
        let is_back = change.is_some_and(|change| matches!(change.phase, Phase::TakenBack { .. }));
        if change.is_none() {
            world.violated = Some("ONE: a change is made that the record does not have");
        }
        let is_undone =
            change.is_some_and(|change| matches!(change.phase, Phase::TakenBack { harm: Harm::Undone, .. }));
        if limit < pod.limit && (!is_back || pod.kubelet != Kubelet::Deferred) {
            world.violated = Some("LIMIT: a memory limit is lowered");
        }
        if limit > pod.limit && !self.scenario.scales && pod.killed.is_none() {
            world.violated = Some("LIMIT: a memory limit is raised without its author's leave");
        }
        if is_undone {
            let left_alone = world.record.1.left_alone.iter().find(|left| left.harm == Harm::Undone);
            pod.undone = Some(left_alone.map_or(now, |left| left.until - DAY));
        }
        if !is_back && request < pod.request && pod.undone.is_some_and(|at| now - at < DAY) {
            world.violated = Some("PERSON: what a person took back is made again on the same day");
        }
        if !is_back {
            let (known_at, known_peak) = usage[place];
            if request < pod.request && request < known_peak {
                world.violated = Some("PEAK: a request is lowered below the peak");
            }
            if request < pod.request && request < pod.used && now - known_at >= DAY {
                world.violated = Some("PEAK: a request is lowered by what was used a day ago");
            }
            pod.changed.retain(|at| now - at < DAY);
            pod.changed.push(now);
            pod.lowered += u8::from(request < pod.request);
            if pod.changed.len() > 2 {
                world.violated = Some("DAILY: a pod is changed for the third time in a day");
            }
        }
        pod.version += 1;
        (pod.request, pod.limit) = (request, limit);
        pod.kubelet = match () {
            () if pod.is_away => Kubelet::InProgress,
            () if is_deferred && !is_back => Kubelet::Deferred,
            () => Kubelet::Done,
        };
        world.left.defers -= u8::from(is_deferred && world.left.defers != u8::MAX);
    }

    fn pod_steps(&self, world: &World, place: usize, next: &mut Vec<(Step, World)>) {
        let mut step = |what, change: &dyn Fn(&mut World)| {
            let mut after = world.clone();
            change(&mut after);
            next.push((Step("pod", place, what), after));
        };
        if let Some(level) = self.scenario.rises.get(world.rises).filter(|_| !world.pods[place].is_away) {
            step("uses more", &|after| {
                after.rises += 1;
                use_memory(after, place, *level);
            });
        }
        if world.pods[place].kubelet == Kubelet::Deferred {
            step("gets its deferred resize", &|after| {
                let pod = &mut after.pods[place];
                (pod.kubelet, pod.version) = (Kubelet::Done, pod.version + 1);
            });
        }
        if world.pods[place].is_away {
            step("is heard of again", &|after| {
                let pod = &mut after.pods[place];
                (pod.is_away, pod.kubelet) = (false, Kubelet::Done);
            });
        } else if world.left.silences > 0 {
            step("is not heard of", &|after| {
                after.left.silences -= 1;
                after.pods[place].is_away = true;
            });
        }
        if world.left.deletions > 0 {
            step("is deleted", &|after| {
                after.left.deletions -= 1;
                after.pods[place].exists = false;
            });
        }
    }

    /// Lets one leader alone work for ten days or more in which nothing else happens.
    fn unclean(&self, world: &World) -> Option<&'static str> {
        if world.leaders.iter().any(|leader| *leader != Leader::Idle) {
            // It is checked in the state in which they have died.
            return None;
        }
        let mut world = world.clone();
        world.left.refusals = 0;
        let mut made_last = world.now;
        for round in 0..if self.scenario.left.undos > 0 { 42 } else { 30 } {
            measure(&mut world);
            for _ in 0..3 {
                let decision = self.decide(&world.pods, &world.record.1, world.now);
                world.record.1 = decision.record;
                let seen = world.pods.clone();
                for resize in &decision.resizes {
                    let always = self.scenario.left.defers == u8::MAX && resize.uid == "0";
                    self.land(&mut world, resize, &usage_seen(&seen), always);
                }
                if world.pods.iter().zip(&seen).any(|(pod, seen)| pod.version != seen.version) {
                    made_last = world.now;
                }
            }
            world.now += if round % 3 == 2 { DAY - 2 * QUARTER } else { QUARTER };
        }
        let exist = || world.pods.iter().filter(|pod| pod.exists);
        let is_asked = |change: &PodChange| !matches!(change.phase, Phase::Withheld { .. });
        let pending = world.record.1.changes.iter().any(is_asked);
        let is_free = |pod: &PodState| {
            // A pod that lacks room for its use may be kept from it by the bound, its limit, or the kubelet.
            let asked: u64 = exist().map(|pod| pod.request).sum();
            self.scenario.left.defers != u8::MAX
                && !pod.is_away
                && asked + 3 < self.scenario.bound
                && pod.request < pod.limit
        };
        match world.violated {
            Some(violated) => Some(violated),
            None if exist().any(|pod| pod.request < self.scenario.needs) => Some("UNDO: a harmful change stays"),
            None if exist().any(|pod| pod.request < pod.used && is_free(pod)) => Some("UP: a pod lacks what it uses"),
            None if pending => Some("END: a change stays under way"),
            None if exist().any(|pod| pod.lowered > 6) => Some("LOOP: a pod is lowered again and again"),
            None if world.now - made_last < DAY => Some("LOOP: changes do not end"),
            None => None,
        }
    }
}

fn measure(world: &mut World) {
    for pod in world.pods.iter_mut().filter(|pod| !pod.is_away) {
        pod.in_store = (world.now, pod.used, pod.peak);
    }
}

fn usage_seen(pods: &[PodState]) -> UsageSeen {
    pods.iter().map(|pod| (pod.in_store.0, pod.in_store.2)).collect()
}

/// Uses memory, and is killed above the limit.
fn use_memory(world: &mut World, place: usize, amount: u64) {
    let (now, pod) = (world.now, &mut world.pods[place]);
    pod.peak = pod.peak.max(amount.min(pod.limit));
    if amount <= pod.limit {
        pod.used = amount;
    } else {
        pod.used = 1;
        pod.killed = Some(now);
        pod.restarts += 1;
        pod.version += 1;
    }
}
