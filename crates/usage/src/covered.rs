//! The part of what a container's pods used that a request covers, for what is published and for what is recommended.
//!
//! A request covers what recurs and what most pods use. What happened once and is over, and single pods that use a multiple of
//! what all others use, are left out, and told instead. Of few days nothing is left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::busy_pods::BusyPod;
use crate::cardinality::Distinct;
use crate::observed::Observed;
use crate::sample::Resource;
use crate::sketch::Sketch;

/// A pod that was seen for less time counts as idle for the rest of it: one that only started up needs no request for that.
pub const LEAST_SECONDS: u64 = 2 * 3600;
/// So many thousandths of a pod's time its CPU request is enough.
const MOST_OF_THE_TIME: u16 = 925;
/// A day or pod is beyond all others from three times their highest amount on.
const BEYOND: u64 = 3;
/// The quiet days beside which one day may stand out.
const LEAST_QUIET_DAYS: usize = 7;

/// The parts that no request covers.
#[derive(Debug, Default)]
pub struct LeftOut {
    pub once: Vec<Once>,
    pub pods: Vec<SinglePods>,
}

/// A day on which more was used than on all others, and which is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    pub resource: Resource,
    pub amount: u64,
    pub age: u32,
    /// True if it lasted over midnight, and this is the age of the other day.
    pub other: Option<u32>,
}

/// Pods beyond all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinglePods {
    pub resource: Resource,
    pub amount: u64,
    pub pods: BTreeSet<u32>,
}

/// Usage that grows steadily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    pub a_day: u64,
    /// The level of the last day.
    pub now: u64,
}

/// Differences of less are not worth a word: nanocores and bytes.
pub fn little(resource: Resource) -> u64 {
    if resource == Resource::Cpu { 10_000_000 } else { 64 << 20 }
}

impl Once {
    pub fn is_on(&self, age: u32) -> bool {
        self.age == age || self.other == Some(age)
    }
}

impl LeftOut {
    /// Takes what no request covers out of days, which are told by their age.
    pub fn take(days: &mut BTreeMap<u32, Observed>, newest: &BTreeSet<u32>) -> Self {
        let mut found = Self::default();
        for resource in [Resource::Cpu, Resource::Memory] {
            if let Some(single) = single_pods(days, resource, newest) {
                if resource == Resource::Memory {
                    days.values_mut().for_each(|day| cut(day, &single.pods));
                }
                found.pods.push(single);
            }
            if let Some(once) = once(days, resource, &found.of(resource)) {
                let left_out = days.iter_mut().filter(|(age, _)| once.is_on(**age));
                left_out.for_each(|(_, day)| day.leave_out(resource));
                found.once.push(once);
            }
        }
        found
    }

    /// The single pods by a resource.
    pub fn of(&self, resource: Resource) -> BTreeSet<u32> {
        self.pods.iter().filter(|of| of.resource == resource).flat_map(|of| of.pods.iter().copied()).collect()
    }

    /// The highest amount that was left out; 0 if none was.
    pub fn most(&self, resource: Resource) -> u64 {
        let once = self.once.iter().filter(|of| of.resource == resource).map(|of| of.amount);
        let pods = self.pods.iter().filter(|of| of.resource == resource).map(|of| of.amount);
        once.chain(pods).max().unwrap_or(0)
    }

    /// The CPU that is enough for each pod of days, and for all of them together.
    pub fn cpu_of_each_pod(&self, days: &BTreeMap<u32, Observed>) -> Option<u64> {
        let (all, single) = (days.iter().map(|(age, day)| (age, &day.cpu)), self.of(Resource::Cpu));
        // Pods that are brief throughout are runs, each of which needs what it used.
        let pods: u64 = days.values().map(|day| day.pods.count()).sum();
        let are_runs = all.clone().map(|(_, cpu)| cpu.seconds()).sum::<u64>() < pods.saturating_mul(LEAST_SECONDS);
        let each = cpu_of_pods(days, !are_runs).into_iter().filter(|(pod, _)| !single.contains(pod));
        let each = each.map(|(_, days)| needed_cpu(days.iter(), are_runs));
        all.clone().any(|(_, cpu)| !cpu.is_empty()).then(|| each.max().unwrap_or(0).max(needed_cpu(all, true)))
    }
}

