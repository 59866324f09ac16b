//! Merges the days of a history, window by window.

use std::collections::{BTreeMap, BTreeSet};

use crate::covered::{self, LeftOut};
use crate::profile::{EachPod, History, OomKill, Percentiles, Usage, WindowUsage};
use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::{Percentile, Resource, Window};
use headroom_admission::timestamp::Timestamp;

use crate::observed::{Kill, Observed};
use crate::sample::quantity;
use crate::sketch::Sketch;
use crate::varint::{self, Damaged};

/// The number of days that are kept before the newest one.
pub const DAYS_KEPT: u32 = 30;

/// The history of one namespace while its days are added.
#[derive(Debug, Default)]
pub struct OpenHistory {
    week: Observed,
    month: Observed,
    /// The amounts of the month, each day weighing half of the day after it.
    recent: Observed,
    /// A bit for each day on which anything was observed, today's the lowest.
    days: u64,
    /// The greatest [`Observed::busiest`] of the days of the week, and of the month.
    busiest_of_week: u64,
    busiest_of_month: u64,
    each_pod: Option<u64>,
    /// By how many nanocores CPU grows a day; 0 if it does not.
    growth: u64,
    /// The most CPU and memory that was left out.
    left_out: [u64; 2],
}

impl OpenHistory {
    /// The part of some days, told by their age, that a request covers, and what was left out of it; with the pods of the newest
    /// version, where they are known.
    pub fn covering(mut days: BTreeMap<u32, Observed>, newest: &BTreeSet<u32>) -> (Self, LeftOut) {
        days.retain(|age, _| *age <= DAYS_KEPT);
        let growth = covered::growth(&days, Resource::Cpu).map_or(0, |growth| growth.a_day);
        let out = LeftOut::take(&mut days, newest);
        let left_out = [Resource::Cpu, Resource::Memory].map(|resource| out.most(resource));
        let mut open = Self { growth, left_out, each_pod: out.cpu_of_each_pod(&days), ..Self::default() };
        days.iter().for_each(|(age, day)| open.add_observed(*age, day));
        (open, out)
    }

    /// Adds what others used in the same days.
    pub fn merge(&mut self, other: &Self) {
        self.week.add_day(&other.week);
        self.month.add_day(&other.month);
        self.recent.add_day(&other.recent);
        self.days |= other.days;
        self.busiest_of_week = self.busiest_of_week.max(other.busiest_of_week);
        self.busiest_of_month = self.busiest_of_month.max(other.busiest_of_month);
        self.each_pod = self.each_pod.max(other.each_pod);
        self.growth = self.growth.max(other.growth);
        self.left_out.iter_mut().zip(other.left_out).for_each(|(most, of)| *most = of.max(*most));
    }

    /// The history to publish; none if nothing was observed within the longest window.
    pub fn history(&self) -> Option<History> {
        let last_seen = moment(self.month.last_seen)?;
        let windows = Window::PUBLISHED.into_iter().filter(|window| self.has(*window));
        let windows = windows.map(|window| (window, self.window_usage(window))).collect();
        let oom_kills = self.kills().iter().filter_map(|kill| oom_kill(kill.at, kill.memory)).collect();
        Some(History { last_seen, days: self.days(), oom_kills, windows })
    }

    pub fn add_observed(&mut self, age: u32, observed: &Observed) {
        if age > DAYS_KEPT {
            return;
        }
        let busiest = observed.busiest().unwrap_or_default();
        if age <= 7 {
            self.week.add_day(observed);
            self.busiest_of_week = self.busiest_of_week.max(busiest);
        }
        self.busiest_of_month = self.busiest_of_month.max(busiest);
        self.month.add_day(observed);
        let weight = 1_u64 << DAYS_KEPT.saturating_sub(age);
        for resource in Resource::ALL {
            self.recent.sketch_mut(resource).merge_weighted(observed.sketch(resource), weight);
        }
        self.days |= 1 << age;
    }

    pub fn days(&self) -> u64 {
        self.days.count_ones().into()
    }

    /// Newest first.
    pub fn kills(&self) -> &[Kill] {
        self.month.kills()
    }

    pub fn last_seen(&self) -> i64 {
        self.month.last_seen
    }

    /// True if anything was observed in a window.
    pub fn has(&self, window: Window) -> bool {
        self.counted(window).last_seen > 0
    }

    /// The pods and samples of a window, not weighted.
    pub fn counted(&self, window: Window) -> &Observed {
        if window == Window::Week { &self.week } else { &self.month }
    }

    pub fn sketch(&self, window: Window, resource: Resource) -> &Sketch {
        let observed = if window == Window::Recent { &self.recent } else { self.counted(window) };
        observed.sketch(resource)
    }

    /// The CPU usage of the busiest pod: the greatest p95 of one pod on one day. 0 if no day had several pods, and for
    /// `recent`, whose days have different weights.
    pub fn busiest(&self, window: Window) -> u64 {
        match window {
            Window::Week => self.busiest_of_week,
            Window::Month => self.busiest_of_month,
            _ => 0,
        }
    }

