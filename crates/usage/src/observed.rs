//! Everything that is remembered of one image in one namespace on one day.

use super::sketch::Sketch;
use crate::cardinality::Distinct;
use crate::sample::Resource;
use crate::varint::{self, Damaged};

/// Kills kept a day; a profile shows the newest five.
const MOST_KILLS: usize = 5;
/// Pods kept a day: those with most to do.
const MOST_PODS: usize = 4;
/// A pod counts as if it had run for so long at least: one that only started up is not the busiest, nor one of which only
/// a busy hour is kept.
const LEAST_SECONDS: u64 = 6 * 3600;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    pub cpu: Sketch,
    pub memory: Sketch,
    pub ephemeral_storage: Sketch,
    pub pods: Distinct,
    /// Unix seconds of the newest observation.
    pub last_seen: i64,
    /// Newest first, without repetition.
    kills: Vec<Kill>,
    /// The one with most to do first, each once.
    busy_pods: Vec<BusyPod>,
}

/// The CPU usage of one pod's container. A day is read in one piece, or hour by hour, or sample by sample; so what is kept
/// is the mean of the pieces' p95, which is at most the p95 of the day wherever the pod is busy throughout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BusyPod {
    pod: u32,
    seconds: u64,
    /// The sum of each piece's p95 (nanocores) times its seconds.
    sum: u64,
}

/// A container was killed because its memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kill {
    /// Unix seconds.
    pub at: i64,
    /// Bytes.
    pub memory: u64,
    /// Which container of which pod, so that a kill that is told twice counts once.
    pub of: u32,
}

impl Observed {
    pub fn add(&mut self, resource: Resource, time: i64, amount: u64, seconds: u64) {
        self.last_seen = self.last_seen.max(time);
        let sketch = match resource {
            Resource::Cpu => &mut self.cpu,
            Resource::Memory => &mut self.memory,
            Resource::EphemeralStorage => &mut self.ephemeral_storage,
        };
        sketch.add(amount, seconds);
    }

    pub fn sketch(&self, resource: Resource) -> &Sketch {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
            Resource::EphemeralStorage => &self.ephemeral_storage,
        }
    }

    pub fn add_kill(&mut self, kill: Kill) {
        self.last_seen = self.last_seen.max(kill.at);
        if self.kills.iter().any(|known| (known.at, known.of) == (kill.at, kill.of)) {
            return;
        }
        let place = self.kills.partition_point(|known| *known > kill);
        self.kills.insert(place, kill);
        self.kills.truncate(MOST_KILLS);
    }

    /// Adds how busy a pod's container was: the p95 of its CPU usage in so many seconds.
    pub fn add_busy_pod(&mut self, pod: u32, p95: u64, seconds: u64) {
        if seconds > 0 {
            self.add_busy(BusyPod { pod, seconds, sum: p95.saturating_mul(seconds) });
        }
    }

    fn add_busy(&mut self, mut busy: BusyPod) {
        if let Some(place) = self.busy_pods.iter().position(|known| known.pod == busy.pod) {
            let known = self.busy_pods.remove(place);
            busy.seconds = busy.seconds.saturating_add(known.seconds);
            busy.sum = busy.sum.saturating_add(known.sum);
        }
        let place = self.busy_pods.partition_point(|known| (known.sum, known.pod) > (busy.sum, busy.pod));
        self.busy_pods.insert(place, busy);
        self.busy_pods.truncate(MOST_PODS);
    }

    /// The p95 of the CPU usage of the pod with most to do; none of a single pod.
    pub fn busiest(&self) -> Option<u64> {
        let p95 = |busy: &BusyPod| busy.sum / busy.seconds.max(LEAST_SECONDS);
        if self.pods.count() < 2 { None } else { self.busy_pods.iter().map(p95).max() }
    }

    pub fn kills(&self) -> &[Kill] {
        &self.kills
    }

    pub fn merge(&mut self, other: &Self) {
        self.cpu.merge(&other.cpu);
        self.memory.merge(&other.memory);
        self.ephemeral_storage.merge(&other.ephemeral_storage);
        self.pods.merge(&other.pods);
        self.last_seen = self.last_seen.max(other.last_seen);
        other.kills.iter().for_each(|kill| self.add_kill(*kill));
        other.busy_pods.iter().for_each(|busy| self.add_busy(*busy));
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        let sketches: usize = Resource::ALL.iter().map(|resource| self.sketch(*resource).bytes()).sum();
        size_of::<Self>() + sketches + self.pods.bytes()
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        varint::write(out, self.last_seen.max(0) as u64);
        self.cpu.write(out);
        self.memory.write(out);
        self.pods.write(out);
        varint::write(out, self.kills.len() as u64);
        for kill in &self.kills {
            varint::write(out, kill.at.max(0) as u64);
            varint::write(out, kill.memory);
            varint::write(out, kill.of.into());
        }
        // Last, and only what there is: most sources do not know storage, and records of earlier versions end here.
        if !self.ephemeral_storage.is_empty() || !self.busy_pods.is_empty() {
            self.ephemeral_storage.write(out);
        }
        for BusyPod { pod, seconds, sum } in &self.busy_pods {
            varint::write(out, (*pod).into());
            varint::write(out, *seconds);
            varint::write(out, *sum);
        }
    }

    /// Only the moment of the newest observation, which comes first.
    pub fn read_last_seen(mut rest: &[u8]) -> Result<i64, Damaged> {
        moment(&mut rest)
    }

    pub fn read(mut rest: &[u8]) -> Result<Self, Damaged> {
        let rest = &mut rest;
        let last_seen = moment(rest)?;
        let (cpu, memory, pods) = (Sketch::read(rest)?, Sketch::read(rest)?, Distinct::read(rest)?);
        let mut observed = Self { cpu, memory, pods, last_seen, ..Self::default() };
        for _ in 0..varint::read(rest)? {
            let (at, memory) = (moment(rest)?, varint::read(rest)?);
            let of = u32::try_from(varint::read(rest)?).map_err(|_| Damaged)?;
            observed.add_kill(Kill { at, memory, of });
        }
        if !rest.is_empty() {
            observed.ephemeral_storage = Sketch::read(rest)?;
        }
        while !rest.is_empty() {
            let pod = u32::try_from(varint::read(rest)?).map_err(|_| Damaged)?;
            observed.add_busy(BusyPod { pod, seconds: varint::read(rest)?, sum: varint::read(rest)? });
        }
        Ok(observed)
    }
}

