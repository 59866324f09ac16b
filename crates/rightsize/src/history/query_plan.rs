//! Queries of about the same size for what is to be read, newest first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use headroom_usage::DAY;
use headroom_usage::sample::{Resource, Window};

use headroom_sources::prometheus::Reader;

/// About so many samples are read in one query: a second of work, and some ten megabytes on the way.
const SAMPLES_IN_QUERY: i64 = 400_000;
/// The names of so many namespaces fit into one question.
pub const MAX_NAMESPACES: usize = 40;

/// The part that is read at once.
#[derive(Debug, Clone)]
pub struct Query {
    pub question: Question,
    pub namespaces: Vec<String>,
    pub window: Window,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    Usage(Resource),
    Throttling,
    Kills,
}

impl Query {
    /// In two, if there is anything to cut.
    pub fn halves(&self, step: i64) -> Option<[Self; 2]> {
        if self.namespaces.len() > 1 {
            let (first, second) = self.namespaces.split_at(self.namespaces.len() / 2);
            return Some([first, second].map(|half| Self { namespaces: half.to_vec(), ..self.clone() }));
        }
        // A counter rises between two looks at it, so it is not cut to less than some.
        let least = if self.question == Question::Throttling { 4 * 3_600 } else { 0 };
        let halves = self.window.halves(step).filter(|_| self.window.seconds() >= least)?;
        Some(halves.map(|window| Self { window, ..self.clone() }))
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
        };
        let place = match self.namespaces.as_slice() {
            [one] => format!("namespace {one}"),
            [one, others @ ..] => format!("namespace {one} and {} more", others.len()),
            [] => "no namespace".to_owned(),
        };
        write!(f, "{what} of {place}, {} to {}", moment(self.window.from), moment(self.window.to))
    }
}

fn moment(unix_seconds: i64) -> String {
    jiff::Timestamp::from_second(unix_seconds).map(|moment| moment.to_string()).unwrap_or_default()
}

/// Pieces that are about equally large, newest first, so that an interrupted reading has the latest days of all.
pub async fn plan(
    store: &Reader,
    namespaces: &[String],
    window: Window,
    problems: &mut Vec<String>,
) -> VecDeque<Query> {
    let step = i64::from(store.step_seconds);
    let (mut sizes, mut with_kills) = (BTreeMap::new(), BTreeSet::new());
    for namespaces in namespaces.chunks(MAX_NAMESPACES) {
        match store.containers(namespaces, window).await {
            Ok(counted) => sizes.extend(counted),
            Err(error) => problems.push(format!("containers cannot be counted: {error}")),
        }
        match store.namespaces_with_kills(namespaces, window).await {
            Ok(found) => with_kills.extend(found),
            Err(error) => problems.push(format!("out-of-memory kills are unknown: {error}")),
        }
    }
    let steps = window.seconds().div_euclid(step).max(1);
    let mut queries = Vec::new();
    for (namespaces, containers) in batches(namespaces, &sizes, SAMPLES_IN_QUERY.div_euclid(steps)) {
        let query = |question, window| Query { question, namespaces: namespaces.clone(), window };
        // Whole days, which are kept apart anyway.
        let days = (SAMPLES_IN_QUERY / (containers.max(1) * (DAY / step).max(1))).max(1);
        for window in cut(window, days) {
            for resource in Resource::ALL.into_iter().rev().filter(|resource| store.knows(*resource)) {
                queries.push(query(Question::Usage(resource), window));
            }
        }
        queries.push(query(Question::Throttling, window));
    }
    queries.extend(with_kills.into_iter().map(|namespace| Query {
        question: Question::Kills,
        namespaces: vec![namespace],
        window,
    }));
    queries.sort_by_key(|query| std::cmp::Reverse(query.window.to));
    queries.into()
}

/// Namespaces put together until they have about `most` containers, and how many they have.
fn batches(namespaces: &[String], sizes: &BTreeMap<String, u64>, most: i64) -> Vec<(Vec<String>, i64)> {
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
    batches
}

/// Windows of at most so many days of the calendar, newest first.
fn cut(window: Window, days: i64) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut to = window.to;
    while to > window.from {
        let first_day = (to - 1).div_euclid(DAY) - (days.max(1) - 1);
        let from = (first_day * DAY).max(window.from);
        windows.push(Window { from, to });
        to = from;
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_cut_without_gap_and_each_is_short_enough() {
        for (from, to, days) in [(0, 10 * DAY, 1), (100, 14 * DAY + 100, 3), (300, 900, 1), (0, DAY, 2)] {
            let window = Window { from, to };
            let (windows, seconds) = (cut(window, days), days * DAY);
            assert_eq!((windows.last().unwrap().from, windows.first().unwrap().to), (from, to));
            assert!(windows.iter().all(|window| 0 < window.seconds() && window.seconds() <= seconds), "{windows:?}");
            assert!(windows.windows(2).all(|pair| pair[0].from == pair[1].to), "{windows:?}");
        }
    }

    #[test]
    fn small_namespaces_are_read_together() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        let sizes = BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 4), ("c".to_owned(), 100)]);
        let batches: Vec<(String, i64)> =
            batches(&names, &sizes, 10).into_iter().map(|(names, size)| (names.join(" "), size)).collect();
        assert_eq!(batches, [("a b".to_owned(), 9), ("c".to_owned(), 100), ("d".to_owned(), 1)]);
    }

    #[test]
    fn what_is_too_much_is_halved_until_nothing_is_left_to_cut() {
        let window = Window { from: 0, to: 900 };
        let query = Query {
            question: Question::Usage(Resource::Cpu),
            namespaces: vec!["a".to_owned(), "b".to_owned()],
            window,
        };
        let [first, second] = query.halves(300).unwrap();
        assert_eq!((first.namespaces, second.namespaces.clone()), (vec!["a".to_owned()], vec!["b".to_owned()]));
        let [early, late] = second.halves(300).unwrap();
        assert_eq!((early.window, late.window), (Window { from: 0, to: 300 }, Window { from: 300, to: 900 }));
        assert!(early.halves(300).is_none());
        assert_eq!(early.to_string(), "cpu usage of namespace b, 1970-01-01T00:00:00Z to 1970-01-01T00:05:00Z");
    }
}
