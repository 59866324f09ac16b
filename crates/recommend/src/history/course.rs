//! The course of a container's usage over pods and days, as it was read.
//!
//! Days are told by their age, of which those that differ by seven are the same weekday.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use headroom_usage::DAY;
use headroom_usage::observed::Observed;
use serde::Serialize;

const HOUR: i64 = 3_600;

/// The usage of one container by pod and by day.
#[derive(Debug, Default)]
pub struct Course {
    pub pods: HashMap<u32, PodCourse>,
    pub days: BTreeMap<u32, Day>,
}

#[derive(Debug, Default)]
pub struct PodCourse {
    /// Its usage on each day, in the form of the collector's store, which takes a twentieth of the room.
    days: BTreeMap<u32, Box<[u8]>>,
    /// The CPU in hours in which it used more than twice its mean, by the day's age and the hour.
    pub busy_hours: BTreeMap<(u32, u32), u64>,
    /// The hours in which it was seen, if they are known.
    pub hours: Hours,
    /// When it was last seen, in Unix seconds, if it is gone.
    pub end: Option<i64>,
    /// The version of its template, where its name tells that.
    pub template: Option<u32>,
}

/// The part of the time of a workload's pods that was seen, and of the pods that run those that were seen at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Seen {
    pub percent: u64,
    pub pods: u64,
    #[serde(rename = "running")]
    pub of: u64,
}

/// `58% of the time`, `67% of the time, 2 of 3 pods`
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}% of the time", self.percent)?;
        if self.pods < self.of { write!(f, ", {} of {} pods", self.pods, self.of) } else { Ok(()) }
    }
}

/// Hours by their number since 1970 when they ended: a bit for each of a day.
#[derive(Debug, Default)]
pub struct Hours(BTreeMap<i64, u32>);

impl Hours {
    /// Adds some of the last day up to an hour: a bit for each hour of UTC at which one ended.
    pub fn add(&mut self, last: i64, hours: u32) {
        let (day, of_day) = (last.div_euclid(24), (2 << last.rem_euclid(24)) - 1);
        for (day, hours) in [(day, hours & of_day), (day - 1, hours & !of_day)] {
            if hours > 0 {
                *self.0.entry(day).or_default() |= hours;
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(day, hours)| *self.0.entry(*day).or_default() |= hours);
    }

    fn count(&self) -> u64 {
        self.0.values().map(|hours| u64::from(hours.count_ones())).sum()
    }

    fn first(&self) -> Option<i64> {
        self.0.first_key_value().map(|(day, hours)| day * 24 + i64::from(hours.trailing_zeros()))
    }

    fn has(&self, hour: i64) -> bool {
        self.0.get(&hour.div_euclid(24)).is_some_and(|hours| hours >> hour.rem_euclid(24) & 1 == 1)
    }
}

#[derive(Debug, Default)]
pub struct Day {
    pub seconds: u64,
    pub cpu_peak: u64,
    pub memory_peak: u64,
}

impl PodCourse {
    /// Yields its usage on each day, newest first.
    pub fn days(&self) -> impl Iterator<Item = (u32, Observed)> {
        self.days.iter().filter_map(|(age, written)| Some((*age, Observed::read(written).ok()?)))
    }

    /// Adds to what it used on a day, and returns for how many seconds it was seen on it.
    fn add(&mut self, age: u32, observed: &Observed) -> u64 {
        let mut day = self.days.get(&age).and_then(|written| Observed::read(written).ok()).unwrap_or_default();
        day.merge(observed);
        let mut written = Vec::new();
        day.write(&mut written);
        self.days.insert(age, written.into());
        day.cpu.seconds().max(day.memory.seconds())
    }
}

impl Course {
    /// Adds what all pods used on one day, or in a part of it.
    pub fn add_day(&mut self, age: u32, observed: &Observed) {
        let day = self.days.entry(age).or_default();
        day.cpu_peak = day.cpu_peak.max(observed.cpu.peak());
        day.memory_peak = day.memory_peak.max(observed.memory.peak());
        let seconds = observed.cpu.seconds().max(observed.memory.seconds());
        // Pods mostly run beside each other.
        day.seconds = day.seconds.max(seconds / observed.pods.count().max(1));
    }

    /// Adds what one pod used on one day, or in a part of it.
    pub fn add_pod(&mut self, pod: u32, age: u32, mut observed: Observed) {
        observed.pods.add(pod);
        let seconds = self.pods.entry(pod).or_default().add(age, &observed);
        let day = self.days.entry(age).or_default();
        day.seconds = day.seconds.max(seconds);
    }

    pub fn add_busy_hour(&mut self, pod: u32, (age, hour): (u32, u32), cpu: u64) {
        self.pods.entry(pod).or_default().busy_hours.insert((age, hour), cpu);
    }

