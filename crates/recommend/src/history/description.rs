//! The use of a container, described once from what was read by pod and day: what recurs, what happened once, how pods differ, and
//! where it goes. Requests, flags and texts are made of it.
//!
//! A request covers what recurs and what most pods use. What happened once and is over, and single pods that use a multiple of
//! what all others use, are said instead.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use headroom_admission::cluster::usage::{Percentile, Resource, Window};
use headroom_usage::DAY;
use headroom_usage::observed::Observed;
use headroom_usage::profile::{EachPod, History, Percentiles};
use headroom_usage::sample::quantity;
use headroom_usage::sketch::Sketch;
use headroom_usage::window_merge::OpenHistory;

use super::ContainerUsage;
use super::course::{Course, Day};

const HOURS: u32 = 24;
/// A pod that was seen for less time counts as idle for the rest of it: one that only started up needs no request for that.
const LEAST_SECONDS: u64 = 2 * 3600;
/// A day or pod is beyond all others from three times their highest amount on.
const BEYOND: u64 = 3;
/// The quiet days beside which one day may stand out.
const LEAST_QUIET_DAYS: usize = 7;

/// The use of a container.
#[derive(Debug, Default)]
pub struct Description {
    pub recurs: Vec<Recurrence>,
    pub once: Vec<Once>,
    pub pods: Vec<Difference>,
    pub grows: Vec<(Resource, Growth)>,
    /// True if the last days had a higher peak of memory than those before them.
    pub has_rising_memory: bool,
    /// The days of pods, by number and age, whose use a request does not cover.
    left_out: HashSet<(Resource, u32, u32)>,
}

/// CPU usage far above the usual that comes again, and is too brief for a request to cover it all the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurrence {
    pub rhythm: Rhythm,
    /// In nanocores, of the middle one.
    pub amount: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rhythm {
    AtStart,
    /// At these hours of UTC.
    Daily(Vec<u32>),
    /// On these days, by the age of one of each.
    Weekly(Vec<u32>),
    Bursts,
}

/// A day on which more was used than on all others, and which is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    pub resource: Resource,
    pub amount: u64,
    pub age: u32,
}

/// Pods that use more than the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub resource: Resource,
    pub amount: u64,
    /// The number of the pods that use so much, and of all.
    pub pods: (usize, usize),
    /// The amount of the middle one of the others.
    pub others: u64,
    pub is_covered: bool,
}

/// Usage that grows steadily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    pub a_day: u64,
    /// The level of the last day.
    pub now: u64,
}

/// The days of a pod.
struct Pod<'c> {
    number: u32,
    days: BTreeMap<u32, Observed>,
    busy_hours: &'c BTreeMap<(u32, u32), u64>,
}

/// Differences of less are not worth a word: nanocores and bytes.
fn little(resource: Resource) -> u64 {
    if resource == Resource::Cpu { 10_000_000 } else { 64 << 20 }
}

impl Description {
    /// Describes what was read; the pods may be runs of a Job.
    pub fn of(course: &Course, are_runs: bool) -> Self {
        let mut pods: Vec<Pod<'_>> = course
            .pods
            .iter()
            .map(|(number, pod)| Pod { number: *number, days: pod.days().collect(), busy_hours: &pod.busy_hours })
            .collect();
        pods.sort_unstable_by_key(|pod| pod.number);
        let mut found = Self::default();
        for resource in [Resource::Cpu, Resource::Memory] {
            found.describe_pods(&pods, resource, are_runs);
            found.describe_days(&pods, resource, are_runs);
            found.grows.extend(growth(&course.days, resource).map(|growth| (resource, growth)));
        }
        found.recurs = found.recurrences(course, &pods);
        let most = |is_late: bool| {
            let days = course.days.iter().filter(|(age, _)| (**age <= 2) == is_late);
            days.map(|(_, day)| day.memory_peak).max()
        };
        found.has_rising_memory =
            found.growth(Resource::Memory).is_some() || most(true) > most(false).map(|peak| peak / 20 * 21);
        found
    }

    pub fn growth(&self, resource: Resource) -> Option<Growth> {
        self.grows.iter().find(|(of, _)| *of == resource).map(|(_, growth)| *growth)
    }

