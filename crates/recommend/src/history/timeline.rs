//! The course of a container's usage as it is drawn: a peak for each day or hour, and what happened in between.

use std::collections::BTreeMap;

use headroom_admission::cluster::usage::Resource;
use headroom_metrics_stores::SourceError;
use headroom_metrics_stores::prometheus::StoreReader;
use headroom_usage::sample::{Sample, Window};
use headroom_usage::{DAY, day_of};
use serde::Serialize;

use crate::history::ContainerUsage;
use crate::history::course::Day;
use headroom_workloads::owner::{self, WorkloadRef};

const HOUR: i64 = 3_600;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The beginning of the first step, in Unix seconds.
    pub from: i64,
    pub step: i64,
    /// The peak in each step, in thousandths of a core; none without samples.
    pub cpu: Vec<Option<u64>>,
    /// In KiB.
    pub memory: Vec<Option<u64>>,
    /// The times of out-of-memory kills, in Unix seconds.
    pub kills: Vec<i64>,
    /// The times at which a new version of the pods' template came.
    pub releases: Vec<i64>,
}

impl Timeline {
    /// The days of what was read up to a moment; none if that is not known.
    pub fn of_days(usage: &ContainerUsage, to: i64) -> Option<Self> {
        let course = &usage.course;
        let today = i64::from(day_of(to - 1));
        let day = |age: u32| (today - i64::from(age)) * DAY;
        let oldest = course.days.keys().last().copied().unwrap_or(0);
        let peaks = |resource, peak: fn(&Day) -> u64| {
            let of_day = |age: u32| course.days.get(&age).map(peak).filter(|peak| *peak > 0);
            (0..=oldest).rev().map(|age| Some(rounded_up(of_day(age)?, resource))).collect()
        };
        (to > 0).then(|| Self {
            from: day(oldest),
            step: DAY,
            cpu: peaks(Resource::Cpu, |day| day.cpu_peak),
            memory: peaks(Resource::Memory, |day| day.memory_peak),
            kills: usage.usage.kills().iter().map(|kill| kill.at).collect(),
            releases: course.releases().into_iter().map(day).collect(),
        })
    }

    /// The hours of one container of a workload, as a store has them.
    pub async fn of_hours(
        store: &StoreReader,
        workload: &WorkloadRef,
        container: &str,
        window: Window,
    ) -> Result<Self, SourceError> {
        let place = (workload.namespace.as_str(), workload.name.as_str(), container);
        let from = window.from.div_euclid(HOUR) * HOUR;
        let hours = usize::try_from((window.to - from + HOUR - 1) / HOUR).unwrap_or(0);
        let mut timeline = Self { from, step: HOUR, ..Self::default() };
        let mut templates: BTreeMap<String, i64> = BTreeMap::new();
        for (resource, peaks) in [(Resource::Cpu, &mut timeline.cpu), (Resource::Memory, &mut timeline.memory)] {
            *peaks = vec![None; hours];
            for (pod, samples) in store.hourly(place, resource, window).await? {
                if !owner::may_be_of(workload, &pod) {
                    continue;
                }
                for Sample { time, value, .. } in samples {
                    let hour = usize::try_from((time - from) / HOUR).ok().and_then(|hour| peaks.get_mut(hour));
                    hour.into_iter().for_each(|peak| *peak = (*peak).max(Some(rounded_up(value, resource))));
                    if let Some(template) = owner::template_of(&pod) {
                        let first = templates.entry(template.to_owned()).or_insert(time);
                        *first = time.min(*first);
                    }
                }
            }
        }
        let oldest = templates.values().min().copied();
        timeline.releases = templates.into_values().filter(|at| Some(*at) != oldest).collect();
        Ok(timeline)
    }
}

/// Thousandths of a core, or KiB.
fn rounded_up(amount: u64, resource: Resource) -> u64 {
    amount.div_ceil(if resource == Resource::Cpu { 1_000_000 } else { 1 << 10 })
}