    pub fn merge(&mut self, other: Self) {
        for (age, day) in other.days {
            let known = self.days.entry(age).or_default();
            known.seconds = known.seconds.max(day.seconds);
            known.cpu_peak = known.cpu_peak.max(day.cpu_peak);
            known.memory_peak = known.memory_peak.max(day.memory_peak);
        }
        for (number, pod) in other.pods {
            let of = self.pods.entry(number).or_default();
            of.busy_hours.extend(&pod.busy_hours);
            of.hours.merge(&pod.hours);
            of.end = of.end.max(pod.end);
            of.template = of.template.or(pod.template);
            for (age, written) in pod.days {
                if let Entry::Vacant(place) = of.days.entry(age) {
                    place.insert(written);
                } else if let Ok(observed) = Observed::read(&written) {
                    let (seconds, day) = (of.add(age, &observed), self.days.entry(age).or_default());
                    day.seconds = day.seconds.max(seconds);
                }
            }
        }
    }

    /// The time in which the workload was seen, however many pods it had; of runs that from the first to the last, but between two
    /// days alone.
    pub fn seconds(&self, are_runs: bool) -> u64 {
        let (Some((last, newest)), Some((first, oldest))) = (self.days.first_key_value(), self.days.last_key_value())
        else {
            return 0;
        };
        let between = match self.days.len() as u64 {
            1 => return oldest.seconds,
            days if days > 2 && are_runs => u64::from(first - last - 1),
            days => days - 2,
        };
        let seconds = oldest.seconds + newest.seconds + between * DAY as u64;
        let mut hours = Hours::default();
        self.pods.values().for_each(|pod| hours.merge(&pod.hours));
        // The hour that has just begun is not known.
        let known = (hours.count() + 1) * HOUR as u64;
        if are_runs || hours.count() == 0 { seconds } else { seconds.min(known) }
    }

    /// The part of its pods' time that was seen, with the time since those that run began that was not, of what was read up to a
    /// moment; none if that is not known.
    pub fn seen(&self, running: &[(u32, i64)], to: i64) -> Option<Seen> {
        let first = self.pods.values().filter_map(|pod| pod.hours.first()).min()?;
        // The last one is read a step before its end.
        let hours = |since: i64| (since.div_euclid(HOUR) + 2).max(first)..to.div_euclid(HOUR);
        let (mut unseen, mut pods) = (0, 0);
        for (pod, since) in running {
            let known = self.pods.get(pod).map(|pod| &pod.hours);
            let of_pod = hours(*since).filter(|hour| !known.is_some_and(|known| known.has(*hour))).count() as u64;
            pods += u64::from(of_pod < 24 || known.is_some_and(|known| known.count() > 0));
            unseen += of_pod;
        }
        let seen = self.pods.values().map(|pod| pod.hours.count()).sum::<u64>();
        Some(Seen { percent: seen * 100 / (seen + unseen), pods, of: running.len() as u64 })
    }

    /// The time of the newest sample, in Unix seconds, of what was read up to a moment. A store that makes percentiles tells it
    /// to a quarter of an hour in the last day, and to a day before that.
    pub fn last_seen(&self, to: i64) -> Option<i64> {
        let of_pod = |pod: &PodCourse| {
            let newest = pod.days.values().filter_map(|written| Observed::read_last_seen(written).ok()).max();
            newest.map(|newest| pod.end.filter(|end| *end > to - DAY).map_or(newest, |end| newest.min(end)))
        };
        self.pods.values().filter_map(of_pod).max()
    }

    /// The oldest day of each version of the pods' template, by its age.
    fn templates(&self) -> HashMap<u32, u32> {
        let mut templates: HashMap<u32, u32> = HashMap::new();
        for (template, age) in self.pods.values().filter_map(|pod| pod.template.zip(pod.days.keys().next_back())) {
            let oldest = templates.entry(template).or_default();
            *oldest = (*oldest).max(*age);
        }
        templates
    }

    /// The pods of the newest version of their template that was seen on the last day.
    pub fn newest_pods(&self) -> BTreeSet<u32> {
        let (templates, last) = (self.templates(), self.days.keys().next());
        let age = |pod: &PodCourse| templates.get(&pod.template?).copied();
        let newest = self.pods.values().filter(|pod| pod.days.keys().next() == last).filter_map(age).min();
        let pods = self.pods.iter().filter(|(_, pod)| newest.is_some() && age(pod) == newest);
        pods.map(|(number, _)| *number).collect()
    }

    /// The ages of the days on which a new version of the pods' template came, newest first.
    pub fn releases(&self) -> Vec<u32> {
        let templates = self.templates();
        let first = templates.values().max().copied();
        let mut ages: Vec<u32> = templates.into_values().filter(|age| Some(*age) != first).collect();
        ages.sort_unstable();
        ages.dedup();
        ages
    }
}