/// The CPU that is enough for most of the time on days, which are told by their age, newest first. Each week counts half as much
/// as the week after it, so that a level that is over is forgotten, but no weekday is.
pub fn needed_cpu<'d>(days: impl Iterator<Item = (&'d u32, &'d Sketch)> + Clone, is_run: bool) -> u64 {
    let weight = |age: &u32| 16 >> (age / 7).min(4);
    let mut all = Sketch::default();
    if let Some((newest, _)) = days.clone().next().filter(|_| !is_run) {
        let seconds = days.clone().map(|(_, cpu)| cpu.seconds()).sum();
        all.add(0, LEAST_SECONDS.saturating_sub(seconds) * weight(newest));
    }
    days.for_each(|(age, cpu)| all.merge_weighted(cpu, weight(age)));
    all.percentile(MOST_OF_THE_TIME)
}

/// The CPU usage of each known pod on each day.
fn cpu_of_pods(days: &BTreeMap<u32, Observed>, are_cut: bool) -> BTreeMap<u32, BTreeMap<u32, Sketch>> {
    let mut pods: BTreeMap<u32, BTreeMap<u32, Sketch>> = BTreeMap::new();
    for (age, day) in days {
        let mut add = |pod: u32, cpu: Sketch| pods.entry(pod).or_default().insert(*age, cpu);
        match day.busy_pods.busiest() {
            [one] if day.pods.count() <= 1 => _ = add(one.pod, day.cpu.clone()),
            all => {
                let count = if are_cut { day.pods.count() } else { 0 };
                all.iter().for_each(|of| _ = add(of.pod, of.whole(count)));
            }
        }
    }
    pods
}

/// Finds single pods beyond all others on the days that they share: one of a hundred.
fn single_pods(days: &BTreeMap<u32, Observed>, resource: Resource, newest: &BTreeSet<u32>) -> Option<SinglePods> {
    // A hot pod is slow without its CPU, and what was seen today only may be the first pod of a release.
    let least = |age: u32| if resource == Resource::Cpu || age == 0 { 49 } else { 7 };
    if days.iter().all(|(age, day)| day.pods.count() <= least(*age)) {
        return None;
    }
    let known = |day: &Observed| -> Vec<u32> {
        match resource {
            Resource::Cpu => day.busy_pods.busiest().iter().map(|of| of.pod).collect(),
            _ => day.busy_pods.largest().iter().map(|(_, pod)| *pod).collect(),
        }
    };
    let mut levels: BTreeMap<u32, u64> = BTreeMap::new();
    if resource == Resource::Cpu {
        levels.extend(cpu_of_pods(days, false).into_iter().map(|(pod, days)| (pod, needed_cpu(days.iter(), false))));
    }
    for (peak, pod) in days.values().filter(|_| resource == Resource::Memory).flat_map(|day| day.busy_pods.largest()) {
        let level = levels.entry(*pod).or_default();
        *level = (*level).max(*peak);
    }
    let mut all = Distinct::default();
    days.values().for_each(|day| all.merge(&day.pods));
    let mut highest: Vec<(u64, u32)> = levels.iter().map(|(pod, level)| (*level, *pod)).collect();
    highest.sort_unstable_by(|one, other| other.cmp(one));
    let most_single = usize::try_from(all.count() / 100).unwrap_or(usize::MAX).max(1);
    // Only those that are beyond the next one, or nobody would be left to compare with on a day of which few are known.
    let next = highest.get(most_single).map_or(0, |(level, _)| *level);
    highest.truncate(most_single);
    highest.retain(|(level, _)| *level > next.saturating_mul(BEYOND));
    let is_high = |pod: &u32| highest.iter().any(|(_, high)| high == pod);
    // The highest level of others, and how many there are. Not all pods are known by name.
    let beside = |day: &Observed| {
        let pods = known(day);
        let count = day.pods.count().saturating_sub(pods.iter().filter(|pod| is_high(pod)).count() as u64);
        let most = pods.iter().filter(|pod| !is_high(pod)).filter_map(|pod| levels.get(pod)).max();
        let is_known = count == 0 || most.is_some() && is_whole(day, resource);
        // Beside one that is no run, those that ended within minutes are no others: they may have been evicted.
        let long = day.busy_pods.busiest().iter().filter(|of| is_high(&of.pod) && of.seconds >= LEAST_SECONDS);
        let count = match long.map(|of| of.seconds).sum::<u64>() {
            0 => count,
            seconds => count.min(day.cpu.seconds().saturating_sub(seconds) / LEAST_SECONDS),
        };
        (if is_known { most.copied().unwrap_or(0) } else { u64::MAX }, count)
    };
    // A few pods of the newest version are the first of its release, however long that takes.
    let is_first = |pod: &u32| newest.contains(pod) && newest.len() as u64 <= least(1);
    let of_pod = |pod: u32| days.iter().filter(move |(_, day)| known(day).contains(&pod));
    let is_beyond = |(level, pod): &&(u64, u32)| {
        let most = of_pod(*pod).map(|(_, day)| beside(day).0).max().unwrap_or(0);
        let has_many = of_pod(*pod).any(|(age, day)| beside(day).1 >= least(*age));
        *level > most.saturating_mul(BEYOND).saturating_add(little(resource)) && has_many && !is_first(pod)
    };
    let beyond: Vec<&(u64, u32)> = highest.iter().filter(is_beyond).collect();
    let (amount, _) = **beyond.first()?;
    let pods: BTreeSet<u32> = beyond.iter().map(|(_, pod)| *pod).collect();
    // A run may last over midnight.
    let first_weekday =
        |pod: &u32| of_pod(*pod).next_back().filter(|_| of_pod(*pod).count() <= 2).map(|(age, _)| age % 7);
    let weekdays: BTreeSet<Option<u32>> = pods.iter().map(first_weekday).collect();
    let is_weekly = pods.len() > 1 && weekdays.len() == 1 && !weekdays.contains(&None);
    (!is_weekly).then_some(SinglePods { resource, amount, pods })
}

