//! The course of a container's usage over pods and days: what each pod needs, and whether usage grows or comes at certain times.
//!
//! Days are told by their age, of which those that differ by seven are the same weekday.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use headroom_admission::cluster::usage::{Percentile, Resource};
use headroom_usage::DAY;
use headroom_usage::observed::Observed;
use headroom_usage::profile::{EachPod, Percentiles};
use headroom_usage::sample::quantity;
use headroom_usage::sketch::Sketch;

const HOURS: u32 = 24;
/// A pod that was seen for less time counts as idle for the rest of it: one that only started up needs no request for that.
const LEAST_SECONDS: u64 = 2 * 3600;
/// Differences of less CPU, in nanocores, are not worth a word.
const LITTLE_CPU: u64 = 10_000_000;
const LITTLE_MEMORY: u64 = 64 << 20;

/// The usage of one container by pod and by day.
#[derive(Debug, Default)]
pub struct Course {
    pods: HashMap<u32, PodCourse>,
    days: BTreeMap<u32, Day>,
    /// The oldest day of each version of the pods' template, by its age.
    templates: HashMap<u32, u32>,
    /// The most memory that lasted for longer than two samples.
    lasting_memory: Option<u64>,
}

#[derive(Debug, Default)]
struct PodCourse {
    cpu: Sketch,
    days: BTreeMap<u32, PodDay>,
    /// The CPU in hours in which it used more than twice its mean, by the day's age and the hour.
    busy_hours: BTreeMap<(u32, u32), u64>,
    /// When it was last seen, in Unix seconds, if it is gone.
    end: Option<i64>,
}

#[derive(Debug, Default)]
struct PodDay {
    seconds: u64,
    /// Three quarters of the day are below it.
    usual: u64,
    p95: u64,
    /// It is exceeded for seven minutes.
    top: u64,
    last_seen: i64,
}

#[derive(Debug, Default)]
struct Day {
    seconds: u64,
    cpu_median: u64,
    cpu_peak: u64,
    memory_peak: u64,
}

/// Usage that grows steadily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    pub a_day: u64,
    /// The level of the last day.
    pub now: u64,
}

/// The times at which usage is far above its mean, with the CPU of the busiest hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rhythm {
    Nightly(u64),
    Weekly(u64),
}

impl Course {
    /// Adds what all pods used on one day, or in a part of it.
    pub fn add_day(&mut self, age: u32, observed: &Observed) {
        let day = self.days.entry(age).or_default();
        day.cpu_median = day.cpu_median.max(observed.cpu.percentile(500));
        day.cpu_peak = day.cpu_peak.max(observed.cpu.peak());
        day.memory_peak = day.memory_peak.max(observed.memory.peak());
        let seconds = observed.cpu.seconds().max(observed.memory.seconds());
        // Pods mostly run beside each other.
        day.seconds = day.seconds.max(seconds / observed.pods.count().max(1));
    }

    /// Adds the CPU usage of one pod on one day, or in a part of it.
    pub fn add_pod(&mut self, pod: u32, age: u32, observed: &Observed) {
        let cpu = &observed.cpu;
        let of = self.pods.entry(pod).or_default();
        of.cpu.merge(cpu);
        let day = of.days.entry(age).or_default();
        let [usual, p95, top] = cpu.percentiles([750, 950, 995]);
        day.seconds = day.seconds.saturating_add(cpu.seconds());
        (day.usual, day.p95, day.top) = (day.usual.max(usual), day.p95.max(p95), day.top.max(top));
        day.last_seen = day.last_seen.max(observed.last_seen);
        let of_all = self.days.entry(age).or_default();
        of_all.seconds = of_all.seconds.max(day.seconds);
    }

    pub fn add_busy_hour(&mut self, pod: u32, (age, hour): (u32, u32), cpu: u64) {
        self.pods.entry(pod).or_default().busy_hours.insert((age, hour), cpu);
    }

    /// Says when a pod that is gone was last seen.
    pub fn add_end(&mut self, pod: u32, at: i64) {
        self.pods.entry(pod).or_default().end = Some(at);
    }

    /// Says that pods were made from a template on a day.
    pub fn add_template(&mut self, template: u32, age: u32) {
        let oldest = self.templates.entry(template).or_default();
        *oldest = age.max(*oldest);
    }

    pub fn add_lasting_memory(&mut self, bytes: u64) {
        self.lasting_memory = self.lasting_memory.max(Some(bytes));
    }

