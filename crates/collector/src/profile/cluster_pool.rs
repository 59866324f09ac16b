//! The history of an image in each namespace, and the pooled history, in which each namespace counts once.
//!
//! Percentiles, peaks, kills and the number of days of the pooled history are figures that a quorum of namespaces agrees on
//! ([`agreed`]); samples, pods and namespaces are sums. There is no pooled history of fewer namespaces than the quorum: policies
//! could not use it, and most images run in one namespace only.

use std::collections::BTreeMap;

use headroom_core::cluster::usage::{Percentile, Resource, Window};
use headroom_usage::cardinality::Distinct;
use headroom_usage::sample::quantity;
use headroom_usage::varint::Damaged;
use headroom_usage::window_merge::{OpenHistory, moment, oom_kill};
use headroom_usage_profile::quorum::agreed;
use headroom_usage_profile::{History, OomKill, Percentiles, Usage, WindowUsage};

use super::Pooling;
use crate::store::StoredDay;

/// Share of namespaces, per mille, whose usage a pooled estimate covers. More for memory and storage, because a container with
/// too little of them is killed or evicted.
const CPU_PERMILLE: u16 = 700;
const BYTES_PERMILLE: u16 = 900;
/// A percentile of CPU is the mean of the figures at these shares of namespaces, because the usage of two neighbours in that
/// order may differ forty-fold.
const CPU_MEAN_PERMILLES: [u16; 2] = [500, 850];
const DAYS_PERMILLE: u16 = 500;

/// The days of an image or a tag while they are added.
#[derive(Debug, Default)]
pub struct Gathering {
    /// The namespace whose days are added at present; its days follow each other.
    current: Option<(String, OpenHistory)>,
    /// The others as bytes, because some images run in thousands of namespaces.
    others: BTreeMap<String, Vec<u8>>,
}

/// The closed histories of an image or a tag.
#[derive(Debug)]
pub struct InNamespaces {
    /// The pooled history.
    pub together: Option<History>,
    /// Histories by namespace, without those older than the longest window.
    pub each: BTreeMap<String, History>,
}

impl Gathering {
    pub fn add(&mut self, age: u32, day: &StoredDay) -> Result<(), Damaged> {
        let namespace = &day.place.namespace;
        if self.current.as_ref().is_none_or(|(name, _)| name != namespace) {
            self.put_away()?;
            let known = self.others.remove(namespace).map(|bytes| OpenHistory::read(&bytes)).transpose()?;
            self.current = Some((namespace.clone(), known.unwrap_or_default()));
        }
        if let Some((_, open)) = &mut self.current {
            open.add_observed(age, &day.observed);
        }
        Ok(())
    }

    pub fn close(mut self, pooling: &Pooling) -> Result<InNamespaces, Damaged> {
        self.put_away()?;
        let (mut votes, mut each) = (Votes::default(), BTreeMap::new());
        for (namespace, bytes) in self.others {
            let open = OpenHistory::read(&bytes)?;
            if pooling.includes(&namespace) {
                votes.add(&open);
            }
            each.extend(open.history().map(|history| (namespace, history)));
        }
        Ok(InNamespaces { together: votes.close(pooling.quorum), each })
    }

    fn put_away(&mut self) -> Result<(), Damaged> {
        if let Some((namespace, open)) = self.current.take() {
            self.others.insert(namespace, open.write());
        }
        Ok(())
    }
}

/// The figures of each namespace.
#[derive(Debug, Default)]
struct Votes {
    last_seen: i64,
    days: Vec<u64>,
    /// The newest and the largest kill of each namespace with any.
    killed_at: Vec<u64>,
    killed_with: Vec<u64>,
    windows: [WindowVotes; Window::PUBLISHED.len()],
}

#[derive(Debug, Default)]
struct WindowVotes {
    namespaces: u64,
    pods: Distinct,
    cpu: UsageVotes,
    memory: UsageVotes,
    ephemeral_storage: UsageVotes,
}

#[derive(Debug, Default)]
struct UsageVotes {
    samples: u64,
    peaks: Vec<u64>,
    /// For a namespace with a single pod, the p95 of that pod.
    busiest: Vec<u64>,
    percentiles: [Vec<u64>; Percentile::PUBLISHED.len()],
}

