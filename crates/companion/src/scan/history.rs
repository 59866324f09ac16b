//! What containers used, read from a metrics store into memory and kept by workload and container, however often the
//! pods have changed since.
//!
//! The reading is cut into pieces of about the same size, newest first, and several are read at a time. A piece counts
//! as a whole or not at all; one that cannot be read is named, and what else was read stays. Whoever interrupts the
//! reading has what was read until then.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headroom_core::cluster::usage::{self, Window as Span};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::owners::{Key, Owners, stems};
use crate::history::observed::{Kill, Observed};
use crate::history::{DAY, day_of, distinct};
use crate::profile::open::OpenHistory;
use crate::progress::Progress;
use crate::source::prometheus::survey::{Survey, Throttling};
use crate::source::{Batch, Resource, Source, SourceError, Window};

/// About so many samples are read in one piece: a second of work, and some ten megabytes on the way.
const SAMPLES_IN_PIECE: i64 = 400_000;
/// The names of so many namespaces fit into one question.
const MOST_NAMESPACES: usize = 40;
/// How long to wait before a piece is tried again.
const PATIENCE: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(9)];

/// Which workload a pod belongs to, by its number.
#[derive(Debug, Default)]
pub struct Places {
    pub owners: Owners,
    pub numbers: HashMap<Key, usize>,
}

impl Places {
    /// None if the workload is gone.
    pub fn of_pod(&self, namespace: &str, pod: &str) -> Option<usize> {
        if let Some(key) = self.owners.of_pod(namespace, pod) {
            return self.numbers.get(&key).copied();
        }
        let itself = Key::new(namespace, "Pod", pod);
        let made = stems(pod).into_iter().map(|(kind, name)| Key::new(namespace, kind, name));
        [itself].into_iter().chain(made).find_map(|key| self.numbers.get(&key).copied())
    }
}

/// What is known of one container of a workload.
#[derive(Debug, Default)]
pub struct Kept {
    pub usage: OpenHistory,
    pub throttling: Throttling,
    pub kills: u64,
}

impl Kept {
    /// The days of the whole reading, whatever their number.
    pub fn sketch(&self, resource: usage::Resource) -> &crate::history::sketch::Sketch {
        self.usage.sketch(Span::MONTH, resource)
    }
}

/// What was read, by the number of the workload and the name of the container.
#[derive(Debug, Default)]
pub struct Histories {
    kept: HashMap<(usize, String), Kept>,
}