    pub fn merge(&mut self, other: Self) {
        for (number, pod) in other.pods {
            let of = self.pods.entry(number).or_default();
            of.cpu.merge(&pod.cpu);
            of.busy_hours.extend(pod.busy_hours);
            of.end = of.end.max(pod.end);
            for (age, day) in pod.days {
                let known = of.days.entry(age).or_default();
                known.seconds = known.seconds.saturating_add(day.seconds);
                (known.usual, known.p95) = (known.usual.max(day.usual), known.p95.max(day.p95));
                known.top = known.top.max(day.top);
                known.last_seen = known.last_seen.max(day.last_seen);
            }
        }
        for (age, day) in other.days {
            let known = self.days.entry(age).or_default();
            known.seconds = known.seconds.max(day.seconds);
            known.cpu_median = known.cpu_median.max(day.cpu_median);
            known.cpu_peak = known.cpu_peak.max(day.cpu_peak);
            known.memory_peak = known.memory_peak.max(day.memory_peak);
        }
        for (template, age) in other.templates {
            self.add_template(template, age);
        }
        self.lasting_memory = self.lasting_memory.max(other.lasting_memory);
    }

    /// The time from the first sample of the workload to the last, however many pods it had.
    pub fn seconds(&self) -> u64 {
        let (Some((last, newest)), Some((first, oldest))) = (self.days.first_key_value(), self.days.last_key_value())
        else {
            return 0;
        };
        match first - last {
            0 => oldest.seconds,
            days => oldest.seconds + newest.seconds + u64::from(days - 1) * DAY as u64,
        }
    }

    /// The time of the newest sample, in Unix seconds, of what was read up to a moment. A store that makes percentiles tells it
    /// to a quarter of an hour in the last day, and to a day before that.
    pub fn last_seen(&self, to: i64) -> Option<i64> {
        let of_pod = |pod: &PodCourse| {
            let newest = pod.days.values().map(|day| day.last_seen).max();
            newest.map(|newest| pod.end.filter(|end| *end > to - DAY).map_or(newest, |end| newest.min(end)))
        };
        self.pods.values().filter_map(of_pod).max()
    }

    /// The peak of each day up to today, oldest first; none on a day without samples.
    pub fn daily_peaks(&self, resource: Resource) -> Vec<Option<u64>> {
        let peak = |day: &Day| if resource == Resource::Cpu { day.cpu_peak } else { day.memory_peak };
        let oldest = self.days.keys().last().copied().unwrap_or(0);
        (0..=oldest).rev().map(|age| self.days.get(&age).map(peak).filter(|peak| *peak > 0)).collect()
    }

    /// The ages of the days on which a new version of the pods' template came, newest first.
    pub fn releases(&self) -> Vec<u32> {
        let first = self.templates.values().max().copied();
        let mut ages: Vec<u32> = self.templates.values().copied().filter(|age| Some(*age) != first).collect();
        ages.sort_unstable();
        ages.dedup();
        ages
    }

    /// The percentiles of each pod by itself, and of all together; none if pods were not kept apart.
    pub fn each_pod(&self, all: &Sketch, are_runs: bool) -> Option<EachPod> {
        let mut most = all.percentiles(Percentile::PUBLISHED.map(Percentile::permille));
        for pod in self.pods.values() {
            let mut cpu = pod.cpu.clone();
            if !are_runs {
                cpu.add(0, LEAST_SECONDS.saturating_sub(cpu.seconds()));
            }
            let of_pod = cpu.percentiles(Percentile::PUBLISHED.map(Percentile::permille));
            most.iter_mut().zip(of_pod).for_each(|(most, amount)| *most = amount.max(*most));
        }
        let mut most = most.into_iter();
        let percentiles = Percentiles::agreed(|_| Some(quantity(most.next()?, Resource::Cpu)));
        let growth = self.growth(Resource::Cpu).map(|growth| quantity(growth.a_day, Resource::Cpu));
        (!self.pods.is_empty()).then_some(EachPod { percentiles, growth })
    }