impl Votes {
    fn add(&mut self, one: &OpenHistory) {
        if one.last_seen() <= 0 {
            return;
        }
        self.last_seen = self.last_seen.max(one.last_seen());
        self.days.push(one.days());
        self.killed_at.extend(one.kills().iter().filter_map(|kill| u64::try_from(kill.at).ok()).max());
        self.killed_with.extend(one.kills().iter().map(|kill| kill.memory).max());
        for (window, votes) in Window::PUBLISHED.into_iter().zip(&mut self.windows) {
            if !one.has(window) {
                continue;
            }
            votes.namespaces += 1;
            votes.pods.merge(&one.counted(window).pods);
            votes.cpu.add(one, window, Resource::Cpu);
            votes.memory.add(one, window, Resource::Memory);
            votes.ephemeral_storage.add(one, window, Resource::EphemeralStorage);
        }
    }

    fn close(mut self, quorum: u64) -> Option<History> {
        let last_seen = moment(self.last_seen).filter(|_| self.days.len() as u64 >= quorum)?;
        let days = agreed(&mut self.days, DAYS_PERMILLE, quorum).unwrap_or(1);
        let oom_kills = self.oom_kill(quorum).into_iter().collect();
        let windows = Window::PUBLISHED.into_iter().zip(self.windows).filter(|(_, votes)| votes.namespaces > 0);
        let windows = windows.map(|(window, votes)| (window, votes.close(quorum))).collect();
        Some(History { last_seen, days, oom_kills, windows })
    }

    /// The memory and time that the kills of a quorum of namespaces reached.
    fn oom_kill(&mut self, quorum: u64) -> Option<OomKill> {
        let reached_by_quorum = |figures: &mut Vec<u64>| {
            figures.sort_unstable();
            let place = figures.len().checked_sub(usize::try_from(quorum.max(1)).ok()?)?;
            figures.get(place).copied()
        };
        let at = reached_by_quorum(&mut self.killed_at)?;
        oom_kill(i64::try_from(at).ok()?, reached_by_quorum(&mut self.killed_with)?)
    }
}

impl WindowVotes {
    fn close(self, quorum: u64) -> WindowUsage {
        WindowUsage {
            pods: self.pods.count(),
            namespaces: self.namespaces,
            cpu: self.cpu.close(quorum, CPU_PERMILLE, Resource::Cpu).map(Box::new),
            memory: self.memory.close(quorum, BYTES_PERMILLE, Resource::Memory).map(Box::new),
            ephemeral_storage: self
                .ephemeral_storage
                .close(quorum, BYTES_PERMILLE, Resource::EphemeralStorage)
                .map(Box::new),
        }
    }
}

impl UsageVotes {
    fn add(&mut self, one: &OpenHistory, window: Window, resource: Resource) {
        let sketch = one.sketch(window, resource);
        if sketch.is_empty() {
            return;
        }
        self.samples += one.samples(window, resource);
        self.peaks.push(sketch.peak());
        let amounts = sketch.percentiles(Percentile::PUBLISHED.map(Percentile::permille));
        if resource == Resource::Cpu {
            self.busiest.push(one.busiest(window).max(sketch.percentile(950)));
        }
        self.percentiles.iter_mut().zip(amounts).for_each(|(votes, amount)| votes.push(amount));
    }

    fn close(mut self, quorum: u64, permille: u16, resource: Resource) -> Option<Usage> {
        if self.samples == 0 {
            return None;
        }
        let mut votes = self.percentiles.iter_mut();
        let mut highest = None;
        let percentiles = Percentiles::agreed(|_| {
            let votes = votes.next()?;
            let amount = match resource {
                Resource::Cpu => {
                    let [lower, upper] = CPU_MEAN_PERMILLES.map(|permille| agreed(votes, permille, quorum));
                    u64::midpoint(lower?, upper?)
                }
                Resource::Memory | Resource::EphemeralStorage => agreed(votes, permille, quorum)?,
            };
            highest = highest.max(Some(amount));
            Some(quantity(amount, resource))
        });
        // If peaks differ widely, the highest agreed percentile replaces them.
        let peak = agreed(&mut self.peaks, permille, quorum).max(highest);
        let peak = peak.map(|peak| quantity(peak, resource));
        let busiest = agreed(&mut self.busiest, permille, quorum).map(|busiest| quantity(busiest, resource));
        Some(Usage { samples: self.samples, percentiles, peak, busiest })
    }
}
