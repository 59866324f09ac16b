//! The history of an image in each namespace, and the pooled history, in which each tenant counts once: where tenants are not
//! known, each namespace.
//!
//! Percentiles, peaks, kills and the number of days of the pooled history are figures that a quorum of them agrees on
//! ([`agreed`]); samples and pods are sums. There is no pooled history of fewer than the quorum: policies could not use it, and
//! most images run in one namespace only.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::cluster::usage::{Percentile, Resource, Window};
use headroom_usage::cardinality::Distinct;
use headroom_usage::profile::quorum::agreed;
use headroom_usage::profile::{History, OomKill, Percentiles, Usage, WindowUsage};
use headroom_usage::sample::quantity;
use headroom_usage::varint::Damaged;
use headroom_usage::window_merge::{OpenHistory, moment, oom_kill};

use super::Pooling;

/// Share of namespaces, per mille, whose usage a pooled estimate covers. More for memory and storage, because a container with
/// too little of them is killed or evicted.
const CPU_PERMILLE: u16 = 700;
const BYTES_PERMILLE: u16 = 900;
/// A percentile of CPU is the mean of the figures at these shares of namespaces, because the usage of two neighbours in that
/// order may differ forty-fold.
const CPU_MEAN_PERMILLES: [u16; 2] = [500, 850];
const DAYS_PERMILLE: u16 = 500;
/// Bytes above so many times the median are no agreement, whoever and however many say so: they are the usage of something
/// else in the same image, or of somebody who wants others to ask for too much.
const MAX_SPREAD: u64 = 16;
/// The median counts as at least this: a container that writes nothing and one that writes a little agree.
const LEAST_MEDIAN: u64 = 1 << 20;

/// The days of an image or a tag while they are added.
#[derive(Debug, Default)]
pub struct Gathering {
    /// The namespace whose days are added at present.
    current: Option<(String, OpenHistory)>,
    /// The others as bytes, because some images run in thousands of namespaces.
    others: BTreeMap<String, Vec<u8>>,
}

/// The closed histories of an image or a tag.
#[derive(Debug)]
pub struct InNamespaces {
    pub together: Option<History>,
    /// Histories by namespace, without those older than the longest window.
    pub each: BTreeMap<String, History>,
}

impl Gathering {
    pub fn add(&mut self, namespace: &str, days: &OpenHistory) -> Result<(), Damaged> {
        if self.current.as_ref().is_none_or(|(name, _)| name != namespace) {
            self.put_away();
            let known = self.others.remove(namespace).map(|bytes| OpenHistory::read(&bytes)).transpose()?;
            self.current = Some((namespace.to_owned(), known.unwrap_or_default()));
        }
        if let Some((_, open)) = &mut self.current {
            open.merge(days);
        }
        Ok(())
    }

    pub fn close(mut self, pooling: &Pooling) -> Result<InNamespaces, Damaged> {
        self.put_away();
        let (mut votes, mut each) = (Votes::default(), BTreeMap::new());
        for (namespace, bytes) in &self.others {
            let open = OpenHistory::read(bytes)?;
            if pooling.includes(namespace) {
                votes.add(pooling.voter(namespace), &open);
            }
            each.extend(open.history().map(|history| (namespace.clone(), history)));
        }
        Ok(InNamespaces { together: votes.close(pooling.quorum), each })
    }

    fn put_away(&mut self) {
        self.others.extend(self.current.take().map(|(namespace, open)| (namespace, open.write())));
    }
}

/// One voice of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Voter<'v> {
    Namespace(&'v str),
    Tenant(&'v str),
}

/// A figure of each namespace, with who votes for it.
#[derive(Debug, Default)]
struct Figures<'v>(Vec<(Voter<'v>, u64)>);

impl Figures<'_> {
    /// The figure of each voter: of a tenant with several namespaces, the one in the middle.
    fn votes(mut self) -> Vec<u64> {
        self.0.sort_unstable();
        let of_one = self.0.chunk_by(|(one, _), (next, _)| one == next);
        of_one.filter_map(|figures| figures.get(figures.len() / 2)).map(|(_, figure)| *figure).collect()
    }
}

/// The figures of each namespace.
#[derive(Debug, Default)]
struct Votes<'v> {
    last_seen: i64,
    days: Figures<'v>,
    /// The newest and the largest kill of each namespace with any.
    killed_at: Figures<'v>,
    killed_with: Figures<'v>,
    windows: [WindowVotes<'v>; Window::PUBLISHED.len()],
}

#[derive(Debug, Default)]
struct WindowVotes<'v> {
    voters: BTreeSet<Voter<'v>>,
    pods: Distinct,
    cpu: UsageVotes<'v>,
    memory: UsageVotes<'v>,
    ephemeral_storage: UsageVotes<'v>,
}

#[derive(Debug, Default)]
struct UsageVotes<'v> {
    samples: u64,
    peaks: Figures<'v>,
    /// For a namespace with a single pod, the p95 of that pod.
    busiest: Figures<'v>,
    percentiles: [Figures<'v>; Percentile::PUBLISHED.len()],
}

