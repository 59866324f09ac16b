//! The use of a container, described once from what was read by pod and day: what recurs, what happened once, how pods differ, and
//! where it goes. Requests, flags and texts are made of it. What of it a request covers is [`headroom_usage::covered`]'s rule, by
//! which UsageProfiles are published, too.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::{Percentile, Resource, Window};
use headroom_usage::DAY;
use headroom_usage::covered::{self, Growth, LEAST_SECONDS, LeftOut, little, needed_cpu};
use headroom_usage::observed::Observed;
use headroom_usage::profile::{History, Percentiles};
use headroom_usage::sample::quantity;
use headroom_usage::sketch::Sketch;
use headroom_usage::window_merge::OpenHistory;

use super::ContainerUsage;
use super::course::Course;

const HOURS: u32 = 24;

#[derive(Debug, Default)]
pub struct Description {
    pub recurs: Vec<Recurrence>,
    pub pods: Vec<Difference>,
    pub grows: Vec<(Resource, Growth)>,
    pub falls: Vec<Fall>,
    /// The medians of today and yesterday; those of today, if half of it is over and they are lower.
    pub lately: Vec<(Resource, u64)>,
    /// The median CPU of pods of a release that were seen for less than two hours.
    pub of_release: Option<u64>,
    /// True if the last days had a higher peak of memory than those before them.
    pub has_rising_memory: bool,
    pub left_out: LeftOut,
    /// The part that a request covers.
    covered: OpenHistory,
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

/// Much less use since a day than on each before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fall {
    pub resource: Resource,
    /// The most that was used since.
    pub amount: u64,
    /// The age of that day.
    pub age: u32,
}

struct Pod<'c> {
    number: u32,
    days: BTreeMap<u32, Observed>,
    busy_hours: &'c BTreeMap<(u32, u32), u64>,
}