impl Histories {
    pub fn get(&self, workload: usize, container: &str) -> Option<&Kept> {
        // A map of pairs cannot be asked with a borrowed half.
        self.kept.get(&(workload, container.to_owned()))
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Adds what was observed on one day.
    pub fn observe(&mut self, workload: usize, container: &str, age: u32, observed: &Observed) {
        let kept = self.kept.entry((workload, container.to_owned())).or_default();
        kept.kills += observed.kills().len() as u64;
        kept.usage.add_observed(age, observed);
    }

    fn add(&mut self, part: Part, today: u32) {
        for ((workload, container), days) in part.usage {
            for (day, observed) in days {
                self.observe(workload, &container, today.saturating_sub(day), &observed);
            }
        }
        for (place, counted) in part.throttling {
            let throttling = &mut self.kept.entry(place).or_default().throttling;
            throttling.periods += counted.periods;
            throttling.throttled += counted.throttled;
        }
    }
}

/// What came of one piece.
#[derive(Debug, Default)]
struct Part {
    usage: HashMap<(usize, String), BTreeMap<u32, Observed>>,
    throttling: HashMap<(usize, String), Throttling>,
    /// Pods whose workload is gone.
    strangers: distinct::Distinct,
}

impl Part {
    fn day(&mut self, workload: usize, container: &str, day: u32) -> &mut Observed {
        self.usage.entry((workload, container.to_owned())).or_default().entry(day).or_default()
    }
}

/// What came of a reading.
#[derive(Debug, Default)]
pub struct Reading {
    pub histories: Histories,
    /// What could not be read, and why.
    pub problems: Vec<String>,
    /// How many pods used something whose workload is gone.
    pub strangers: u64,
    pub is_interrupted: bool,
}

/// What is read in one go.
#[derive(Debug, Clone)]
struct Piece {
    question: Question,
    namespaces: Vec<String>,
    window: Window,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Usage(Resource),
    Throttling,
    Kills,
}

impl Piece {
    /// In two, if there is anything to cut.
    fn halves(&self, step: i64) -> Option<[Self; 2]> {
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

    fn told(&self) -> String {
        let what = match self.question {
            Question::Usage(Resource::Cpu) => "cpu usage",
            Question::Usage(Resource::Memory) => "memory usage",
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

/// Adds to the owners who made the pods that are gone by now. A problem is one line.
pub async fn makers(survey: &Survey, namespaces: &[String], window: Window, owners: &mut Owners) -> Vec<String> {
    let mut problems = Vec::new();
    for namespaces in namespaces.chunks(MOST_NAMESPACES) {
        match survey.makers(namespaces, window).await {
            Ok(all) => all.into_iter().for_each(|made| {
                let (kind, name) = made.object;
                owners.add(Key::new(&made.namespace, kind, &name), &made.owner.0, &made.owner.1);
            }),
            Err(error) => problems.push(format!(
                "who made the pods that are gone is not known, so they are told apart by their names: {error}"
            )),
        }
    }
    problems.truncate(1);
    problems
}

/// Reads a window of these namespaces.
pub async fn read(
    survey: &Survey,
    namespaces: &[String],
    window: Window,
    places: Places,
    parallel: usize,
    progress: &Progress,
    stop: &CancellationToken,
) -> Reading {
    let mut reading = Reading::default();
    let mut pieces = tokio::select! {
        pieces = plan(survey, namespaces, window, &mut reading.problems) => pieces,
        () = stop.cancelled() => VecDeque::new(),
    };
    progress.begin(pieces.len() as u64, "Reading usage");
    let (places, today) = (Arc::new(places), day_of(window.to - 1));
    let mut strangers = distinct::Distinct::default();
    let mut running: JoinSet<(Piece, Result<Part, SourceError>)> = JoinSet::new();
    loop {
        while running.len() < parallel.max(1)
            && let Some(piece) = pieces.pop_front()
        {
            running.spawn(read_patiently(survey.clone(), Arc::clone(&places), piece));
        }
        let next = tokio::select! {
            next = running.join_next() => next,
            () = stop.cancelled() => break,
        };
        // A task that panicked has nothing to tell; there are none.
        let Some(Ok((piece, read))) = next else { break };
        match (read, piece.halves(survey.step_seconds().into())) {
            (Ok(part), _) => {
                strangers.merge(&part.strangers);
                reading.histories.add(part, today);
                progress.advance(1);
            }
            (Err(SourceError::Overloaded(_)), Some(halves)) => {
                progress.lengthen(1);
                halves.into_iter().rev().for_each(|half| pieces.push_front(half));
            }
            (Err(error), _) => {
                reading.problems.push(format!("not read: {}: {error}", piece.told()));
                progress.advance(1);
            }
        }
    }
    progress.end();
    reading.is_interrupted = stop.is_cancelled();
    reading.strangers = strangers.count();
    reading
}

/// Pieces that are about equally large, newest first, so that an interrupted reading has the latest days of all.
async fn plan(survey: &Survey, namespaces: &[String], window: Window, problems: &mut Vec<String>) -> VecDeque<Piece> {
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
            for resource in [Resource::Memory, Resource::Cpu].into_iter().filter(|resource| survey.knows(*resource)) {
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

async fn read_patiently(survey: Survey, places: Arc<Places>, piece: Piece) -> (Piece, Result<Part, SourceError>) {
    let mut waits = PATIENCE.into_iter();
    loop {
        let read = read_piece(&survey, &places, &piece).await;
        match (&read, waits.next()) {
            (Err(SourceError::Temporary(reason)), Some(wait)) => {
                tracing::debug!(reason, "trying again");
                tokio::time::sleep(wait).await;
            }
            _ => return (piece, read),
        }
    }
}

async fn read_piece(survey: &Survey, places: &Places, piece: &Piece) -> Result<Part, SourceError> {
    let (mut part, window) = (Part::default(), piece.window);
    let step = u64::from(survey.step_seconds());
    match piece.question {
        Question::Usage(resource) => {
            survey
                .usage(&piece.namespaces, resource, window, &mut |place, samples| {
                    let hash = distinct::hash(&place.namespace, &place.pod);
                    let Some(workload) = places.of_pod(&place.namespace, &place.pod) else {
                        return part.strangers.add(hash);
                    };
                    // A day at a time, so that the day is looked for once.
                    let mut samples = samples.filter(|sample| window.contains(sample.time)).peekable();
                    while let Some(first) = samples.peek() {
                        let day = day_of(first.time);
                        let observed = part.day(workload, &place.container, day);
                        observed.pods.add(hash);
                        while let Some(sample) = samples.next_if(|sample| day_of(sample.time) == day) {
                            observed.add(resource, sample.time, sample.value, step);
                        }
                    }
                })
                .await?;
        }
        Question::Throttling => {
            for (place, counted) in survey.throttling(&piece.namespaces, window).await? {
                if let Some(workload) = places.of_pod(&place.namespace, &place.pod) {
                    let sum = part.throttling.entry((workload, place.container)).or_default();
                    sum.periods += counted.periods;
                    sum.throttled += counted.throttled;
                }
            }
        }
        Question::Kills => {
            for namespace in &piece.namespaces {
                for (place, kill) in survey.kills(namespace, window).await? {
                    if let Some(workload) = places.of_pod(&place.namespace, &place.pod) {
                        let of = distinct::hash(&place.pod, &place.container);
                        let observed = part.day(workload, &place.container, day_of(kill.at));
                        observed.add_kill(Kill { at: kill.at, memory: kill.memory, of });
                    }
                }
            }
        }
    }
    Ok(part)
}

/// One look at a source of the present: the metrics API, where there is no store.
pub async fn look(source: &dyn Source, namespace: Option<&str>, places: &Places) -> Result<Histories, SourceError> {
    let step = i64::from(source.step_seconds());
    let from = source.now().await?.div_euclid(step) * step;
    let window = Window { from, to: from + step };
    let mut part = Part::default();
    let mut take = |batch: Batch| match batch {
        Batch::Usage(all) => all.into_iter().for_each(|series| {
            let place = &series.container;
            let Some(workload) = places.of_pod(&place.namespace, &place.pod) else { return };
            for sample in &series.samples {
                let observed = part.day(workload, &place.name, day_of(sample.time));
                observed.pods.add(distinct::hash(&place.namespace, &place.pod));
                observed.add(series.resource, sample.time, sample.value, series.step_seconds.into());
            }
        }),
        Batch::OomKills(all) => all.into_iter().for_each(|kill| {
            let place = &kill.container;
            if let Some(workload) = places.of_pod(&place.namespace, &place.pod) {
                let of = distinct::hash(&place.pod, &place.name);
                let observed = part.day(workload, &place.name, day_of(kill.at));
                observed.add_kill(Kill { at: kill.at, memory: kill.memory, of });
            }
        }),
        Batch::Distributions(_) => {}
    };
    match namespace {
        Some(namespace) => source.read(namespace, window, &mut take).await?,
        None => {
            if !source.read_all(window, &mut take).await? {
                return Err(SourceError::Permanent(
                    "not allowed to list the metrics of all namespaces: look at one with -n".to_owned(),
                ));
            }
        }
    }
    let mut histories = Histories::default();
    histories.add(part, day_of(from));
    Ok(histories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_found_by_their_owners_or_by_their_names() {
        let mut places = Places::default();
        places.numbers.insert(Key::new("shop", "Deployment", "web"), 0);
        places.numbers.insert(Key::new("shop", "StatefulSet", "db"), 1);
        places.numbers.insert(Key::new("shop", "Pod", "debug-0"), 2);
        places.owners.add(Key::new("shop", "Pod", "odd"), "StatefulSet", "db");
        places.owners.add(Key::new("shop", "Pod", "db-7"), "StatefulSet", "gone");
        for (namespace, pod, expected) in [
            ("shop", "odd", Some(1)),
            ("shop", "db-0", Some(1)),
            ("shop", "db-7", None),
            ("shop", "debug-0", Some(2)),
            ("shop", "web-6d4cf56db6-x7x2k", Some(0)),
            ("pay", "web-6d4cf56db6-x7x2k", None),
            ("shop", "unknown", None),
        ] {
            assert_eq!(places.of_pod(namespace, pod), expected, "{namespace}/{pod}");
        }
    }

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