/// True if the largest pods of a day are known: a part of it may have been read by an older version.
fn is_whole(day: &Observed, resource: Resource) -> bool {
    resource == Resource::Cpu || day.busy_pods.largest().first().is_some_and(|(peak, _)| *peak >= day.memory.peak())
}

/// Takes the memory of single pods out of a day: what is above the peak of all others.
fn cut(day: &mut Observed, single: &BTreeSet<u32>) {
    let largest = day.busy_pods.largest();
    if largest.iter().any(|(_, pod)| single.contains(pod)) {
        let of_others = largest.iter().find(|(_, pod)| !single.contains(pod)).map_or(0, |(peak, _)| *peak);
        day.memory = if of_others > 0 { day.memory.up_to(of_others) } else { Sketch::default() };
    }
}

/// The amount that a day's busiest pod needed, and the one that it exceeded for seven minutes; of memory the peak. None if it was
/// seen for too short a time.
fn level(day: &Observed, resource: Resource, single: &BTreeSet<u32>) -> Option<(u64, u64)> {
    let sketch = day.sketch(resource);
    if sketch.seconds() < LEAST_SECONDS {
        return None;
    }
    if resource == Resource::Memory {
        return Some((sketch.peak(), sketch.peak()));
    }
    let is_counted = |of: &&BusyPod| of.seconds >= LEAST_SECONDS && !single.contains(&of.pod);
    let pods = day.busy_pods.busiest().iter().filter(|_| day.pods.count() > 1).filter(is_counted);
    let of_pods = pods.map(|of| (of.exceeded_for(of.seconds / 20), of.exceeded_for(of.seconds / 200)));
    let most = of_pods.reduce(|one, other| (one.0.max(other.0), one.1.max(other.1)));
    Some(most.unwrap_or_else(|| (sketch.percentile(950), sketch.percentile(995))))
}

/// Finds a day beyond all others, also beyond what they exceed for minutes, that is over and did not come a week before or after.
fn once(days: &BTreeMap<u32, Observed>, resource: Resource, single: &BTreeSet<u32>) -> Option<Once> {
    let levels = days.iter().filter_map(|(age, day)| Some((*age, level(day, resource, single)?)));
    let levels: BTreeMap<u32, (u64, u64)> = levels.collect();
    let (age, amount) = levels.iter().map(|(age, (level, _))| (*age, *level)).max_by_key(|(_, level)| *level)?;
    // It may last over midnight.
    let (beside, others): (Vec<_>, Vec<_>) = levels.iter().partition(|(of, _)| of.abs_diff(age) <= 1);
    let most = others.iter().map(|(_, (_, most))| *most).max().unwrap_or(0);
    let is_high = |level: u64| level > most.saturating_mul(2);
    let high: Vec<u32> = beside.into_iter().filter(|(_, (level, _))| is_high(*level)).map(|(age, _)| *age).collect();
    let quiet = || levels.iter().filter(|(age, _)| !high.contains(age));
    let (newest, oldest) = (quiet().next()?.0, quiet().next_back()?.0);
    let is_within = Some(newest) < high.first() && Some(oldest) > high.last();
    // A day that was seen for less time than both of its neighbours may have had more usage.
    let seconds = |age: u32| days.get(&age).map(|day| day.sketch(resource).seconds());
    let is_known = |age: u32| {
        let least = [age.checked_sub(1).and_then(seconds), seconds(age + 1)].into_iter().flatten().min();
        levels.contains_key(&age) && seconds(age) >= least.map(|least| least / 8 * 7)
    };
    let has_other_week = is_known(age + 7) || age.checked_sub(7).is_some_and(is_known);
    let is_beyond = quiet().all(|(_, (_, most))| amount > most.saturating_mul(BEYOND) + little(resource));
    let is_once = is_beyond && is_within && has_other_week && high.len() <= 2 && quiet().count() >= LEAST_QUIET_DAYS;
    is_once.then(|| Once { resource, amount, age, other: high.into_iter().find(|other| *other != age) })
}