    fn window_usage(&self, window: Window) -> WindowUsage {
        let busiest = self.busiest(window);
        let each_pod = |needs| {
            let growth = (self.growth > 0).then(|| quantity(self.growth, Resource::Cpu));
            Box::new(EachPod { needs: quantity(needs, Resource::Cpu), growth, percentiles: None })
        };
        let usage = |resource| {
            let sketch = self.sketch(window, resource);
            let mut amounts = sketch.percentiles(Percentile::PUBLISHED.map(Percentile::permille)).into_iter();
            let usage = || Usage {
                samples: self.samples(window, resource),
                percentiles: Percentiles::agreed(|_| Some(quantity(amounts.next()?, resource))),
                peak: Some(quantity(sketch.peak(), resource)),
                busiest: (resource == Resource::Cpu && busiest > 0).then(|| quantity(busiest, resource)),
                each_pod: self.each_pod.filter(|_| resource == Resource::Cpu && window == Window::Recent).map(each_pod),
                not_covered: self.not_covered(window, resource),
            };
            (!sketch.is_empty()).then(usage).map(Box::new)
        };
        WindowUsage {
            pods: self.counted(window).pods.count(),
            namespaces: 1,
            cpu: usage(Resource::Cpu),
            memory: usage(Resource::Memory),
            ephemeral_storage: usage(Resource::EphemeralStorage),
        }
    }

    fn not_covered(&self, window: Window, resource: Resource) -> Option<Quantity> {
        let [cpu, memory] = self.left_out;
        let most = match resource {
            Resource::Cpu => cpu,
            Resource::Memory => memory,
            Resource::EphemeralStorage => 0,
        };
        (most > 0 && window == Window::Month).then(|| quantity(most, resource))
    }

    /// Minutes observed.
    pub fn samples(&self, window: Window, resource: Resource) -> u64 {
        // Rounded up, because a container may have run for less than a minute.
        self.counted(window).sketch(resource).seconds().div_ceil(60)
    }

    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let [cpu, memory] = self.left_out;
        let each_pod = self.each_pod.map_or(0, |needs| needs.saturating_add(1));
        for number in [self.days, self.busiest_of_week, self.busiest_of_month, each_pod, self.growth, cpu, memory] {
            varint::write(&mut out, number);
        }
        Resource::ALL.iter().for_each(|resource| self.recent.sketch(*resource).write(&mut out));
        let mut week = Vec::new();
        self.week.write(&mut week);
        varint::write(&mut out, week.len() as u64);
        out.extend_from_slice(&week);
        self.month.write(&mut out);
        out.shrink_to_fit();
        out
    }

    pub fn read(mut rest: &[u8]) -> Result<Self, Damaged> {
        let mut number = || varint::read(&mut rest);
        let (days, busiest_of_week, busiest_of_month) = (number()?, number()?, number()?);
        let (each_pod, growth, left_out) = (number()?.checked_sub(1), number()?, [number()?, number()?]);
        let mut recent = Observed::default();
        for resource in Resource::ALL {
            *recent.sketch_mut(resource) = Sketch::read(&mut rest)?;
        }
        let length = usize::try_from(varint::read(&mut rest)?).map_err(|_| Damaged)?;
        let (week, month) = rest.split_at_checked(length).ok_or(Damaged)?;
        let (week, month) = (Observed::read(week)?, Observed::read(month)?);
        Ok(Self { week, month, recent, days, busiest_of_week, busiest_of_month, each_pod, growth, left_out })
    }
}

pub fn oom_kill(at: i64, memory: u64) -> Option<OomKill> {
    Some(OomKill { at: moment(at)?, memory: Quantity::from_bytes(memory) })
}

/// None if nothing ever happened.
pub fn moment(unix_seconds: i64) -> Option<Timestamp> {
    Timestamp::from_unix_seconds(unix_seconds).filter(|_| unix_seconds > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(amount: u64) -> Observed {
        let mut observed = Observed::default();
        observed.cpu.add(amount, 86_400);
        observed.last_seen = 1_000;
        observed
    }

    #[test]
    fn recent_days_outweigh_all_before_them() {
        let mut open = OpenHistory::default();
        open.add_observed(1, &day(100));
        (2..=30).for_each(|age| open.add_observed(age, &day(10)));
        let recent = open.sketch(Window::Recent, Resource::Cpu);
        assert_eq!((recent.percentile(490), recent.percentile(510)), (10, 100));
        assert_eq!(open.sketch(Window::Month, Resource::Cpu).percentile(960), 10);
        assert_eq!((open.days(), open.samples(Window::Recent, Resource::Cpu)), (30, 30 * 24 * 60));
    }

    #[test]
    fn days_older_than_a_month_are_ignored() {
        let mut open = OpenHistory::default();
        open.add_observed(31, &day(100));
        assert!(!open.has(Window::Month) && open.history().is_none());
    }

    #[test]
    fn a_written_history_is_read() {
        let mut open = OpenHistory::default();
        (0..12).for_each(|age| {
            let mut day = day(u64::from(age) << 20);
            (0..2).for_each(|pod| day.pods.add(pod));
            day.busy_pods.add(1, &day.cpu, 0);
            open.add_observed(age, &day);
        });
        assert_eq!((open.busiest(Window::Week), open.busiest(Window::Month)), (7 << 20, 11 << 20));
        let back = OpenHistory::read(&open.write()).unwrap();
        assert_eq!(back.history(), open.history());
        assert!(OpenHistory::read(&[1, 2, 3]).is_err());
    }
}
