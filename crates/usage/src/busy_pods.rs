//! The pods of a day that used the most CPU, and those that used the most memory.
//!
//! The p95 of a pod's day needs only the busiest twentieth of that day; a quarter is kept, so that days differ: a day of which
//! two hours were busy is not one that was busy throughout. Quarters can be merged: for up to four pods the
//! result is the same whether a day is read at once, by the hour or by the sample. With more pods, a part of the day counts only
//! for the four that are busiest in it: the result for a pod is then at least the p95 of its day, if it is busy for six hours, and
//! at most the p95 of the hours in which it is one of the four.

use crate::DAY;
use crate::sketch::Sketch;
use crate::varint::{self, Damaged};

/// Pods kept a day, of each resource.
const MAX_PODS: usize = 4;
/// A pod that was observed for less time counts as idle for the rest of the day: a pod that only started up is not the busiest,
/// nor is one with only a busy hour kept.
const LEAST_SECONDS: u64 = 6 * 3600;
const QUARTER_OF_DAY: u64 = DAY as u64 / 4;

/// Pods in the order of their usage, highest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BusyPods {
    pods: Vec<BusyPod>,
    /// The peak of memory of each, and the pod.
    large: Vec<(u64, u32)>,
}

/// The CPU usage of one pod's container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusyPod {
    pub pod: u32,
    pub seconds: u64,
    /// The busiest of the seconds, a quarter of a day of them.
    busiest: Sketch,
}

impl BusyPod {
    /// At least the p95, and at most 1.6 % more.
    fn p95(&self) -> u64 {
        let known = if self.seconds < LEAST_SECONDS { DAY as u64 } else { self.seconds };
        self.exceeded_for(known / 20)
    }

    /// The lowest amount that was exceeded for no longer than `seconds`, at most a twentieth of a day, or at most 1.6 % more.
    pub fn exceeded_for(&self, seconds: u64) -> u64 {
        self.busiest.exceeded_for(seconds.min(DAY as u64 / 20))
    }

    /// All that it used on the day, or more: what is not kept counts as the least that is. A pod among so many that parts of its
    /// day may not be kept was idle in these, if most are.
    pub fn whole(&self, pods: u64) -> Sketch {
        let mut whole = self.busiest.clone();
        let rest = self.seconds.saturating_sub(whole.seconds());
        whole.add(whole.least(), rest);
        if pods > MAX_PODS as u64 && self.seconds < LEAST_SECONDS {
            whole.add(0, (DAY as u64).saturating_sub(whole.seconds()));
        }
        whole
    }

    /// About how much it used in all, so far.
    fn used(&self) -> u64 {
        self.busiest.exceeded_for(self.seconds / 20).saturating_mul(self.seconds)
    }
}

impl BusyPods {
    /// Adds what a pod's container used in some part of the day.
    pub fn add(&mut self, pod: u32, cpu: &Sketch, memory_peak: u64) {
        if !cpu.is_empty() {
            self.insert(BusyPod { pod, seconds: cpu.seconds(), busiest: cpu.top(QUARTER_OF_DAY) });
        }
        self.insert_large(memory_peak, pod);
    }

    pub fn merge(&mut self, other: &Self) {
        other.pods.iter().for_each(|pod| self.insert(pod.clone()));
        other.large.iter().for_each(|(peak, pod)| self.insert_large(*peak, *pod));
    }

    pub fn forget_cpu(&mut self) {
        self.pods.clear();
    }

    pub fn busiest(&self) -> &[BusyPod] {
        &self.pods
    }

    /// The peaks of memory of those that used the most, highest first.
    pub fn largest(&self) -> &[(u64, u32)] {
        &self.large
    }

    /// The p95 of the busiest pod.
    pub fn p95(&self) -> Option<u64> {
        self.pods.iter().map(BusyPod::p95).max()
    }

    pub fn bytes(&self) -> usize {
        let large = self.large.capacity() * size_of::<(u64, u32)>();
        large + self.pods.iter().map(|pod| size_of::<BusyPod>() + pod.busiest.bytes()).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.large.is_empty()
    }

    /// A pod with no second has the peak of its memory.
    pub fn write(&self, out: &mut Vec<u8>) {
        for BusyPod { pod, seconds, busiest } in &self.pods {
            varint::write(out, (*pod).into());
            varint::write(out, *seconds);
            busiest.write(out);
        }
        for (peak, pod) in &self.large {
            varint::write(out, (*pod).into());
            varint::write(out, 0);
            varint::write(out, *peak);
        }
    }