/// The growth of median CPU, or of the peaks of memory: the median of the slopes between days, if nearly all rise and the
/// days lie close to that line. The oldest and the newest day are not whole.
pub fn growth(days: &BTreeMap<u32, Observed>, resource: Resource) -> Option<Growth> {
    let whole = days.len().saturating_sub(2);
    let amount = |day: &Observed| if resource == Resource::Cpu { day.cpu.percentile(500) } else { day.memory.peak() };
    let amount = |day: &Observed| i64::try_from(amount(day)).unwrap_or(i64::MAX);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DAY;
    use crate::window_merge::OpenHistory;
    use headroom_admission::cluster::usage::Window;

    /// Days of pods that use so many millicores and mebibytes, told by pod and age.
    fn days(pods: u32, ages: u32, used: impl Fn(u32, u32) -> (u64, u64)) -> BTreeMap<u32, Observed> {
        let mut days = BTreeMap::new();
        let each = (0..ages).flat_map(|age| (0..pods).map(move |pod| (age, pod)));
        each.for_each(|(age, pod)| add(&mut days, age, pod, used(pod, age), DAY as u64));
        days
    }

    fn add(days: &mut BTreeMap<u32, Observed>, age: u32, pod: u32, (cpu, memory): (u64, u64), seconds: u64) {
        let mut of_pod = Observed::default();
        of_pod.add(Resource::Cpu, i64::from(100 - age) * DAY, cpu * 1_000_000, seconds);
        of_pod.add(Resource::Memory, i64::from(100 - age) * DAY, memory << 20, seconds);
        of_pod.pods.add(pod);
        of_pod.busy_pods.add(pod, &of_pod.cpu, of_pod.memory.peak());
        days.entry(age).or_default().merge(&of_pod);
    }

    /// The CPU of each pod in millicores, the peak of memory in mebibytes, and the same of what was left out.
    #[track_caller]
    fn check(days: BTreeMap<u32, Observed>, expected: [u64; 4]) {
        check_release(days, &[], expected);
    }

    #[track_caller]
    fn check_release(days: BTreeMap<u32, Observed>, newest: &[u32], expected: [u64; 4]) {
        let (open, left_out) = OpenHistory::covering(days.clone(), &newest.iter().copied().collect());
        let peak = open.sketch(Window::Month, Resource::Memory).peak() >> 20;
        let history = open.history().unwrap();
        let recent = history.windows[&Window::Recent].cpu.as_ref().unwrap();
        let needs = recent.each_pod.as_ref().unwrap().needs.milli_value() as u64;
        let [cpu, memory] = [Resource::Cpu, Resource::Memory].map(|resource| left_out.most(resource));
        let within = |found: u64, expected: u64| found.abs_diff(expected) * 100 <= expected;
        let found = [needs, peak, cpu / 1_000_000, memory >> 20];
        assert!(found.into_iter().zip(expected).all(|(found, expected)| within(found, expected)), "{found:?}");
        assert_eq!(OpenHistory::read(&open.write()).unwrap().history().unwrap(), history);
    }

    #[test]
    fn what_happened_once_and_is_over_is_left_out() {
        let on = |ages: &'static [u32]| move |_, age| if ages.contains(&age) { (2_000, 1_600) } else { (350, 400) };
        check(days(3, 14, on(&[])), [350, 400, 0, 0]);
        check(days(3, 14, on(&[5])), [350, 400, 2_000, 1_600]);
        // Over midnight.
        check(days(3, 14, on(&[5, 6])), [350, 400, 2_000, 1_600]);
        // It came again, lasts, or nobody knows.
        check(days(3, 14, on(&[5, 12])), [2_000, 1_600, 0, 0]);
        let mut half_seen = days(3, 14, on(&[5]));
        half_seen.remove(&12);
        (0..3).for_each(|pod| add(&mut half_seen, 12, pod, (350, 400), DAY as u64 / 2));
        check(half_seen, [2_000, 1_600, 0, 0]);
        check(days(3, 14, on(&[0])), [2_000, 1_600, 0, 0]);
        check(days(3, 14, on(&[13])), [350, 1_600, 0, 0]);
        check(days(3, 7, on(&[3])), [2_000, 1_600, 0, 0]);
        check(days(1, 14, on(&[5])), [350, 400, 2_000, 1_600]);
        // Much, but not beyond all others.
        check(days(3, 14, |_, age| if age == 5 { (800, 900) } else { (350, 400) }), [800, 900, 0, 0]);
    }

    #[test]
    fn a_level_that_is_over_counts_for_three_weeks() {
        let until = |least: u32| move |_, age| (if age < least { 100 } else { 800 }, 400);
        check(days(3, 30, until(20)), [800, 400, 0, 0]);
        check(days(3, 30, until(22)), [100, 400, 0, 0]);
    }

    /// The brief run that needs most counts; a pod beside others that only started up needs nothing for that.
    #[test]
    fn each_of_many_runs_gets_what_it_used() {
        let needs = |lasting: u64| {
            let mut day = Observed::default();
            for (pod, cpu, seconds) in (0..24).map(|pod| if pod == 5 { (5, 900, 300) } else { (pod, 200, lasting) }) {
                let mut of_pod = Observed::default();
                of_pod.add(Resource::Cpu, 99 * DAY, cpu * 1_000_000, seconds);
                of_pod.pods.add(pod);
                of_pod.busy_pods.add(pod, &of_pod.cpu, 0);
                day.merge(&of_pod);
            }
            LeftOut::default().cpu_of_each_pod(&BTreeMap::from([(1, day)])).unwrap() / 1_000_000
        };
        let found = [needs(600), needs(DAY as u64)];
        assert!(found[0].abs_diff(900) < 20 && found[1].abs_diff(200) < 5, "{found:?}");
    }

    #[test]
    fn single_pods_beyond_all_others_are_left_out() {
        let hot = |one: u32| move |pod, _| if pod == one { (900, 8_192) } else { (200, 1_024) };
        check(days(8, 14, hot(3)), [900, 1_024, 0, 8_192]);
        check(days(7, 14, hot(3)), [900, 8_192, 0, 0]);
        check(days(60, 14, hot(3)), [200, 1_024, 900, 8_192]);
        check(days(8, 14, |pod, _| if pod < 2 { (900, 8_192) } else { (200, 1_024) }), [900, 8_192, 0, 0]);
        // The first pods of a release, which have no seven others like them.
        check_release(days(10, 14, hot(9)), &[8, 9], [900, 8_192, 0, 0]);
        check_release(days(10, 14, hot(9)), &[2, 3, 4, 5, 6, 7, 8, 9], [900, 1_024, 0, 8_192]);
        check_release(days(60, 14, hot(9)), &[8, 9], [900, 8_192, 0, 0]);
        // One that leads on a day of its own.
        check(days(5, 14, |pod, age| if age % 5 == pod { (900, 900) } else { (200, 300) }), [900, 900, 0, 0]);
    }

    #[test]
    fn a_pod_beside_evicted_ones_and_weekly_runs_are_covered() {
        let mut days = days(1, 14, |_, age| (400, if age < 2 { 1_300 } else { 6_144 }));
        (2..11).for_each(|pod| add(&mut days, 2, pod, (200, 200), 240));
        // Its successor.
        for age in 0..2 {
            days.remove(&age);
            add(&mut days, age, 1, (400, 1_300), DAY as u64);
        }
        check(days, [400, 6_144, 0, 0]);
        let runs = |large: &[(u32, u32)]| {
            let mut days = BTreeMap::new();
            // They are told by hashes.
            let all = (0..360).map(|hour: u32| (hour / 24, hour.wrapping_mul(0x9e37_79b9)));
            all.for_each(|(age, pod)| add(&mut days, age, pod, (300, 400), 600));
            large.iter().for_each(|(age, pod)| add(&mut days, *age, *pod, (300, 6_144), 3_600));
            days
        };
        // Over midnight.
        check(runs(&[(12, 1_000), (11, 1_000), (5, 1_001), (4, 1_001)]), [300, 6_144, 0, 0]);
        check(runs(&[(12, 1_000), (11, 1_000), (6, 1_001), (5, 1_001)]), [300, 400, 0, 6_144]);
    }
}
