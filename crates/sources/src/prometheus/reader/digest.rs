//! Usage as percentiles that the store makes, a day at a time: a few dozen numbers in the place of hundreds of samples.
//!
//! Each percentile is the answer for another second after the same span, so one query evaluates the span once and gives all
//! of them. Stores that do not follow are read sample by sample.

use headroom_usage::sample::{Resource, Window, is_possible};

use super::super::query::{MEMORY_OF_ONE, PodSelection, UsageGroup};
use super::by_pod::texts;
use super::{ContainerRef, StoreReader};
use crate::SourceError;

/// The percentiles that are read: those that rules and reports ask for most. Others are interpolated.
const CPU: [u16; 13] = [0, 500, 600, 700, 750, 800, 850, 900, 950, 980, 990, 995, 1000];
/// Memory is decided by its upper end.
const BYTES: [u16; 8] = [0, 250, 500, 750, 900, 950, 990, 1000];

/// The pods of a CronJob may be less alike than the hours of a container.
const JOBS: [u16; 21] =
    [0, 100, 200, 300, 400, 500, 550, 600, 650, 700, 750, 800, 850, 900, 925, 950, 975, 980, 990, 995, 1000];

/// A distribution by its percentiles: permille and amount (nanocores or bytes), both rising.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest(pub Vec<(u16, u64)>);

impl StoreReader {
    /// Returns true if a step has enough seconds for all percentiles.
    pub fn can_digest(&self) -> bool {
        self.step_seconds.min(self.step_of(Resource::Cpu)) as usize > CPU.len()
    }

    pub(super) fn can_digest_jobs(&self) -> bool {
        self.step_seconds as usize > JOBS.len()
    }

    /// Hands over what each container used of a resource, or each container of a CronJob. Of memory, a CronJob of which several
    /// pods ran at the same time is left out.
    pub async fn digests(
        &self,
        namespaces: &[impl AsRef<str> + Sync],
        resource: Resource,
        window: Window,
        group: UsageGroup,
        each: &mut (dyn FnMut(ContainerRef, Digest) + Send),
    ) -> Result<(), SourceError> {
        let is_in_one = group.pods == PodSelection::JobInOne;
        let permilles: &[u16] = match resource {
            _ if is_in_one => &JOBS,
            Resource::Cpu => &CPU,
            Resource::Memory | Resource::EphemeralStorage => &BYTES,
        };
        let added = if is_in_one && resource == Resource::Memory { MEMORY_OF_ONE as f64 } else { 0.0 };
        let unit = if resource == Resource::Cpu { 1e3 } else { 1.0 };
        // A window leaves its end to the next one. A second later, and both ends of the span lie between two steps.
        let step = self.step_of(resource);
        let first = window.to - i64::from(step) + 1;
        let span = (window.seconds(), step);
        let queries = self.queries_of(resource);
        let question = queries.digest(&texts(namespaces), resource, permilles, first, span, group);
        let Some(question) = question.filter(|_| !namespaces.is_empty()) else { return Ok(()) };
        let place = queries.place(group);
        let moments = Window { from: first, to: first + permilles.len() as i64 };
        self.api
            .range(&question, moments, 1, &mut |row| {
                if added > 0.0 && row.points().iter().any(|(_, value)| *value >= 2.0 * added) {
                    return Ok(());
                }
                let amount = |permille: u16, moment: i64| {
                    let (_, value) = row.points().iter().find(|(time, _)| *time == moment)?;
                    let amount = ((value - added).max(0.0) * unit).round() as u64;
                    is_possible(amount, resource).then_some((permille, amount))
                };
                let known = permilles.iter().zip(first..).filter_map(|(permille, moment)| amount(*permille, moment));
                each(ContainerRef::of(&row, &place), Digest(known.collect()));
                Ok(())
            })
            .await
    }
}

impl Digest {
    /// Spreads seconds over amounts. Between two percentiles amounts rise in equal parts from the one to the other, so that the
    /// known percentiles do not change. Where one is more than twice the other, usage is probably either of both, as in
    /// bursts, and so it is for half of the time each.
    pub fn spread(&self, seconds: u64, each: &mut dyn FnMut(u64, u64)) {
        const PARTS: u64 = 4;
        let mut passed = 0;
        for pair in self.0.windows(2) {
            let [(before, low), (permille, high)] = *pair else { continue };
            let width = u64::from(permille.saturating_sub(before));
            for part in 1..=PARTS {
                let until = seconds * (u64::from(before) * PARTS + width * part) / (1000 * PARTS);
                let difference = high.saturating_sub(low);
                let amount = match high / 2 > low {
                    _ if part == PARTS => high,
                    true if part * 2 <= PARTS => low,
                    true => high,
                    false => low + difference / (PARTS - 1) * (part - 1),
                };
                if until > passed {
                    each(amount, until - passed);
                    passed = until;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_usage::sketch::Sketch;

    use super::*;

    #[test]
    fn known_percentiles_come_out_as_they_are() {
        let digest = Digest(vec![(0, 10), (500, 50), (950, 100), (1000, 120)]);
        let mut sketch = Sketch::default();
        digest.spread(86_400, &mut |amount, seconds| sketch.add(amount, seconds));
        assert_eq!((sketch.seconds(), sketch.peak()), (86_400, 120));
        assert_eq!([500, 950, 1000].map(|permille| sketch.percentile(permille)), [50, 100, 120]);
        // In between in equal parts: 50, 66, 82, 100; but far apart, one or the other.
        assert_eq!([725, 240, 260].map(|permille| sketch.percentile(permille)), [66, 10, 50]);
    }

    #[test]
    fn every_second_is_counted_once() {
        let check = |seconds| {
            let mut passed = 0;
            let digest = Digest(CPU.map(|permille| (permille, u64::from(permille))).into());
            digest.spread(seconds, &mut |_, seconds| passed += seconds);
            assert_eq!(passed, seconds);
        };
        [0, 1, 60, 300, 86_399].into_iter().for_each(check);
    }
}
