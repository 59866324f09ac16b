//! The summary of one image in one namespace on one day.

use headroom_admission::cluster::usage::MAX_OOM_KILLS;

use crate::busy_pods::BusyPods;
use crate::cardinality::Distinct;
use crate::sample::Resource;
use crate::sketch::Sketch;
use crate::varint::{self, Damaged};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    pub cpu: Sketch,
    pub memory: Sketch,
    pub ephemeral_storage: Sketch,
    pub pods: Distinct,
    pub busy_pods: BusyPods,
    /// Unix seconds of the newest observation.
    pub last_seen: i64,
    /// Newest first, without repetition; at most as many as a profile has.
    kills: Vec<Kill>,
}

/// A container was killed because its memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kill {
    /// Unix seconds.
    pub at: i64,
    /// Bytes.
    pub memory: u64,
    /// A hash of the pod and container, so that a kill that is reported twice counts once.
    pub of: u32,
}

impl Observed {
    pub fn add(&mut self, resource: Resource, time: i64, amount: u64, seconds: u64) {
        self.last_seen = self.last_seen.max(time);
        self.sketch_mut(resource).add(amount, seconds);
    }

    pub(crate) fn sketch_mut(&mut self, resource: Resource) -> &mut Sketch {
        match resource {
            Resource::Cpu => &mut self.cpu,
            Resource::Memory => &mut self.memory,
            Resource::EphemeralStorage => &mut self.ephemeral_storage,
        }
    }

    pub fn sketch(&self, resource: Resource) -> &Sketch {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
            Resource::EphemeralStorage => &self.ephemeral_storage,
        }
    }

    pub fn leave_out(&mut self, resource: Resource) {
        *self.sketch_mut(resource) = Sketch::default();
        if resource == Resource::Cpu {
            self.busy_pods.forget_cpu();
        }
    }

    pub fn add_kill(&mut self, kill: Kill) {
        self.last_seen = self.last_seen.max(kill.at);
        if self.kills.iter().any(|known| (known.at, known.of) == (kill.at, kill.of)) {
            return;
        }
        let place = self.kills.partition_point(|known| *known > kill);
        self.kills.insert(place, kill);
        self.kills.truncate(MAX_OOM_KILLS);
    }

    /// The p95 of the CPU usage of the busiest pod; none if there is a single pod.
    pub fn busiest(&self) -> Option<u64> {
        self.busy_pods.p95().filter(|_| self.pods.count() > 1)
    }

    pub fn kills(&self) -> &[Kill] {
        &self.kills
    }

    /// Adds more of the same day.
    pub fn merge(&mut self, other: &Self) {
        self.add_day(other);
        self.busy_pods.merge(&other.busy_pods);
    }

    /// Adds another day. Busy pods are only known within a day.
    pub fn add_day(&mut self, other: &Self) {
        self.cpu.merge(&other.cpu);
        self.memory.merge(&other.memory);
        self.ephemeral_storage.merge(&other.ephemeral_storage);
        self.pods.merge(&other.pods);
        self.last_seen = self.last_seen.max(other.last_seen);
        other.kills.iter().for_each(|kill| self.add_kill(*kill));
    }

    pub fn bytes(&self) -> usize {
        let sketches: usize = Resource::ALL.iter().map(|resource| self.sketch(*resource).bytes()).sum();
        size_of::<Self>() + sketches + self.pods.bytes() + self.busy_pods.bytes()
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
        // Last, and only if there is any: most sources do not report ephemeral storage.
        if !self.ephemeral_storage.is_empty() || !self.busy_pods.is_empty() {
            self.ephemeral_storage.write(out);
        }
        self.busy_pods.write(out);
    }

    /// Reads only the time of the newest observation, which comes first.
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
        observed.busy_pods = BusyPods::read(rest)?;
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
    fn one_of_several_pods_is_the_busiest() {
        let mut observed = Observed::default();
        observed.cpu.add(900, 86_400);
        observed.busy_pods.add(1, &observed.cpu, 0);
        for (pod, expected) in [(1, None), (2, Some(900))] {
            observed.pods.add(pod);
            assert_eq!(observed.busiest(), expected);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut whole = observed(5, 40);
        whole.add_kill(kill(17, 3));
        let mut out = Vec::new();
        whole.write(&mut out);
        assert_eq!(Observed::read(&out).as_ref(), Ok(&whole));
        whole.add(Resource::EphemeralStorage, 41, 1 << 30, 60);
        let cpu = whole.cpu.clone();
        (0..9).for_each(|pod| whole.busy_pods.add(pod, &cpu, 1 + u64::from(pod)));
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