    /// Reads all that is left.
    pub fn read(rest: &mut &[u8]) -> Result<Self, Damaged> {
        let mut pods = Self::default();
        while !rest.is_empty() {
            let pod = u32::try_from(varint::read(rest)?).map_err(|_| Damaged)?;
            match varint::read(rest)? {
                0 => pods.insert_large(varint::read(rest)?, pod),
                seconds => pods.insert(BusyPod { pod, seconds, busiest: Sketch::read(rest)? }),
            }
        }
        Ok(pods)
    }

    fn insert(&mut self, mut pod: BusyPod) {
        if let Some(place) = self.pods.iter().position(|known| known.pod == pod.pod) {
            let known = self.pods.remove(place);
            pod.seconds = pod.seconds.saturating_add(known.seconds);
            pod.busiest.merge(&known.busiest);
            pod.busiest = pod.busiest.top(QUARTER_OF_DAY);
        }
        let rank = |pod: &BusyPod| (pod.used(), pod.pod);
        let place = self.pods.partition_point(|known| rank(known) > rank(&pod));
        self.pods.insert(place, pod);
        self.pods.truncate(MAX_PODS);
    }

    fn insert_large(&mut self, mut peak: u64, pod: u32) {
        if let Some(place) = self.large.iter().position(|(_, known)| *known == pod) {
            peak = peak.max(self.large.remove(place).0);
        }
        let place = self.large.partition_point(|known| *known > (peak, pod));
        if peak > 0 {
            self.large.insert(place, (peak, pod));
            self.large.truncate(MAX_PODS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const HOUR: u64 = 3_600;

    /// Amounts, each used for so many times a unit of seconds.
    fn used(samples: &[(u64, u64)], unit: u64) -> Sketch {
        let mut used = Sketch::default();
        samples.iter().for_each(|(amount, times)| used.add(*amount, times * unit));
        used
    }

    #[test]
    fn the_busiest_pod_is_known_however_the_day_is_read() {
        let check = |pieces: &[(u32, u64, u64)], expected| {
            let mut day = BusyPods::default();
            for (pod, amount, hours) in pieces {
                let mut piece = BusyPods::default();
                piece.add(*pod, &used(&[(*amount, *hours)], HOUR), *amount);
                day.merge(&piece);
            }
            assert_eq!(day.p95(), expected, "{pieces:?}");
        };
        let hot_among = |pieces: u64| {
            let pods = (0..12).map(move |pod| (pod, if pod == 3 { 900 } else { 60 }, 24 / pieces));
            (0..pieces).flat_map(|_| pods.clone()).collect::<Vec<_>>()
        };
        check(&hot_among(1), Some(900));
        check(&hot_among(24), Some(900));
        // Busy in a twelfth of the day, of which most hours know nothing.
        let by_hour: Vec<_> = (0..24).map(|hour| (7, if hour < 2 { 900 } else { 10 }, 1)).collect();
        check(&by_hour, Some(900));
        check(&[], None);
        // One that starts up for an hour.
        check(&[(0, 60, 24), (1, 1_200, 1)], Some(60));
        // A young workload.
        check(&[(0, 60, 3), (1, 900, 3)], Some(900));
    }

    proptest! {
        #[test]
        fn a_day_in_pieces_is_the_day(
            pods in vec(vec((1..2_000_000_u64, 1..40_u64), 1..90), 1..=MAX_PODS),
            pieces in 1..30_usize,
        ) {
            let (mut whole, mut parts) = (BusyPods::default(), BusyPods::default());
            for (pod, samples) in (0..).zip(&pods) {
                let peak = |of: &[(u64, u64)]| of.iter().map(|(amount, _)| *amount).max().unwrap_or(0);
                whole.add(pod, &used(samples, 60), peak(samples));
                samples.chunks(pieces).for_each(|samples| parts.add(pod, &used(samples, 60), peak(samples)));
            }
            prop_assert_eq!(&parts, &whole);
            let mut out = Vec::new();
            whole.write(&mut out);
            prop_assert_eq!(BusyPods::read(&mut out.as_slice()), Ok(whole));
        }

        #[test]
        fn no_pod_runs_at_more_than_its_p95_for_over_a_twentieth(samples in vec((1..2_000_000_u64, 1..40_u64), 1..90)) {
            let mut pods = BusyPods::default();
            // As long as it takes for a pod to count.
            pods.add(1, &used(&samples, HOUR), 0);
            let p95 = pods.p95().unwrap_or_default();
            let above = |limit: u64| samples.iter().filter(|(amount, _)| *amount > limit).map(|(_, hours)| hours).sum::<u64>();
            let all: u64 = samples.iter().map(|(_, hours)| hours).sum();
            prop_assert!(all < 6 || above(p95) * 20 <= all.min(24), "{p95}");
            // Nor is it much more than that takes.
            prop_assert!(!(6..=24).contains(&all) || above((p95 * 63 / 64).saturating_sub(1)) * 20 > all, "{p95}");
        }
    }
}
