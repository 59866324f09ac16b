//! Knowledge of a metrics store about running pods: throttling and pressure, and the alerts of their teams.
//!
//! Questions are asked beside the passes, of each namespace one at a time and of the cluster a few: how long an answer takes is
//! the choice of whoever writes an alert's expression, and others do not wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headroom_api_server::parts::{Parts, UNBOUNDED, locked};
use headroom_metrics_stores::SourceError;
use headroom_metrics_stores::prometheus::Prometheus;
use tokio::sync::Semaphore;

use crate::observed::ALERT;
use crate::running::Usage;

/// The longest expression that is asked.
const LONGEST: usize = 1_000;
const TIMEOUT: Duration = Duration::from_secs(10);
/// A question is asked again after the first time, for as long as the second after somebody wanted to know. An answer counts for the
/// third.
const ASKED_AFTER: Duration = Duration::from_secs(15);
const WANTED_FOR: Duration = Duration::from_secs(90);
const OLD: Duration = Duration::from_secs(120);
/// The questions of a namespace that are kept.
const MOST_QUESTIONS: usize = 500;
const MOST_ROWS: usize = 20_000;
const AT_ONCE: usize = 4;

#[derive(Clone)]
pub struct Signals {
    store: Arc<Prometheus>,
    parts: Parts,
    at_once: Arc<Semaphore>,
    namespaces: Arc<Mutex<BTreeMap<String, Questions>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Stalled,
    Alert(String),
}

/// The percent of each pod and container; of an alert one row if it has a result.
type Rows = BTreeMap<(String, String), u32>;

#[derive(Default)]
struct Questions {
    known: BTreeMap<Question, Kept>,
    is_asking: bool,
}

struct Kept {
    wanted_at: Instant,
    answer: Option<(Instant, Option<Rows>)>,
}

impl Signals {
    pub fn new(store: Prometheus, parts: &Parts) -> Self {
        let (store, at_once) = (Arc::new(store), Arc::new(Semaphore::new(AT_ONCE)));
        Self { store, parts: parts.clone(), at_once, namespaces: Arc::default() }
    }

    /// Adds the time that containers wait for CPU or are throttled. Returns false if the expression of the team has a result, none
    /// if nobody knows; and true until everything was asked once. Must be called in a runtime.
    pub fn look(&self, namespace: &str, alert: Option<&str>, usage: &mut Usage) -> (Option<bool>, bool) {
        let stalled = self.answer(namespace, Question::Stalled);
        for (place, percent) in stalled.iter().flatten().flatten() {
            usage.entry(place.clone()).and_modify(|used| used.stalled_percent = Some(*percent));
        }
        if alert.is_some_and(|alert| alert.len() > LONGEST) {
            tracing::debug!(namespace, "the annotation {ALERT} is longer than {LONGEST} bytes, and ignored");
        }
        let alert = alert.filter(|alert| alert.len() <= LONGEST);
        let alert = alert.map(|alert| self.answer(namespace, Question::Alert(alert.to_owned())));
        let is_met = alert.iter().flatten().flatten().next().map(Rows::is_empty);
        (is_met, stalled.is_none() || alert.is_some_and(|alert| alert.is_none()))
    }

    /// The last answer, which is none inside where the store gives none; none while it is waited for.
    fn answer(&self, namespace: &str, question: Question) -> Option<Option<Rows>> {
        let mut namespaces = locked(&self.namespaces);
        let of = namespaces.entry(namespace.to_owned()).or_default();
        if of.known.len() >= MOST_QUESTIONS && !of.known.contains_key(&question) {
            return Some(None);
        }
        let kept = of.known.entry(question).or_insert_with(|| Kept { wanted_at: Instant::now(), answer: None });
        kept.wanted_at = Instant::now();
        let answer = kept.answer.as_ref().filter(|(at, _)| at.elapsed() < OLD).map(|(_, rows)| rows.clone());
        if !std::mem::replace(&mut of.is_asking, true) {
            // How long it waits for its turn is the choice of tenants.
            self.parts.finish("questions of a namespace", UNBOUNDED, self.clone().ask_all(namespace.to_owned()));
        }
        answer
    }

    /// Asks the questions of a namespace, one after the other, for as long as anybody wants to know.
    async fn ask_all(self, namespace: String) {
        while let Some(next) = self.next(&namespace) {
            let Some(question) = next else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let turn = self.at_once.acquire().await;
            let asked = tokio::time::timeout(TIMEOUT, ask(&self.store, &namespace, &question)).await;
            drop(turn);
            let asked = asked.unwrap_or_else(|_| Err(SourceError::Temporary("it takes too long".to_owned())));
            let rows = asked.inspect_err(|error| {
                tracing::info!(namespace, ?question, %error, "the metrics store does not answer");
            });
            if let Some(kept) = locked(&self.namespaces).get_mut(&namespace).and_then(|of| of.known.get_mut(&question))
            {
                kept.answer = Some((Instant::now(), rows.ok()));
            }
        }
    }

    /// The next question, if one is due; none if nobody wants to know any more.
    fn next(&self, namespace: &str) -> Option<Option<Question>> {
        let mut namespaces = locked(&self.namespaces);
        let known = &mut namespaces.get_mut(namespace)?.known;
        known.retain(|_, kept| kept.wanted_at.elapsed() < WANTED_FOR);
        let answered_at = |kept: &Kept| kept.answer.as_ref().map(|(at, _)| *at);
        let Some((question, oldest)) = known.iter().min_by_key(|(_, kept)| answered_at(kept)) else {
            namespaces.remove(namespace);
            return None;
        };
        let is_due = answered_at(oldest).is_none_or(|at| at.elapsed() >= ASKED_AFTER);
        Some(is_due.then(|| question.clone()))
    }
}

async fn ask(store: &Prometheus, namespace: &str, question: &Question) -> Result<Rows, SourceError> {
    let mut rows = Rows::new();
    let Question::Alert(alert) = question else {
        let of = |metric: &str| format!("rate(container_{metric}{{namespace={namespace:?},container!=\"\"}}[5m])");
        let question = format!(
            "100 * max by (pod, container) ({} or {} / {})",
            of("pressure_cpu_waiting_seconds_total"),
            of("cpu_cfs_throttled_periods_total"),
            of("cpu_cfs_periods_total")
        );
        store
            .api
            .first_rows(&question, MOST_ROWS, &mut |row| {
                let place = (row.label("pod").to_owned(), row.label("container").to_owned());
                rows.extend(row.value().map(|value| (place, value.clamp(0.0, 100.0).round() as u32)));
            })
            .await?;
        return Ok(rows);
    };
    // One number: the series that an expression finds are nobody's business here. The line ends a comment.
    let one = format!("count({alert}\n)");
    store.api.first_rows(&one, 1, &mut |_| _ = rows.insert(Default::default(), 1)).await?;
    Ok(rows)
}
