//! Reads usage by pod and container: sample by sample, or as percentiles that the store makes, a day at a time: a few dozen
//! numbers in the place of hundreds of samples.
//!
//! Images are not asked for: who keeps usage by workload has the images from the cluster. Many namespaces are asked about at
//! once, because most are small.
//!
//! Each percentile is the answer for another second after the same span, so one query evaluates the span once and gives all
//! of them. Stores that do not follow are read sample by sample.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use headroom_usage::DAY;
use headroom_usage::sample::{Resource, Sample, Series, Window, is_possible};

use super::{ContainerRef, StoreReader};
use crate::SourceError;
use crate::prometheus::answer::AnswerSeries;
use crate::prometheus::images;
use crate::prometheus::query::{MEMORY_OF_ONE, PodSelection, UsageGroup};

/// A life of fewer steps is shorter than what CPU is averaged over, so it is averaged over itself.
const BRIEF_STEPS: i64 = 2;

/// The percentiles that are read: those that rules and reports ask for most. Others are interpolated.
const CPU: [u16; 13] = [0, 500, 600, 700, 750, 800, 850, 900, 950, 980, 990, 995, 1000];
/// Memory is decided by its upper end.
const BYTES: [u16; 8] = [0, 250, 500, 750, 900, 950, 990, 1000];

/// The pods of a CronJob may be less alike than the hours of a container.
pub(super) const JOBS: [u16; 21] =
    [0, 100, 200, 300, 400, 500, 550, 600, 650, 700, 750, 800, 850, 900, 925, 950, 975, 980, 990, 995, 1000];

/// A distribution by its percentiles: permille and amount (nanocores or bytes), both rising.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest(pub Vec<(u16, u64)>);

impl StoreReader {
    pub fn knows(&self, resource: Resource) -> bool {
        match resource {
            Resource::Cpu => self.names.cpu.is_some(),
            Resource::Memory => self.names.memory.is_some(),
            Resource::EphemeralStorage => self.names.storage.is_some(),
        }
    }

    /// Returns true if a step has enough seconds for all percentiles, and the store is not known to make none.
    pub fn can_digest(&self) -> bool {
        let step = self.step_seconds.min(self.step_of(Resource::Cpu));
        step as usize > CPU.len() && !self.lacks_percentiles.load(Ordering::Relaxed)
    }

    /// Returns true, and asks for percentiles no more, if an error of a question for them says that the store does not follow.
    pub(super) fn makes_no_percentiles(&self, error: &SourceError) -> bool {
        let SourceError::Permanent(reason) = error else { return false };
        tracing::debug!(reason, "the store makes no percentiles: reading all samples");
        self.lacks_percentiles.store(true, Ordering::Relaxed);
        true
    }

    /// For how many seconds of each day each container was seen.
    pub async fn lives(&self, namespaces: &[&str], window: Window) -> Result<Lives, SourceError> {
        let mut lives = Lives::default();
        let scrape = i64::from(self.names.scrape_seconds);
        let brief_seconds = BRIEF_STEPS * i64::from(self.step_seconds);
        let most_samples = brief_seconds.div_euclid(scrape);
        for days in whole_and_other_days(window) {
            let seconds = days.seconds().min(DAY);
            let Some(question) = self.queries().lives(namespaces, seconds) else { return Ok(lives) };
            let mut has_brief = false;
            self.daily(&question, days, &mut |container, end, samples| {
                let seconds = (samples as i64).saturating_mul(scrape).clamp(1, DAY);
                has_brief |= seconds < brief_seconds;
                lives.entry(container).or_default().insert(end, Life { seconds: seconds as u64, mean_cpu: None });
            })
            .await?;
            let brief = self.queries().brief_lives(namespaces, most_samples, seconds).filter(|_| has_brief);
            let Some(question) = brief else { continue };
            self.daily(&question, days, &mut |container, end, cores| {
                let life = lives.get_mut(&container).and_then(|days| days.get_mut(&end));
                if let Some(life) = life.filter(|life| (life.seconds as i64) < brief_seconds) {
                    let mean = (cores.max(0.0) * 1e9).round() as u64;
                    life.mean_cpu = Some(mean).filter(|mean| is_possible(*mean, Resource::Cpu));
                }
            })
            .await?;
        }
        Ok(lives)
    }

    /// Hands over what each container used of a resource: by percentiles of the whole window if it is known how long each was
    /// seen in it, or else sample by sample. Nothing counts of a read that ends with an error.
    pub async fn usage(
        &self,
        namespaces: &[&str],
        resource: Resource,
        window: Window,
        lives: Option<&Lives>,
        each: &mut (dyn FnMut(Series) + Send),
    ) -> Result<(), SourceError> {
        let Some(lives) = lives.filter(|_| self.can_digest()) else {
            return self.samples(namespaces, resource, window, false, each).await;
        };
        let (all, mut digests) = (UsageGroup { pods: PodSelection::All, has_single_series: false }, Vec::new());
        let mut keep = |of, digest| digests.push((of, digest));
        match self.digests(namespaces, resource, window, all, &mut keep).await {
            Err(error) if self.makes_no_percentiles(&error) => {
                return self.samples(namespaces, resource, window, false, each).await;
            }
            read => read?,
        }
        for (of, digest) in digests {
            let life = lives.get(&of).and_then(|days| days.get(&window.to));
            let seconds = life.map_or(self.step_of(resource).into(), |life| life.seconds);
            let (seconds, time) = (seconds.min(window.seconds().max(0) as u64), window.to - 1);
            let mean = life.and_then(|life| life.mean_cpu).filter(|_| resource == Resource::Cpu);
            let samples = match mean {
                Some(value) => vec![Sample { time, value, seconds }],
                None => digest.samples(time, seconds),
            };
            each(Series { container: of.with_image(""), resource, samples });
        }
        Ok(())
    }

