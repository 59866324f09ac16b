//! Queries of about the same size for what is to be read, newest first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use headroom_usage::DAY;
use headroom_usage::sample::{Resource, Window};

use headroom_metrics_stores::paced::UsageSlice;
use headroom_metrics_stores::prometheus::StoreReader;
use headroom_metrics_stores::prometheus::reader::Lives;

/// About so many samples are read in one query: a second of work, and some ten megabytes on the way.
const SAMPLES_IN_QUERY: i64 = 400_000;
/// The names of so many namespaces fit into one question.
pub const MAX_NAMESPACES: usize = 40;

/// The part that is read at once.
#[derive(Debug, Clone)]
pub struct Query {
    pub question: Question,
    pub slice: UsageSlice,
    /// Read usage sample by sample: it is not known how long containers were seen, or percentiles are too much for the store.
    pub by_samples: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    Usage(Resource),
    Throttling,
    Kills,
    /// The hours in which CPU usage was far above its mean. Only flags need them.
    Course,
    /// The hours in which containers were seen.
    Hours,
    /// When containers that are gone were last seen.
    Ended,
}

impl Question {
    /// True if usage counts without it, too.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::Course | Self::Hours | Self::Ended)
    }
}

impl Query {
    /// In two, if there is anything to cut.
    pub fn halves(&self, step: i64) -> Option<[Self; 2]> {
        let is_of_one = self.slice.namespaces.len() == 1;
        if is_of_one && self.question.is_optional() {
            return None;
        }
        // Counters are read by the day, and a digest is of a whole day.
        let step = if self.question == Question::Throttling { DAY } else { step };
        let (question, by_samples) = (self.question, self.by_samples || is_of_one);
        Some(self.slice.halves(step)?.map(|slice| Self { question, slice, by_samples }))
    }
}

/// `cpu usage of namespace shop, 2026-11-08T10:00:00Z to 2026-11-09T00:00:00Z`
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.question {
            Question::Usage(Resource::Cpu) => "cpu usage",
            Question::Usage(Resource::Memory) => "memory usage",
            Question::Usage(Resource::EphemeralStorage) => "ephemeral storage",
            Question::Throttling => "CPU throttling",
            Question::Kills => "out-of-memory kills",
            Question::Course => "hours of usage",
            Question::Hours => "hours that were seen",
            Question::Ended => "ends of containers",
        };
        let UsageSlice { namespaces, window } = &self.slice;
        let place = match namespaces.as_slice() {
            [one] => format!("namespace {one}"),
            [one, others @ ..] => format!("namespace {one} and {} more", others.len()),
            [] => "no namespace".to_owned(),
        };
        write!(f, "{what} of {place}, {} to {}", moment(window.from), moment(window.to))
    }
}

fn moment(unix_seconds: i64) -> String {
    jiff::Timestamp::from_second(unix_seconds).map(|moment| moment.to_string()).unwrap_or_default()
}

/// Pieces that are about equally large, newest first, so that an interrupted reading has the latest days of all.
pub fn plan(
    store: &StoreReader,
    namespaces: &[String],
    window: Window,
    lives: Option<&Lives>,
    killed: &BTreeSet<String>,
) -> VecDeque<Query> {
    let sizes = lives.map(most_containers).unwrap_or_default();
    let steps = DAY.div_euclid(store.step_of(Resource::Cpu).into()).max(1);
    let by_samples = lives.is_none() || !store.can_digest();
    let mut queries = Vec::new();
    for namespaces in batches(namespaces, &sizes, SAMPLES_IN_QUERY.div_euclid(steps)) {
        let slice = |window| UsageSlice { namespaces: namespaces.clone(), window };
        let query = |question, window| Query { question, slice: slice(window), by_samples };
        for window in window.days() {
            for resource in Resource::ALL.into_iter().rev().filter(|resource| store.knows(*resource)) {
                queries.push(query(Question::Usage(resource), window));
            }
        }
        queries.push(query(Question::Throttling, window));
        if !by_samples {
            queries.push(query(Question::Course, window));
            queries.push(query(Question::Hours, window));
            queries.push(query(Question::Ended, window));
        }
    }
    let killed: Vec<String> = killed.iter().cloned().collect();
    queries.extend(killed.chunks(MAX_NAMESPACES).map(|namespaces| Query {
        question: Question::Kills,
        slice: UsageSlice { namespaces: namespaces.to_vec(), window },
        by_samples,
    }));
    queries.sort_by_key(|query| std::cmp::Reverse(query.slice.window.to));
    queries.into()
}

/// The most containers that each namespace had on any day.
fn most_containers(lives: &Lives) -> BTreeMap<String, u64> {
    let mut by_day: BTreeMap<(&str, i64), u64> = BTreeMap::new();
    for (container, days) in lives {
        days.keys().for_each(|day| *by_day.entry((&container.namespace, *day)).or_default() += 1);
    }
    let mut most: BTreeMap<String, u64> = BTreeMap::new();
    for ((namespace, _), count) in by_day {
        let of = most.entry(namespace.to_owned()).or_default();
        *of = (*of).max(count);
    }
    most
}

/// Namespaces put together until they have about `most` containers.
fn batches(namespaces: &[String], sizes: &BTreeMap<String, u64>, most: i64) -> Vec<Vec<String>> {
    let mut batches: Vec<(Vec<String>, i64)> = Vec::new();
    for namespace in namespaces {
        let size = sizes.get(namespace).map_or(0, |size| i64::try_from(*size).unwrap_or(i64::MAX)).max(1);
        match batches.last_mut() {
            Some((batch, sum)) if batch.len() < MAX_NAMESPACES && sum.saturating_add(size) <= most => {
                batch.push(namespace.clone());
                *sum = sum.saturating_add(size);
            }
            _ => batches.push((vec![namespace.clone()], size)),
        }
    }
    batches.into_iter().map(|(batch, _)| batch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_namespaces_are_read_together() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        let sizes = BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 4), ("c".to_owned(), 100)]);
        let batches: Vec<String> = batches(&names, &sizes, 10).iter().map(|names| names.join(" ")).collect();
        assert_eq!(batches, ["a b", "c", "d"]);
    }

    #[test]
    fn what_is_too_much_is_halved_until_nothing_is_left_to_cut() {
        let window = Window { from: 0, to: 900 };
        let query = Query {
            question: Question::Usage(Resource::Cpu),
            slice: UsageSlice { namespaces: vec!["a".to_owned(), "b".to_owned()], window },
            by_samples: false,
        };
        let [first, second] = query.halves(300).unwrap();
        assert_eq!((first.slice.names(), second.slice.names()), (vec!["a"], vec!["b"]));
        assert!(!first.by_samples && !second.by_samples);
        let [early, late] = second.halves(300).unwrap();
        assert!(early.by_samples);
        assert_eq!(
            (early.slice.window, late.slice.window),
            (Window { from: 0, to: 300 }, Window { from: 300, to: 900 })
        );
        assert!(early.halves(300).is_none());
        assert_eq!(early.to_string(), "cpu usage of namespace b, 1970-01-01T00:00:00Z to 1970-01-01T00:05:00Z");
    }
}