    /// The history as a profile would have it, with what each pod needs, and of what a request covers; of all where somebody chose
    /// what to cover. None if nothing was observed.
    pub fn history(
        &self,
        usage: &ContainerUsage,
        are_runs: bool,
        covers_all: impl Fn(Resource) -> bool,
    ) -> Option<History> {
        let mut history = usage.usage.history()?;
        history.days = usage.days();
        let (mut covered, mut most) = (OpenHistory::default(), [0; Percentile::PUBLISHED.len()]);
        let mut raise = |cpu: &Sketch| {
            let of_pod = cpu.percentiles(Percentile::PUBLISHED.map(Percentile::permille));
            most.iter_mut().zip(of_pod).for_each(|(most, amount)| *most = amount.max(*most));
        };
        for (number, pod) in &usage.course.pods {
            let mut cpu = Sketch::default();
            for (age, mut observed) in pod.days() {
                let is_left_out = |resource| self.left_out.contains(&(resource, *number, age)) && !covers_all(resource);
                if is_left_out(Resource::Cpu) {
                    observed.cpu = Sketch::default();
                }
                if is_left_out(Resource::Memory) {
                    observed.memory = Sketch::default();
                }
                cpu.merge(&observed.cpu);
                if !self.left_out.is_empty() {
                    covered.add_observed(age, &observed);
                }
            }
            raise(&padded(cpu, are_runs));
        }
        if usage.course.pods.is_empty() {
            return Some(history);
        }
        if self.left_out.is_empty() {
            raise(usage.sketch(Resource::Cpu));
        } else {
            raise(covered.sketch(Window::MONTH, Resource::Cpu));
            for (window, of) in covered.history()?.windows {
                if let Some(known) = history.windows.get_mut(&window) {
                    (known.cpu, known.memory) = (of.cpu, of.memory);
                }
            }
        }
        if let Some(cpu) = history.windows.get_mut(&Window::MONTH).and_then(|month| month.cpu.as_mut()) {
            let mut most = most.into_iter();
            let percentiles = Percentiles::agreed(|_| Some(quantity(most.next()?, Resource::Cpu)));
            let growth = self.growth(Resource::Cpu).map(|growth| quantity(growth.a_day, Resource::Cpu));
            cpu.each_pod = Some(Box::new(EachPod { percentiles, growth }));
        }
        Some(history)
    }

