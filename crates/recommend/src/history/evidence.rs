//! The amount of usage behind a recommendation, and when it is enough.

use std::fmt;

use headroom_admission::cluster::usage::{Resource, Window};
use headroom_admission::recommend::Measurements;
use headroom_admission::truncate::count_of;
use headroom_usage::covered::LEAST_SECONDS;
use headroom_usage::{DAY, day_of};
use serde::Serialize;

use crate::history::ContainerUsage;
use crate::history::course::Seen;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    pub days: u64,
    /// Minutes observed, of all pods.
    pub samples: u64,
    /// The time in which it was seen, however many pods there were; of runs that from the first to the last.
    pub minutes: u64,
    /// Different ones, of which most may be gone.
    pub pods: u64,
    /// The pods of a CronJob or Job that are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    pub is_too_brief: bool,
    /// The age of the newest sample of pods that run, if it is a day or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_days: Option<u64>,
    /// The part that was seen, if that is not all.
    #[serde(rename = "seen", skip_serializing_if = "Option::is_none")]
    pub partly: Option<Seen>,
    /// The weekdays of the first sample and the last, where they are known.
    #[serde(skip)]
    weekdays: Option<[&'static str; 2]>,
}

/// Minutes of usage that a recommendation needs. On recordings half as many peaks of the following day are above what the
/// first two hours show as above what the first ten minutes show.
const ENOUGH_MINUTES: u64 = 120;

/// Or so many whole runs of a Job, each of which shows all that it does.
const ENOUGH_RUNS: u64 = 5;

/// Requests are lowered by so much usage: a weekend is shorter.
const MINUTES_TO_LOWER: u64 = 3 * MINUTES_A_DAY;

/// Memory limits are lowered by this many days of usage, if asked for.
const DAYS_TO_LOWER: u64 = 7;

/// Nothing is lowered if less of its pods' time was seen: one day of seven may be its busy one.
const PERCENT_TO_LOWER: u64 = 90;

const MINUTES_A_DAY: u64 = 1_440;

impl Evidence {
    fn new(days: u64, samples: u64, minutes: u64, pods: u64) -> Self {
        let is_too_brief = minutes < ENOUGH_MINUTES;
        Self { days, samples, minutes, pods, runs: None, is_too_brief, silent_days: None, partly: None, weekdays: None }
    }

    /// The evidence in a profile, which does not say when a day's samples begin: pods mostly run beside each other.
    pub fn of_profile(measured: &Measurements) -> Self {
        let Measurements { samples, pods, .. } = *measured;
        let days = measured.days.unwrap_or_else(|| measured.window.days().into());
        let between = days.saturating_sub(2) * MINUTES_A_DAY;
        Self::new(days, samples, (samples / pods.max(1)).max(between), pods)
    }

    /// None if nothing was observed of what was read up to a moment. The pods may be runs of a Job, and many brief ones are like
    /// those.
    pub fn of(usage: &ContainerUsage, are_runs: bool, to: i64) -> Option<Self> {
        let samples = Resource::ALL.map(|resource| usage.sketch(resource).seconds().div_ceil(60));
        let samples = samples.into_iter().max().filter(|samples| *samples > 0)?;
        let pods = usage.usage.counted(Window::Month).pods.count();
        let are_brief = pods >= ENOUGH_RUNS && samples * 60 < pods * LEAST_SECONDS;
        let seconds = usage.course.seconds(are_runs || are_brief);
        // Begun days count.
        let days = seconds.div_ceil(DAY as u64).min(usage.usage.days());
        let evidence = Self::new(days, samples, seconds.div_ceil(60), pods);
        let days = &usage.course.days;
        let weekdays = days.last_key_value().zip(days.first_key_value());
        let weekdays = weekdays.map(|((first, _), (last, _))| [weekday(to, *first), weekday(to, *last)]);
        Some(Self { weekdays, ..evidence })
    }

    /// The same for pods that are runs of a Job, of which some are not done.
    pub fn of_runs(self, running: u64) -> Self {
        let runs = self.pods.saturating_sub(running);
        Self { runs: Some(runs), is_too_brief: self.is_too_brief && runs < ENOUGH_RUNS, ..self }
    }

    /// True if so little was seen that it may have been a weekend.
    pub fn is_thin(&self) -> bool {
        self.minutes < MINUTES_TO_LOWER
    }

    /// The part that was seen, if it is so small that nothing is lowered by it.
    pub fn too_partly(&self) -> Option<Seen> {
        self.partly.filter(|seen| seen.percent < PERCENT_TO_LOWER)
    }

    pub fn may_lower_limits(&self) -> bool {
        self.minutes >= DAYS_TO_LOWER * MINUTES_A_DAY && self.too_partly().is_none()
    }
}

/// The weekday of the day that is `age` days before that of a moment.
pub fn weekday(to: i64, age: u32) -> &'static str {
    // 1970 began on a Thursday.
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    WEEKDAYS.get(day_of(to - 1).saturating_sub(age) as usize % 7).copied().unwrap_or_default()
}

/// `14d, 3 pods`, and of less than three days the hours or minutes: `30h, 1 pod, Fri to Sat`; of Jobs `14d, 14 runs`
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minutes {
            minutes @ ..ENOUGH_MINUTES => write!(f, "{minutes}min, ")?,
            minutes @ ..MINUTES_TO_LOWER => write!(f, "{}h, ", minutes / 60)?,
            _ => write!(f, "{}d, ", self.days)?,
        }
        match self.runs {
            Some(runs) => f.write_str(&count_of(runs, "run"))?,
            None => f.write_str(&count_of(self.pods, "pod"))?,
        }
        match self.weekdays.filter(|_| self.is_thin() && !self.is_too_brief) {
            Some([first, last]) if first == last => write!(f, ", {first}"),
            Some([first, last]) => write!(f, ", {first} to {last}"),
            None => Ok(()),
        }
    }
}