    /// Hands over the samples of each container, and the image if the series themselves have one and it is asked for. Series come
    /// one at a time.
    pub(super) async fn samples(
        &self,
        namespaces: &[&str],
        resource: Resource,
        window: Window,
        with_image: bool,
        each: &mut (dyn FnMut(Series) + Send),
    ) -> Result<(), SourceError> {
        let question = self.queries_of(resource).usage(namespaces, resource, with_image);
        let Some(question) = question.filter(|_| !namespaces.is_empty()) else { return Ok(()) };
        let (step, label) = (self.step_of(resource), self.names.usage_image.as_deref().filter(|_| with_image));
        let mut hand_over = |row: AnswerSeries| {
            let container = self.container(&row).with_image(images::of_usage(&row, label).unwrap_or_default());
            each(Series { container, resource, samples: row.samples(resource, step).collect() });
        };
        self.api.range(&question, window, step, &mut hand_over).await
    }

    /// Hands over what each container used of a resource, or each container of a CronJob. Of memory, a CronJob of which several
    /// pods ran at the same time is left out.
    pub async fn digests(
        &self,
        namespaces: &[&str],
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
        let question = queries.digest(namespaces, resource, permilles, first, span, group);
        let Some(question) = question.filter(|_| !namespaces.is_empty()) else { return Ok(()) };
        let place = queries.place(group);
        let moments = Window { from: first, to: first + permilles.len() as i64 };
        self.api
            .range(&question, moments, 1, &mut |row| {
                if added > 0.0 && row.points().iter().any(|(_, value)| *value >= 2.0 * added) {
                    return;
                }
                let amount = |permille: u16, moment: i64| {
                    let (_, value) = row.points().iter().find(|(time, _)| *time == moment)?;
                    let amount = ((value - added).max(0.0) * unit).round() as u64;
                    is_possible(amount, resource).then_some((permille, amount))
                };
                let known = permilles.iter().zip(first..).filter_map(|(permille, moment)| amount(*permille, moment));
                each(ContainerRef::of(&row, &place), Digest(known.collect()));
            })
            .await
    }
}

/// The life of each container on each day, by the day's end.
pub type Lives = HashMap<ContainerRef, BTreeMap<i64, Life>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    pub seconds: u64,
    /// The CPU that it used on average, in nanocores, if it was there too briefly for a distribution.
    pub mean_cpu: Option<u64>,
}

impl Digest {
    /// Samples of one time that stand for so many seconds together. Between two percentiles amounts rise in equal parts from the one to the other, so that the
    /// known percentiles do not change. Where one is more than twice the other, usage is probably either of both, as in
    /// bursts, and so it is for half of the time each.
    pub fn samples(&self, time: i64, seconds: u64) -> Vec<Sample> {
        const PARTS: u64 = 4;
        let (mut samples, mut passed) = (Vec::new(), 0);
        for pair in self.0.windows(2) {
            let [(before, low), (permille, high)] = *pair else { continue };
            let width = u64::from(permille.saturating_sub(before));
            for part in 1..=PARTS {
                let until = seconds * (u64::from(before) * PARTS + width * part) / (1000 * PARTS);
                let difference = high.saturating_sub(low);
                let value = match high / 2 > low {
                    _ if part == PARTS => high,
                    true if part * 2 <= PARTS => low,
                    true => high,
                    false => low + difference / (PARTS - 1) * (part - 1),
                };
                if until > passed {
                    samples.push(Sample { time, value, seconds: until - passed });
                    passed = until;
                }
            }
        }
        samples
    }
}

/// The days of a window: those that are not whole by themselves, the whole ones together.
fn whole_and_other_days(window: Window) -> Vec<Window> {
    let (whole, mut others): (Vec<Window>, Vec<Window>) =
        window.days().into_iter().partition(|day| day.seconds() == DAY);
    if let (Some(newest), Some(oldest)) = (whole.first(), whole.last()) {
        others.push(Window { from: oldest.from, to: newest.to });
    }
    others
}

#[cfg(test)]
mod tests {
    use headroom_usage::sketch::Sketch;

    use super::*;

    #[test]
    fn known_percentiles_come_out_as_they_are() {
        let digest = Digest(vec![(0, 10), (500, 50), (950, 100), (1000, 120)]);
        let mut sketch = Sketch::default();
        digest.samples(0, 86_400).iter().for_each(|of| sketch.add(of.value, of.seconds));
        assert_eq!((sketch.seconds(), sketch.peak()), (86_400, 120));
        assert_eq!([500, 950, 1000].map(|permille| sketch.percentile(permille)), [50, 100, 120]);
        // In between in equal parts: 50, 66, 82, 100; but far apart, one or the other.
        assert_eq!([725, 240, 260].map(|permille| sketch.percentile(permille)), [66, 10, 50]);
    }

    #[test]
    fn every_second_is_counted_once() {
        let check = |seconds| {
            let digest = Digest(CPU.map(|permille| (permille, u64::from(permille))).into());
            assert_eq!(digest.samples(0, seconds).iter().map(|of| of.seconds).sum::<u64>(), seconds);
        };
        [0, 1, 60, 300, 86_399].into_iter().for_each(check);
    }
}
