//! A reading cut into pieces of about the same size, newest first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headroom_usage::DAY;
use headroom_usage::sample::{Resource, Window};

use crate::source::prometheus::survey::Survey;

/// About so many samples are read in one piece: a second of work, and some ten megabytes on the way.
const SAMPLES_IN_PIECE: i64 = 400_000;
/// The names of so many namespaces fit into one question.
pub const MOST_NAMESPACES: usize = 40;

/// What is read in one go.
#[derive(Debug, Clone)]
pub struct Piece {
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

impl Piece {
    /// In two, if there is anything to cut.
    pub fn halves(&self, step: i64) -> Option<[Self; 2]> {
        if self.namespaces.len() > 1 {
            let (first, second) = self.namespaces.split_at(self.namespaces.len() / 2);
            return Some([first, second].map(|half| Self { namespaces: half.to_vec(), ..self.clone() }));
        }
        let steps = self.window.seconds().div_euclid(step);
        let middle = self.window.from + steps.div_euclid(2) * step;
        // A counter rises between two looks at it, so it is not cut to less than some.
        let fewest = if self.question == Question::Throttling { 4 * 3_600 / step.max(1) } else { 2 };
        (steps >= fewest.max(2)).then(|| {
            [Window { to: middle, ..self.window }, Window { from: middle, ..self.window }]
                .map(|window| Self { window, ..self.clone() })
        })
    }

    pub fn told(&self) -> String {
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
        format!("{what} of {place}, {} to {}", moment(self.window.from), moment(self.window.to))
    }
}

fn moment(unix_seconds: i64) -> String {
    jiff::Timestamp::from_second(unix_seconds).map(|moment| moment.to_string()).unwrap_or_default()
}

/// Pieces that are about equally large, newest first, so that an interrupted reading has the latest days of all.
pub async fn plan(
    survey: &Survey,
    namespaces: &[String],
    window: Window,
    problems: &mut Vec<String>,
) -> VecDeque<Piece> {
    let step = i64::from(survey.step_seconds());
    let (mut sizes, mut with_kills) = (BTreeMap::new(), BTreeSet::new());
    for namespaces in namespaces.chunks(MOST_NAMESPACES) {
        match survey.containers(namespaces, window).await {
            Ok(counted) => sizes.extend(counted),
            Err(error) => problems.push(format!("containers cannot be counted: {error}")),
        }
        match survey.namespaces_with_kills(namespaces, window).await {
            Ok(found) => with_kills.extend(found),
            Err(error) => problems.push(format!("out-of-memory kills cannot be told: {error}")),
        }
    }
    let steps = window.seconds().div_euclid(step).max(1);
    let mut pieces = Vec::new();
    for (namespaces, containers) in batches(namespaces, &sizes, SAMPLES_IN_PIECE.div_euclid(steps)) {
        let piece = |question, window| Piece { question, namespaces: namespaces.clone(), window };
        // Whole days, which are kept apart anyway.
        let days = (SAMPLES_IN_PIECE / (containers.max(1) * (DAY / step).max(1))).max(1);
        for window in cut(window, days) {
            for resource in Resource::ALL.into_iter().rev().filter(|resource| survey.knows(*resource)) {
                pieces.push(piece(Question::Usage(resource), window));
            }
        }
        pieces.push(piece(Question::Throttling, window));
    }
    pieces.extend(with_kills.into_iter().map(|namespace| Piece {
        question: Question::Kills,
        namespaces: vec![namespace],
        window,
    }));
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.window.to));
    pieces.into()
}

/// Namespaces put together until they have about `most` containers, and how many they have.
fn batches(namespaces: &[String], sizes: &BTreeMap<String, u64>, most: i64) -> Vec<(Vec<String>, i64)> {
    let mut batches: Vec<(Vec<String>, i64)> = Vec::new();
    for namespace in namespaces {
        let size = sizes.get(namespace).map_or(0, |size| i64::try_from(*size).unwrap_or(i64::MAX)).max(1);
        match batches.last_mut() {
            Some((batch, sum)) if batch.len() < MOST_NAMESPACES && sum.saturating_add(size) <= most => {
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
        let told: Vec<(String, i64)> =
            batches(&names, &sizes, 10).into_iter().map(|(names, size)| (names.join(" "), size)).collect();
        assert_eq!(told, [("a b".to_owned(), 9), ("c".to_owned(), 100), ("d".to_owned(), 1)]);
    }

    #[test]
    fn what_is_too_much_is_halved_until_nothing_is_left_to_cut() {
        let window = Window { from: 0, to: 900 };
        let piece = Piece {
            question: Question::Usage(Resource::Cpu),
            namespaces: vec!["a".to_owned(), "b".to_owned()],
            window,
        };
        let [first, second] = piece.halves(300).unwrap();
        assert_eq!((first.namespaces, second.namespaces.clone()), (vec!["a".to_owned()], vec!["b".to_owned()]));
        let [early, late] = second.halves(300).unwrap();
        assert_eq!((early.window, late.window), (Window { from: 0, to: 300 }, Window { from: 300, to: 900 }));
        assert!(early.halves(300).is_none());
        assert_eq!(early.told(), "cpu usage of namespace b, 1970-01-01T00:00:00Z to 1970-01-01T00:05:00Z");
    }
}