impl<'v> Votes<'v> {
    fn add(&mut self, voter: Voter<'v>, one: &OpenHistory) {
        if one.last_seen() <= 0 {
            return;
        }
        self.last_seen = self.last_seen.max(one.last_seen());
        let of_voter = |figure| (voter, figure);
        self.days.0.push(of_voter(one.days()));
        let killed_at = one.kills().iter().filter_map(|kill| u64::try_from(kill.at).ok()).max();
        self.killed_at.0.extend(killed_at.map(of_voter));
        self.killed_with.0.extend(one.kills().iter().map(|kill| kill.memory).max().map(of_voter));
        for (window, votes) in Window::PUBLISHED.into_iter().zip(&mut self.windows) {
            if !one.has(window) {
                continue;
            }
            votes.voters.insert(voter);
            votes.pods.merge(&one.counted(window).pods);
            votes.cpu.add(voter, one, window, Resource::Cpu);
            votes.memory.add(voter, one, window, Resource::Memory);
            votes.ephemeral_storage.add(voter, one, window, Resource::EphemeralStorage);
        }
    }

    fn close(self, quorum: u64) -> Option<History> {
        let mut days = self.days.votes();
        let last_seen = moment(self.last_seen).filter(|_| days.len() as u64 >= quorum)?;
        let days = agreed(&mut days, DAYS_PERMILLE, quorum).unwrap_or(1);
        let oom_kills = agreed_kill(self.killed_at, self.killed_with, quorum).into_iter().collect();
        let windows = Window::PUBLISHED.into_iter().zip(self.windows).filter(|(_, votes)| !votes.voters.is_empty());
        let windows = windows.map(|(window, votes)| (window, votes.close(quorum))).collect();
        Some(History { last_seen, days, oom_kills, windows })
    }
}

/// The memory and time that the kills of a quorum of voters reached.
fn agreed_kill(at: Figures<'_>, memory: Figures<'_>, quorum: u64) -> Option<OomKill> {
    let reached_by_quorum = |figures: Figures<'_>| {
        let mut votes = figures.votes();
        votes.sort_unstable();
        let place = votes.len().checked_sub(usize::try_from(quorum.max(1)).ok()?)?;
        votes.get(place).copied()
    };
    oom_kill(i64::try_from(reached_by_quorum(at)?).ok()?, reached_by_quorum(memory)?)
}

/// The bytes that a quorum agrees on; none if they are too far above the median.
fn agreed_bytes(votes: &mut [u64], quorum: u64) -> Option<u64> {
    let bytes = agreed(votes, BYTES_PERMILLE, quorum)?;
    let median = votes.get(votes.len() / 2)?.max(&LEAST_MEDIAN);
    (bytes <= median.saturating_mul(MAX_SPREAD)).then_some(bytes)
}

impl WindowVotes<'_> {
    fn close(self, quorum: u64) -> WindowUsage {
        WindowUsage {
            pods: self.pods.count(),
            namespaces: self.voters.len() as u64,
            cpu: self.cpu.close(quorum, Resource::Cpu).map(Box::new),
            memory: self.memory.close(quorum, Resource::Memory).map(Box::new),
            ephemeral_storage: self.ephemeral_storage.close(quorum, Resource::EphemeralStorage).map(Box::new),
        }
    }
}

impl<'v> UsageVotes<'v> {
    fn add(&mut self, voter: Voter<'v>, one: &OpenHistory, window: Window, resource: Resource) {
        let sketch = one.sketch(window, resource);
        if sketch.is_empty() {
            return;
        }
        self.samples += one.samples(window, resource);
        self.peaks.0.push((voter, sketch.peak()));
        let amounts = sketch.percentiles(Percentile::PUBLISHED.map(Percentile::permille));
        if resource == Resource::Cpu {
            self.busiest.0.push((voter, one.busiest(window).max(sketch.percentile(950))));
        }
        self.percentiles.iter_mut().zip(amounts).for_each(|(votes, amount)| votes.0.push((voter, amount)));
    }

    fn close(self, quorum: u64, resource: Resource) -> Option<Usage> {
        if self.samples == 0 {
            return None;
        }
        let mut percentiles = self.percentiles.into_iter();
        let mut highest = None;
        let percentiles = Percentiles::agreed(|_| {
            let mut votes = percentiles.next()?.votes();
            let amount = match resource {
                Resource::Cpu => {
                    let [lower, upper] = CPU_MEAN_PERMILLES.map(|permille| agreed(&mut votes, permille, quorum));
                    u64::midpoint(lower?, upper?)
                }
                Resource::Memory | Resource::EphemeralStorage => agreed_bytes(&mut votes, quorum)?,
            };
            highest = highest.max(Some(amount));
            Some(quantity(amount, resource))
        });
        // If peaks differ widely, the highest agreed percentile replaces them.
        let (mut peaks, mut busiest) = (self.peaks.votes(), self.busiest.votes());
        let peak = match resource {
            Resource::Cpu => agreed(&mut peaks, CPU_PERMILLE, quorum),
            Resource::Memory | Resource::EphemeralStorage => agreed_bytes(&mut peaks, quorum),
        };
        let peak = peak.max(highest).map(|peak| quantity(peak, resource));
        let busiest = agreed(&mut busiest, CPU_PERMILLE, quorum).map(|busiest| quantity(busiest, resource));
        Some(Usage { samples: self.samples, percentiles, peak, busiest, each_pod: None, not_covered: None })
    }
}
