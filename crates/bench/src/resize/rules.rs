//! The rules that are compared: each says what a pod requests after each sample.

use std::collections::{BTreeMap, VecDeque};

use headroom_resizer::decision::{
    Amounts, ContainerSize, Event, Kubelet, Mode, ObservedContainer, ObservedPod, Readiness, Record, Rules, Used,
    Workload, decide,
};
use headroom_usage::DAY;

use super::days::Sample;
use crate::vpa::{Recommendation, Recommender};

/// The samples over which CPU counts as used.
const QUARTER: i64 = 900;

#[derive(Debug, Clone, Default)]
pub struct Running {
    pub began: i64,
    pub first: ContainerSize,
    pub size: ContainerSize,
    pub highest_limit: u64,
    pub killed: Option<i64>,
    pub restarts: u32,
    pub version: u64,
    pub last: Sample,
    recent: VecDeque<Sample>,
}

impl Running {
    pub fn new(at: i64, requests: Amounts, limit: Option<u64>) -> Self {
        let size = ContainerSize { requests, limits: Amounts { cpu: None, memory: limit } };
        let (highest_limit, last) = (limit.unwrap_or(u64::MAX), Sample { at, ..Sample::default() });
        Self { began: at, first: size, size, highest_limit, last, ..Self::default() }
    }

    pub fn observe(&mut self, sample: Sample) {
        self.last = sample;
        self.recent.push_back(sample);
        self.recent.retain(|of| sample.at - of.at < QUARTER);
    }

    /// The mean of a quarter of an hour, once two thirds of it are known.
    fn mean_cpu(&self) -> Option<u64> {
        let first = self.recent.front().filter(|first| self.last.at - first.at >= QUARTER * 2 / 3);
        let known: Vec<u64> = first.and(Some(&self.recent))?.iter().filter_map(|sample| sample.used.cpu).collect();
        (!known.is_empty()).then(|| known.iter().sum::<u64>() / known.len() as u64)
    }

    fn resize(&mut self, size: ContainerSize) {
        self.size = size;
        self.version += 1;
        self.highest_limit = self.highest_limit.max(size.limits.memory.unwrap_or(0));
    }
}

/// The changes that a rule has made.
#[derive(Debug, Default)]
pub struct Done {
    pub changes: usize,
    pub taken_back: usize,
}

pub trait Rule {
    /// The first request.
    fn start(&self, estimate: Amounts) -> Amounts {
        estimate
    }
    /// Before any pod is created: usage of the image.
    fn learn(&mut self, _at: i64, _sample: Sample, _running: Option<&Running>) {}
    /// After a sample of each running pod.
    fn act(&mut self, at: i64, estimate: Amounts, running: &mut BTreeMap<usize, Running>, done: &mut Done);
    fn kill(&mut self, _at: i64, _limit: u64) {}
    /// The first memory limit.
    fn limit(&self, request: u64) -> u64 {
        request * 2
    }
}

/// The VerticalPodAutoscaler that resizes in place, limits in proportion.
#[derive(Default)]
pub struct Vpa(Option<Recommender>);

impl Rule for Vpa {
    fn start(&self, estimate: Amounts) -> Amounts {
        self.0.as_ref().map_or(estimate, |of| targets(of.cpu(), of.memory(), estimate))
    }

    fn learn(&mut self, at: i64, sample: Sample, running: Option<&Running>) {
        let of = self.0.get_or_insert_with(|| Recommender::new(at));
        let request = running.and_then(|running| running.size.requests.cpu).unwrap_or(0);
        if let Some(cpu) = sample.used.cpu {
            of.add_cpu(at, cpu as f64, request as f64);
        }
        if let Some(memory) = sample.used.memory {
            of.add_memory(at, memory as f64);
        }
    }

    fn act(&mut self, at: i64, _: Amounts, running: &mut BTreeMap<usize, Running>, done: &mut Done) {
        let Some(of) = &self.0 else { return };
        let (cpu, memory) = (of.cpu(), of.memory());
        for running in running.values_mut() {
            let (size, age) = (running.size, at - running.began);
            let changes = |is: Recommendation, request: Option<u64>| {
                request.is_some_and(|request| is.changes(request as f64, age))
            };
            if changes(cpu, size.requests.cpu) || changes(memory, size.requests.memory) {
                let requests = targets(cpu, memory, size.requests);
                let limits = Amounts { cpu: None, memory: requests.memory.map(|memory| memory * 2) };
                running.resize(ContainerSize { requests, limits });
                done.changes += 1;
            }
        }
    }