    /// True if the p95 of one pod is far above that of the others on the days that they share.
    pub fn has_pods_that_differ(&self) -> bool {
        let sum = |pod: &PodCourse| pod.days.values().map(|day| day.p95).sum::<u64>();
        let Some(busiest) = self.pods.values().max_by_key(|pod| sum(pod) / pod.days.len().max(1) as u64) else {
            return false;
        };
        // By how many of the others it is far above on most of the days.
        let mut far_above: Vec<bool> = Vec::new();
        for other in self.pods.values().filter(|other| !std::ptr::eq(*other, busiest)) {
            let shared = busiest.days.iter().filter_map(|(age, day)| Some((day.p95, other.days.get(age)?.p95)));
            let days: Vec<bool> = shared.map(|(most, less)| most * 2 > less * 3 && most > less + LITTLE_CPU).collect();
            if days.len() >= 2 && days.len() * 2 >= busiest.days.len() {
                far_above.push(is_most(&days, 70));
            }
        }
        is_most(&far_above, 50)
    }

    /// The growth of median CPU, or of the peaks of memory: the median of the slopes between days, if nearly all rise and the
    /// days lie close to that line. The oldest and the newest day are not whole.
    pub fn growth(&self, resource: Resource) -> Option<Growth> {
        let whole = self.days.len().saturating_sub(2);
        let values: Vec<(i64, i64)> = self
            .days
            .iter()
            .skip(1)
            .take(whole)
            .rev()
            .map(|(age, day)| {
                let amount = if resource == Resource::Cpu { day.cpu_median } else { day.memory_peak };
                (-i64::from(*age), i64::try_from(amount).unwrap_or(i64::MAX))
            })
            .collect();
        let [(first, _), .., (last, _)] = *values.as_slice() else { return None };
        if values.len() < 5 || resource == Resource::EphemeralStorage {
            return None;
        }
        let later = |at: usize| values.iter().skip(at + 3);
        let mut slopes: Vec<i64> = values
            .iter()
            .enumerate()
            .flat_map(|(place, (at, amount))| later(place).map(move |(then, more)| (more - amount) / (then - at)))
            .collect();
        slopes.sort_unstable();
        let (slope, least) = (*slopes.get(slopes.len() / 2)?, *slopes.get(slopes.len() / 10)?);
        let mut levels: Vec<i64> = values.iter().map(|(at, amount)| amount - slope * (at - last)).collect();
        levels.sort_unstable();
        let (now, rise) = (*levels.get(levels.len() / 2)?, slope.saturating_mul(last - first));
        let is_steady = levels
            .iter()
            .all(|level| (level - now).saturating_mul(3) <= rise && (now - level).saturating_mul(3) <= rise);
        let is_growth = least > 0 && is_steady && rise.saturating_mul(6) > now;
        is_growth.then_some(Growth { a_day: slope as u64, now: now.max(0) as u64 })
    }

    /// Hours of the day, or days of the week, in which it is busy, and hardly at other times.
    pub fn rhythm(&self) -> Option<Rhythm> {
        let mut busy: Vec<(u32, u32)> = self.pods.values().flat_map(|pod| pod.busy_hours.keys().copied()).collect();
        busy.sort_unstable();
        busy.dedup();
        let days = self.seconds() / DAY as u64;
        if busy.is_empty() || days < 4 {
            return None;
        }
        let most = self.pods.values().flat_map(|pod| pod.busy_hours.values()).copied().max().unwrap_or(0);
        // Clocks change, and a run begins late: an hour earlier on other days is the same hour.
        let days_on = |hour: u32, or: u32| {
            let ages = busy.iter().filter(|(_, of)| *of == hour || *of == or).map(|(age, _)| age);
            ages.collect::<BTreeSet<_>>().len() as u64
        };
        let is_daily = |hour: &u32| {
            let beside = [(hour + 1) % HOURS, (hour + HOURS - 1) % HOURS];
            days_on(*hour, *hour) > 0 && beside.iter().any(|other| days_on(*hour, *other) * 10 >= days * 7)
        };
        let of_night: Vec<u32> = (0..HOURS).filter(is_daily).collect();
        let expected = busy.iter().filter(|(_, hour)| of_night.contains(hour)).count();
        let is_nightly = (1..=5).contains(&of_night.len()) && expected * 5 >= busy.len() * 3;
        if is_nightly && self.is_mostly_idle() {
            return Some(Rhythm::Nightly(most));
        }
        let hours_of = |age: u32| busy.iter().filter(move |(of, _)| *of == age).map(|(_, hour)| *hour);
        let is_whole = |age: &u32| Some(age) != self.days.keys().next() && Some(age) != self.days.keys().last();
        let is_busy = |weekday: &u32| {
            let ages: Vec<u32> = self.days.keys().copied().filter(|age| age % 7 == *weekday).collect();
            let with_any: Vec<u32> = ages.iter().copied().filter(|age| hours_of(*age).next().is_some()).collect();
            let are_alike = with_any.windows(2).any(|pair| {
                let [one, two] = *pair else { return false };
                let shared = hours_of(one).filter(|hour| hours_of(two).any(|other| other == *hour)).count();
                shared * 2 >= hours_of(one).count().min(hours_of(two).count())
            });
            are_alike && ages.iter().filter(|age| is_whole(age)).all(|age| with_any.contains(age))
        };
        let weekdays: Vec<u32> = (0..7).filter(is_busy).collect();
        let expected = busy.iter().filter(|(age, _)| weekdays.contains(&(age % 7))).count();
        let is_weekly = (1..=5).contains(&weekdays.len()) && expected * 10 >= busy.len() * 9;
        is_weekly.then_some(Rhythm::Weekly(most))
    }