    /// Finds single pods beyond all others, which no request covers, and others that differ.
    fn describe_pods(&mut self, pods: &[Pod<'_>], resource: Resource, are_runs: bool) {
        let mut levels: Vec<(u64, &Pod<'_>)> = pods.iter().map(|pod| (pod.level(resource, are_runs), pod)).collect();
        levels.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        let (single, others) = levels.split_at((levels.len() / 100).max(1).min(levels.len()));
        let mut by_day: BTreeMap<u32, (u64, usize)> = BTreeMap::new();
        for (level, pod) in others {
            for age in pod.days.keys() {
                let (most, count) = by_day.entry(*age).or_default();
                (*most, *count) = (level.max(most).to_owned(), *count + 1);
            }
        }
        // A hot pod is slow without its CPU, and what was seen today only may be the first pod of a release.
        let least = |age: u32| if resource == Resource::Cpu || age == 0 { 49 } else { 7 };
        let is_beyond = |(level, pod): &&(u64, &Pod<'_>)| {
            let beside = |age| by_day.get(age).copied().unwrap_or_default();
            let most = pod.days.keys().map(|age| beside(age).0).max().unwrap_or(0);
            let has_many = pod.days.keys().any(|age| beside(age).1 >= least(*age));
            *level > most.saturating_mul(BEYOND) + little(resource) && has_many
        };
        let beyond: Vec<&(u64, &Pod<'_>)> = single.iter().filter(is_beyond).collect();
        let ages = || beyond.iter().flat_map(|(_, pod)| pod.days.keys());
        let is_weekly = beyond.len() > 1 && ages().map(|age| age % 7).collect::<BTreeSet<_>>().len() == 1;
        if let Some((amount, _)) = beyond.first().filter(|_| !is_weekly) {
            let others = median(levels.iter().skip(beyond.len()).map(|(level, _)| *level));
            let pods = (beyond.len(), levels.len());
            self.pods.push(Difference { resource, amount: *amount, pods, others, is_covered: false });
            let days = beyond.iter().flat_map(|(_, pod)| pod.days.keys().map(|age| (resource, pod.number, *age)));
            self.left_out.extend(days);
        } else {
            self.pods.extend(differing(pods, resource));
        }
    }

    /// Finds a day beyond all others, also beyond what they exceed for minutes, that is over and did not come a week before or after.
    fn describe_days(&mut self, pods: &[Pod<'_>], resource: Resource, are_runs: bool) {
        let mut levels: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for pod in pods {
            for (age, day) in pod.days.iter().filter(|(age, _)| !self.left_out.contains(&(resource, pod.number, **age)))
            {
                let sketch = day.sketch(resource);
                if sketch.seconds() >= LEAST_SECONDS || are_runs {
                    let (level, most) = levels.entry(*age).or_default();
                    (*level, *most) = (day_level(sketch, resource).max(*level), day_top(sketch, resource).max(*most));
                }
            }
        }
        let all = levels.iter().map(|(age, (level, _))| (*age, *level));
        let Some((top, amount)) = all.max_by_key(|(_, level)| *level) else { return };
        // It may last over midnight.
        let (beside, others): (Vec<_>, Vec<_>) = levels.iter().partition(|(age, _)| age.abs_diff(top) <= 1);
        let most = others.iter().map(|(_, (_, most))| *most).max().unwrap_or(0);
        let is_high = |level: u64| level > most.saturating_mul(2);
        let days: Vec<u32> =
            beside.into_iter().filter(|(_, (level, _))| is_high(*level)).map(|(age, _)| *age).collect();
        let quiet = levels.keys().filter(|age| !days.contains(age));
        let (newest, oldest) = (quiet.clone().next(), quiet.clone().next_back());
        let is_within = newest < days.first() && oldest > days.last();
        let has_other_week =
            levels.contains_key(&(top + 7)) || top.checked_sub(7).is_some_and(|age| levels.contains_key(&age));
        let is_beyond = levels
            .iter()
            .filter(|(age, _)| !days.contains(age))
            .all(|(_, (_, most))| amount > most.saturating_mul(BEYOND) + little(resource));
        if is_beyond && is_within && has_other_week && days.len() <= 2 && quiet.count() >= LEAST_QUIET_DAYS {
            self.once.push(Once { resource, amount, age: top });
            let of_pods = pods.iter().flat_map(|pod| days.iter().map(|age| (resource, pod.number, *age)));
            self.left_out.extend(of_pods);
        }
    }

    /// The CPU usage that comes again.
    fn recurrences(&self, course: &Course, pods: &[Pod<'_>]) -> Vec<Recurrence> {
        let is_once = |pod: &Pod<'_>, age: u32| self.left_out.contains(&(Resource::Cpu, pod.number, age));
        let at_start = at_start(pods, is_once);
        let is_kept = |pod: &Pod<'_>, age: u32| {
            let is_start = at_start.is_some() && pod.days.keys().next_back() == Some(&age);
            !is_start && !is_once(pod, age)
        };
        let hours =
            pods.iter().flat_map(|pod| pod.busy_hours.iter().map(move |((age, hour), cpu)| (pod, *age, *hour, *cpu)));
        let busy: Vec<BusyHour<'_>> = hours
            .filter(|(pod, age, ..)| is_kept(pod, *age))
            .map(|(pod, age, hour, cpu)| BusyHour { day: pod.days.get(&age), age, hour, cpu })
            .collect();
        let rhythm = rhythm(course, &busy).or_else(|| {
            let may_be = at_start.is_none() && self.growth(Resource::Cpu).is_none();
            pods.iter().filter(|_| may_be).find_map(bursts)
        });
        let start = at_start.map(|amount| Recurrence { rhythm: Rhythm::AtStart, amount });
        start.into_iter().chain(rhythm).collect()
    }
}

impl Pod<'_> {
    /// The amount that it needs.
    fn level(&self, resource: Resource, is_run: bool) -> u64 {
        let mut all = Sketch::default();
        self.days.values().for_each(|day| all.merge(day.sketch(resource)));
        if resource == Resource::Cpu { padded(all, is_run).percentile(950) } else { all.peak() }
    }
}

fn padded(mut cpu: Sketch, is_run: bool) -> Sketch {
    if !is_run {
        cpu.add(0, LEAST_SECONDS.saturating_sub(cpu.seconds()));
    }
    cpu
}

fn day_level(sketch: &Sketch, resource: Resource) -> u64 {
    if resource == Resource::Cpu { sketch.percentile(950) } else { sketch.peak() }
}

/// The amount that is exceeded for seven minutes of a day of CPU, and never of memory.
fn day_top(sketch: &Sketch, resource: Resource) -> u64 {
    if resource == Resource::Cpu { top(sketch) } else { sketch.peak() }
}

/// The pod that is far above most of the others on the days that they share.
fn differing(pods: &[Pod<'_>], resource: Resource) -> Option<Difference> {
    let level = |pod: &Pod<'_>| {
        let days = pod.days.values().map(|day| day_level(day.sketch(resource), resource));
        days.sum::<u64>() / pod.days.len().max(1) as u64
    };
    let busiest = pods.iter().max_by_key(|pod| level(pod))?;
    let on = |pod: &Pod<'_>, age: &u32| pod.days.get(age).map(|day| day_level(day.sketch(resource), resource));
    let (mut far_above, mut others) = (Vec::new(), Vec::new());
    for other in pods.iter().filter(|other| other.number != busiest.number) {
        let shared = busiest.days.keys().filter_map(|age| Some((on(busiest, age)?, on(other, age)?)));
        let days: Vec<bool> =
            shared.map(|(most, less)| most * 2 > less * 3 && most > less + little(resource)).collect();
        if days.len() >= 2 && days.len() * 2 >= busiest.days.len() {
            far_above.push(is_most(&days, 70));
            others.push(level(other));
        }
    }
    let pods = (1, others.len() + 1);
    let amount = level(busiest);
    is_most(&far_above, 50).then(|| Difference { resource, amount, pods, others: median(others), is_covered: true })
}

/// The growth of median CPU, or of the peaks of memory: the median of the slopes between days, if nearly all rise and the
/// days lie close to that line. The oldest and the newest day are not whole.
fn growth(days: &BTreeMap<u32, Day>, resource: Resource) -> Option<Growth> {
    let whole = days.len().saturating_sub(2);
    let amount = |day: &Day| if resource == Resource::Cpu { day.cpu_median } else { day.memory_peak };
    let amount = |day: &Day| i64::try_from(amount(day)).unwrap_or(i64::MAX);
    let values: Vec<(i64, i64)> =
        days.iter().skip(1).take(whole).rev().map(|(age, day)| (-i64::from(*age), amount(day))).collect();
    let [(first, _), .., (last, _)] = *values.as_slice() else { return None };
    if values.len() < 5 {
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
    let is_near = |level: &i64| (level - now).abs().saturating_mul(3) <= rise;
    let is_growth = least > 0 && levels.iter().all(is_near) && rise.saturating_mul(6) > now;
    is_growth.then_some(Growth { a_day: slope as u64, now: now.max(0) as u64 })
}

/// The CPU that pods use on the day of their start, if it is far above all of their other days.
fn at_start(pods: &[Pod<'_>], is_once: impl Fn(&Pod<'_>, u32) -> bool) -> Option<u64> {
    let oldest = pods.iter().filter_map(|pod| pod.days.keys().next_back()).max()?;
    let mut starts = Vec::new();
    for pod in pods {
        let mut days = pod.days.iter().rev();
        let Some((_, first)) = days.next().filter(|(age, _)| *age < oldest && !is_once(pod, **age)) else { continue };
        let later = days.filter(|(_, day)| day.cpu.seconds() >= LEAST_SECONDS).map(|(_, day)| day.cpu.peak()).max();
        // A minute of every program is above its usual when it begins.
        let is_far = |later: u64| first.cpu.peak() > later.saturating_mul(2) + 10 * little(Resource::Cpu);
        starts.extend(later.map(|later| (is_far(later), first.cpu.peak())));
    }
    let far: Vec<bool> = starts.iter().map(|(is_far, _)| *is_far).collect();
    is_most(&far, 70).then(|| median(starts.into_iter().filter(|(is_far, _)| *is_far).map(|(_, peak)| peak)))
}

/// An hour in which a pod used more than twice its mean.
struct BusyHour<'c> {
    day: Option<&'c Observed>,
    age: u32,
    hour: u32,
    cpu: u64,
}

impl BusyHour<'_> {
    /// True if it is far above what is usual on the day, as smooth curves over a day are not.
    fn is_far(&self) -> bool {
        self.day.is_some_and(|day| self.cpu > day.cpu.percentile(750).saturating_mul(2))
    }

    /// The CPU that is used within the hour for minutes at least, as far as the day tells.
    fn amount(&self) -> u64 {
        let of_day = self.day.map(|day| if has_long_top(&day.cpu) { top(&day.cpu) } else { day.cpu.peak() });
        of_day.unwrap_or(0).max(self.cpu)
    }
}

/// Usage that is exceeded for seven minutes of a day.
fn top(cpu: &Sketch) -> u64 {
    cpu.percentile(995)
}

fn has_long_top(cpu: &Sketch) -> bool {
    let usual = cpu.percentile(750);
    top(cpu) > usual.saturating_mul(3) && top(cpu) > usual + little(Resource::Cpu)
}

/// Hours of the day, or days of the week, in which it is busy, and hardly at other times.
fn rhythm(course: &Course, busy: &[BusyHour<'_>]) -> Option<Recurrence> {
    if busy.is_empty() || course.seconds() / (DAY as u64) < 4 {
        return None;
    }
    let days = course.seconds() / DAY as u64;
    let on: BTreeSet<(u32, u32)> = busy.iter().map(|busy| (busy.age, busy.hour)).collect();
    // Clocks change, and a run begins late: an hour earlier on other days is the same hour.
    let days_on = |hour: u32, or: u32| {
        on.iter().filter(|(_, of)| *of == hour || *of == or).map(|(age, _)| age).collect::<BTreeSet<_>>().len() as u64
    };
    let (before, after) = (|hour: u32| (hour + HOURS - 1) % HOURS, |hour: u32| (hour + 1) % HOURS);
    let is_daily = |hour: &u32| {
        let beside = [after(*hour), before(*hour)];
        days_on(*hour, *hour) > 0 && beside.iter().any(|other| days_on(*hour, *other) * 10 >= days * 7)
    };
    let daily: Vec<u32> = (0..HOURS).filter(is_daily).collect();
    let begins: Vec<u32> = daily.iter().copied().filter(|hour| !daily.contains(&before(*hour))).collect();
    let expected = on.iter().filter(|(_, hour)| daily.contains(hour)).count();
    // Several times a day, each is of an hour or two.
    let are_few = daily.len() <= if begins.len() > 2 { 12 } else { 5 };
    let is_mostly_far = is_most(&busy.iter().map(BusyHour::is_far).collect::<Vec<_>>(), 50);
    if are_few && !begins.is_empty() && expected * 5 >= on.len() * 3 && is_mostly_far {
        let amount = median(busy.iter().filter(|busy| daily.contains(&busy.hour)).map(BusyHour::amount));
        return Some(Recurrence { rhythm: Rhythm::Daily(begins), amount });
    }
    let hours_of = |age: u32| on.range((age, 0)..=(age, HOURS)).map(|(_, hour)| *hour);
    let is_whole = |age: &u32| Some(age) != course.days.keys().next() && Some(age) != course.days.keys().last();
    let is_busy = |weekday: &u32| {
        let ages: Vec<u32> = course.days.keys().copied().filter(|age| age % 7 == *weekday).collect();
        let with_any: Vec<u32> = ages.iter().copied().filter(|age| hours_of(*age).next().is_some()).collect();
        let are_alike = with_any.windows(2).any(|pair| {
            let [one, two] = *pair else { return false };
            let shared = hours_of(one).filter(|hour| hours_of(two).any(|other| other == *hour)).count();
            shared * 2 >= hours_of(one).count().min(hours_of(two).count())
        });
        are_alike && ages.iter().filter(|age| is_whole(age)).all(|age| with_any.contains(age))
    };
    let weekdays: Vec<u32> = (0..7).filter(is_busy).collect();
    let expected = on.iter().filter(|(age, _)| weekdays.contains(&(age % 7))).count();
    let is_weekly = (1..=5).contains(&weekdays.len()) && expected * 10 >= on.len() * 9;
    is_weekly
        .then(|| Recurrence { rhythm: Rhythm::Weekly(weekdays), amount: median(busy.iter().map(BusyHour::amount)) })
}

/// Usage that is far above the usual on most days of a pod for minutes at a time, but not for whole hours.
fn bursts(pod: &Pod<'_>) -> Option<Recurrence> {
    let days: Vec<(bool, u64)> = pod
        .days
        .iter()
        .filter(|(_, day)| day.cpu.seconds() >= LEAST_SECONDS * 2)
        .map(|(age, day)| {
            let hours = pod.busy_hours.range((*age, 0)..=(*age, HOURS)).map(|(_, cpu)| *cpu);
            let top = top(&day.cpu);
            let is_brief = hours.max().is_none_or(|most| most.saturating_mul(5) < top.saturating_mul(3));
            (has_long_top(&day.cpu) && is_brief, top)
        })
        .collect();
    let are_bursts: Vec<bool> = days.iter().map(|(is, _)| *is).collect();
    let amount = median(days.into_iter().filter(|(is, _)| *is).map(|(_, top)| top));
    is_most(&are_bursts, 50).then_some(Recurrence { rhythm: Rhythm::Bursts, amount })
}

/// True if more than so many percent are.
fn is_most(all: &[bool], percent: usize) -> bool {
    all.iter().filter(|is| **is).count() * 100 > all.len() * percent
}

fn median(amounts: impl IntoIterator<Item = u64>) -> u64 {
    let mut amounts: Vec<u64> = amounts.into_iter().collect();
    amounts.sort_unstable();
    amounts.get(amounts.len() / 2).copied().unwrap_or(0)
}