    fn kill(&mut self, at: i64, limit: u64) {
        if let Some(of) = &mut self.0 {
            of.add_memory(at, (limit as f64 * 1.2).max(limit as f64 + 1e8));
        }
    }
}

/// The targets of what is requested.
fn targets(cpu: Recommendation, memory: Recommendation, of: Amounts) -> Amounts {
    let amount = |is: Recommendation| is.target.ceil() as u64;
    Amounts { cpu: of.cpu.map(|_| amount(cpu)), memory: of.memory.map(|_| amount(memory)) }
}

/// A cluster without any tool: what the first pods request, all later ones do.
#[derive(Default)]
pub struct Unchanged(Option<Amounts>);

impl Rule for Unchanged {
    fn start(&self, estimate: Amounts) -> Amounts {
        self.0.unwrap_or(estimate)
    }

    fn act(&mut self, _: i64, estimate: Amounts, running: &mut BTreeMap<usize, Running>, _: &mut Done) {
        if !running.is_empty() {
            self.0.get_or_insert(estimate);
        }
    }
}

/// The loop of this project.
#[derive(Default)]
pub struct Loop {
    pub rules: Rules,
    /// True if CPU is never lowered below its peak, as memory.
    pub keeps_cpu: bool,
    /// True if the author allows limits to move with requests.
    pub scales_limits: bool,
    pub limit_is_request: bool,
    began: Option<i64>,
    record: Record,
    /// The peaks of each day: CPU of a quarter of an hour, and memory.
    peaks: BTreeMap<i64, (u64, u64)>,
    quarter: VecDeque<Sample>,
}

impl Loop {
    fn floor(&self, at: i64) -> Amounts {
        let days = self.peaks.range(at.div_euclid(DAY) - 7..);
        let (cpu, memory) = days.fold((0, 0), |(cpu, memory), (_, of)| (of.0.max(cpu), of.1.max(memory)));
        Amounts { cpu: Some(if self.keeps_cpu { cpu } else { 0 }), memory: Some(memory) }
    }
}

impl Rule for Loop {
    fn limit(&self, request: u64) -> u64 {
        if self.limit_is_request { request } else { request * 2 }
    }

    fn learn(&mut self, at: i64, sample: Sample, _: Option<&Running>) {
        self.began.get_or_insert(at);
        self.quarter.push_back(sample);
        self.quarter.retain(|of| at - of.at < QUARTER);
        let known: Vec<u64> = self.quarter.iter().filter_map(|sample| sample.used.cpu).collect();
        let of = self.peaks.entry(at.div_euclid(DAY)).or_default();
        of.0 = of.0.max(known.iter().sum::<u64>() / known.len().max(1) as u64);
        of.1 = of.1.max(sample.used.memory.unwrap_or(0));
    }

    fn act(&mut self, at: i64, estimate: Amounts, running: &mut BTreeMap<usize, Running>, done: &mut Done) {
        let days = (at - self.began.unwrap_or(at)) / DAY;
        // The loop runs several times a minute: it asks, sees that it was done, and goes on.
        for _ in 0..3 {
            let pods = running.iter().map(|(place, running)| ObservedPod {
                uid: place.to_string(),
                name: place.to_string(),
                version: running.version.to_string(),
                mode: Mode::On,
                left_alone: None,
                readiness: Readiness::Ready,
                kubelet: Kubelet::Done,
                containers: vec![ObservedContainer {
                    name: "main".to_owned(),
                    size: running.size,
                    wanted: estimate,
                    days: days as u64,
                    floor: self.floor(at),
                    used: Some(Used {
                        at: running.last.at,
                        amounts: running.last.used,
                        mean_cpu: running.mean_cpu(),
                        ..Used::default()
                    }),
                    killed: running.killed,
                    runs_with: running.size.limits.memory,
                    restarts: running.restarts,
                    scales: self.scales_limits.then_some(running.first),
                    ..ObservedContainer::default()
                }],
            });
            let workload = Workload { pods: pods.collect(), is_rolling_out: false, objective_is_met: None };
            let decision = decide(&workload, &self.record, at, &self.rules, usize::MAX, &mut |_, _| Ok(()));
            self.record = decision.record;
            for note in &decision.notes {
                match &note.event {
                    Event::Begun { .. } => done.changes += 1,
                    Event::TakingBack { .. } => done.taken_back += 1,
                    _ => {}
                }
            }
            for resize in decision.resizes {
                let pod = resize.uid.parse().ok().and_then(|place: usize| running.get_mut(&place));
                if let (Some(pod), Some(resized)) = (pod, resize.containers.first()) {
                    pod.resize(resized.to);
                }
            }
        }
    }
}