fn moment(rest: &mut &[u8]) -> Result<i64, Damaged> {
    i64::try_from(varint::read(rest)?).map_err(|_| Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(at: i64, of: u32) -> Kill {
        Kill { at, memory: 100 << 20, of }
    }

    fn observed(from: i64, to: i64) -> Observed {
        let mut observed = Observed::default();
        for time in from..to {
            observed.add(Resource::Cpu, time, 1_000_000 * time as u64, 60);
            observed.add(Resource::Memory, time, 1 << 20, 60);
            observed.pods.add(time as u32 % 3);
        }
        observed
    }

    #[test]
    fn the_newest_kills_are_kept_each_once() {
        let mut observed = Observed::default();
        for at in [3, 9, 1, 9, 7, 5, 8, 2] {
            observed.add_kill(kill(at, 1));
        }
        observed.add_kill(kill(9, 2));
        let kept: Vec<_> = observed.kills().iter().map(|kill| (kill.at, kill.of)).collect();
        assert_eq!(kept, [(9, 2), (9, 1), (8, 1), (7, 1), (5, 1)]);
        assert_eq!(observed.last_seen, 9);
    }

    #[test]
    fn the_busiest_pod_is_known_however_the_day_is_read() {
        const HOUR: u64 = 3_600;
        let check = |pods: u32, pieces: &[(u32, u64, u64)], expected| {
            let mut day = Observed::default();
            (0..pods).for_each(|pod| day.pods.add(pod));
            for (pod, p95, hours) in pieces {
                let mut piece = Observed::default();
                piece.add_busy_pod(*pod, *p95, hours * HOUR);
                day.merge(&piece);
            }
            assert_eq!(day.busiest(), expected, "{pieces:?}");
        };
        let hot_among = |pieces: u64| {
            let pods = (0..12).map(move |pod| (pod, if pod == 3 { 900 } else { 60 }, 24 / pieces));
            (0..pieces).flat_map(|_| pods.clone()).collect::<Vec<_>>()
        };
        check(12, &hot_among(1), Some(900));
        check(12, &hot_among(24), Some(900));
        check(1, &[(0, 900, 24)], None);
        check(2, &[], None);
        // One that starts up for an hour.
        check(2, &[(0, 60, 24), (1, 1_200, 1)], Some(200));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut whole = observed(5, 40);
        whole.add_kill(kill(17, 3));
        let mut out = Vec::new();
        whole.write(&mut out);
        assert_eq!(Observed::read(&out).as_ref(), Ok(&whole));
        whole.add(Resource::EphemeralStorage, 41, 1 << 30, 60);
        (0..9).for_each(|pod| whole.add_busy_pod(pod, 1_000_000_000, 3_600 * u64::from(pod)));
        out.clear();
        whole.write(&mut out);
        assert_eq!(Observed::read_last_seen(&out), Ok(whole.last_seen));
        assert_eq!(Observed::read(&out), Ok(whole));
        assert_eq!(Observed::read(&out[..out.len() - 1]), Err(Damaged));
        out.push(0);
        assert_eq!(Observed::read(&out), Err(Damaged));
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let mut merged = observed(5, 20);
        merged.merge(&observed(20, 40));
        assert_eq!(merged, observed(5, 40));
    }
}