    /// True if busy hours are far above what is usual on most days, as smooth curves over a day are not.
    fn is_mostly_idle(&self) -> bool {
        let mut ratios: Vec<bool> = Vec::new();
        for pod in self.pods.values() {
            for ((age, _), cpu) in &pod.busy_hours {
                ratios.extend(pod.days.get(age).map(|day| *cpu > day.usual.saturating_mul(2)));
            }
        }
        is_most(&ratios, 50)
    }

    /// True if on most days some pod is far above what is usual for minutes at a time, but not for whole hours.
    pub fn has_bursts(&self) -> bool {
        self.pods.values().any(|pod| {
            let days = pod.days.iter().filter(|(_, day)| day.seconds >= LEAST_SECONDS * 2);
            let are_bursts: Vec<bool> = days
                .map(|(age, day)| {
                    let hours = pod.busy_hours.range((*age, 0)..=(*age, HOURS)).map(|(_, cpu)| *cpu);
                    let is_far = day.top > day.usual.saturating_mul(3) && day.top > day.usual + LITTLE_CPU;
                    is_far && hours.max().is_none_or(|most| most.saturating_mul(5) < day.top.saturating_mul(3))
                })
                .collect();
            is_most(&are_bursts, 50)
        })
    }

    /// True if memory was at its peak for a minute or two only, and otherwise far below.
    pub fn has_brief_peak(&self, peak: u64) -> bool {
        self.lasting_memory.is_some_and(|lasting| peak > lasting + LITTLE_MEMORY && peak / 3 > lasting / 2)
    }

    /// True if the last days had a higher peak of memory than those before them.
    pub fn has_rising_memory(&self) -> bool {
        let most = |is_late: bool| {
            self.days.iter().filter(|(age, _)| (**age <= 2) == is_late).map(|(_, day)| day.memory_peak).max()
        };
        self.growth(Resource::Memory).is_some() || most(true) > most(false).map(|peak| peak / 20 * 21)
    }
}

/// True if more than so many percent are.
fn is_most(all: &[bool], percent: usize) -> bool {
    all.iter().filter(|is| **is).count() * 100 > all.len() * percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_the_same_night_although_clocks_change() {
        let check = |busy: fn(age: u32) -> Option<u32>, expected: Option<Rhythm>| {
            let mut course = Course::default();
            for age in 0..14 {
                let mut day = Observed::default();
                day.add(Resource::Cpu, 0, 30_000_000, 86_400);
                course.add_day(age, &day);
                course.add_pod(1, age, &day);
                if let Some(hour) = busy(age) {
                    course.add_busy_hour(1, (age, hour), 1_900_000_000);
                }
            }
            assert_eq!(course.rhythm(), expected);
        };
        check(|_| Some(2), Some(Rhythm::Nightly(1_900_000_000)));
        check(|age| Some(if age < 7 { 3 } else { 2 }), Some(Rhythm::Nightly(1_900_000_000)));
        check(|age| Some(if age < 7 { 0 } else { 23 }), Some(Rhythm::Nightly(1_900_000_000)));
        check(|age| Some(if age < 7 { 4 } else { 2 }), None);
        check(|age| (age % 7 == 3).then_some(9), Some(Rhythm::Weekly(1_900_000_000)));
        check(|age| (age == 3).then_some(9), None);
    }
}