impl Description {
    pub fn of(course: &Course) -> Self {
        let mut pods: Vec<Pod<'_>> = course
            .pods
            .iter()
            .map(|(number, pod)| Pod { number: *number, days: pod.days().collect(), busy_hours: &pod.busy_hours })
            .collect();
        pods.sort_unstable_by_key(|pod| pod.number);
        let mut days: BTreeMap<u32, Observed> = BTreeMap::new();
        for pod in &pods {
            for (age, of_pod) in &pod.days {
                let day = days.entry(*age).or_default();
                day.merge(of_pod);
                day.busy_pods.add(pod.number, &of_pod.cpu, of_pod.memory.peak());
            }
        }
        let of_resource = |resource| covered::growth(&days, resource).map(|growth| (resource, growth));
        let both = [Resource::Cpu, Resource::Memory];
        let grows = both.into_iter().filter_map(of_resource).collect();
        let falls = both.into_iter().filter_map(|resource| fall(&days, resource)).collect();
        let is_long = course.days.get(&0).is_some_and(|today| today.seconds >= DAY as u64 / 2);
        let lately = both.map(|resource| {
            let mut since_yesterday = days.get(&0).map(|day| day.sketch(resource).clone()).unwrap_or_default();
            let today = if is_long { since_yesterday.percentile(500) } else { u64::MAX };
            days.get(&1).into_iter().for_each(|day| since_yesterday.merge(day.sketch(resource)));
            (resource, since_yesterday.percentile(500).min(today))
        });
        let newest = course.newest_pods();
        let of_release = of_release(&pods, &newest);
        let (covered, left_out) = OpenHistory::covering(days, &newest);
        let mut found =
            Self { grows, falls, lately: lately.to_vec(), of_release, covered, left_out, ..Self::default() };
        for resource in both {
            found.pods.extend(found.single_pods(&pods, resource).or_else(|| differing(&pods, resource)));
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

    /// The most that was used since usage fell, if it did.
    pub fn since_fall(&self, resource: Resource) -> Option<Quantity> {
        let fall = self.falls.iter().find(|fall| fall.resource == resource)?;
        Some(quantity(fall.amount, resource))
    }

    /// The history as a profile has it: of what a request covers, and of all where somebody chose what to cover, with what each
    /// pod needs; the pods may be runs of a Job. None if nothing was observed.
    pub fn history(
        &self,
        usage: &ContainerUsage,
        are_runs: bool,
        covers_all: impl Fn(Resource) -> bool,
    ) -> Option<History> {
        let mut history = usage.usage.history()?;
        let Some(covered) = self.covered.history() else { return Some(history) };
        for (window, of) in covered.windows {
            let Some(known) = history.windows.get_mut(&window) else { continue };
            if !covers_all(Resource::Cpu) {
                known.cpu = of.cpu;
            } else if let Some(cpu) = known.cpu.as_mut().filter(|_| window == Window::Recent) {
                cpu.each_pod = of.cpu.and_then(|of| of.each_pod);
                if let Some(pods) = &mut cpu.each_pod {
                    pods.percentiles = Some(percentiles_of_each_pod(usage, are_runs));
                }
            }
            if !covers_all(Resource::Memory) {
                known.memory = of.memory;
            }
        }
        Some(history)
    }

    fn single_pods(&self, pods: &[Pod<'_>], resource: Resource) -> Option<Difference> {
        let single = self.left_out.pods.iter().find(|of| of.resource == resource)?;
        let others = pods.iter().filter(|pod| !single.pods.contains(&pod.number));
        let others = median(others.map(|pod| pod.level(resource)));
        let (amount, pods) = (single.amount, (single.pods.len(), pods.len()));
        Some(Difference { resource, amount, pods, others, is_covered: false })
    }

    fn recurrences(&self, course: &Course, pods: &[Pod<'_>]) -> Vec<Recurrence> {
        let single = self.left_out.of(Resource::Cpu);
        let once = self.left_out.once.iter().find(|of| of.resource == Resource::Cpu);
        let is_once = |pod: &Pod<'_>, age: u32| single.contains(&pod.number) || once.is_some_and(|of| of.is_on(age));
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
    fn level(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Cpu => needed_cpu(self.days.iter().map(|(age, day)| (age, &day.cpu)), false),
            _ => self.days.values().map(|day| day.sketch(resource).peak()).max().unwrap_or(0),
        }
    }
}

fn percentiles_of_each_pod(usage: &ContainerUsage, are_runs: bool) -> Percentiles {
    let mut most = [0; Percentile::PUBLISHED.len()];
    let of_pods = usage.course.pods.values().map(|pod| {
        let mut cpu = Sketch::default();
        pod.days().for_each(|(_, day)| cpu.merge(&day.cpu));
        if !are_runs {
            cpu.add(0, LEAST_SECONDS.saturating_sub(cpu.seconds()));
        }
        cpu
    });
    for cpu in of_pods.chain([usage.sketch(Resource::Cpu).clone()]) {
        let of_pod = cpu.percentiles(Percentile::PUBLISHED.map(Percentile::permille));
        most.iter_mut().zip(of_pod).for_each(|(most, amount)| *most = amount.max(*most));
    }
    let mut amounts = most.into_iter().map(|amount| quantity(amount, Resource::Cpu));
    Percentiles::agreed(|_| amounts.next())
}

/// The median CPU of the pods of a release, if they are too young to tell what they need.
fn of_release(pods: &[Pod<'_>], newest: &BTreeSet<u32>) -> Option<u64> {
    let mut cpu = Sketch::default();
    let released = || pods.iter().filter(|pod| newest.contains(&pod.number)).flat_map(|pod| &pod.days);
    released().for_each(|(_, day)| cpu.merge(&day.cpu));
    let is_young = cpu.seconds() < newest.len() as u64 * LEAST_SECONDS && released().all(|(age, _)| *age <= 1);
    (is_young && newest.len() < pods.len()).then(|| cpu.percentile(500))
}

fn day_level(sketch: &Sketch, resource: Resource) -> u64 {
    if resource == Resource::Cpu { sketch.percentile(950) } else { sketch.peak() }
}

/// From a day on, at most two thirds of what each day before used. Three days on both sides tell it from what happened once.
fn fall(days: &BTreeMap<u32, Observed>, resource: Resource) -> Option<Fall> {
    let known = days.iter().map(|(age, day)| (*age, day.sketch(resource)));
    let known = known.filter(|(_, sketch)| sketch.seconds() >= LEAST_SECONDS);
    let levels: Vec<(u32, u64)> = known.map(|(age, sketch)| (age, day_level(sketch, resource))).collect();
    (3..levels.len().saturating_sub(2)).find_map(|newest| {
        let (since, before) = levels.split_at(newest);
        let (amount, least) = (since.iter().map(|of| of.1).max()?, before.iter().map(|of| of.1).min()?);
        let is_far = least > amount / 2 * 3 && least > amount + little(resource);
        is_far.then_some(Fall { resource, amount, age: since.last()?.0 })
    })
}

/// The pods that are far above most of the others on the days that they share.
fn differing(pods: &[Pod<'_>], resource: Resource) -> Option<Difference> {
    let level = |pod: &Pod<'_>| {
        let days = pod.days.values().map(|day| day_level(day.sketch(resource), resource));
        days.sum::<u64>() / pod.days.len().max(1) as u64
    };
    let busiest = pods.iter().max_by_key(|pod| level(pod))?;
    let on = |pod: &Pod<'_>, age: &u32| pod.days.get(age).map(|day| day_level(day.sketch(resource), resource));
    let (mut far_below, mut others) = (Vec::new(), Vec::new());
    for other in pods.iter().filter(|other| other.number != busiest.number) {
        let shared = busiest.days.keys().filter_map(|age| Some((on(busiest, age)?, on(other, age)?)));
        let days: Vec<bool> =
            shared.map(|(most, less)| most * 2 > less * 3 && most > less + little(resource)).collect();
        if days.len() >= 2 && days.len() * 2 >= busiest.days.len() {
            let is_far_below = is_most(&days, 70);
            far_below.push(is_far_below);
            if is_far_below {
                others.push(level(other));
            }
        }
    }
    let pods = (far_below.len() + 1 - others.len(), far_below.len() + 1);
    let amount = level(busiest);
    is_most(&far_below, 50).then(|| Difference { resource, amount, pods, others: median(others), is_covered: true })
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
    let days = course.seconds(true) / DAY as u64;
    if busy.is_empty() || days < 4 {
        return None;
    }
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
