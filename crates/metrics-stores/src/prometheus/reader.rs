//! Reads a window of a store whose names are known, by pod and at most a day at a time: `usage` and `kills`; `by_pod` has what
//! else commands ask that keep usage by workload, and `by_image` adds images for the collector.

mod by_pod;
mod kills;
mod usage;

mod by_image;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headroom_usage::DAY;
use headroom_usage::sample::{Resource, Window};

pub use by_pod::{OwnersAndKills, Throttling};
pub use kills::Killed;
pub use usage::{Digest, Lives};

use super::PrometheusOptions;
use super::absence::Absence;
use super::answer::AnswerSeries;
pub use super::answer::ContainerRef;
use super::api::{Api, EachRow};
use super::names::Names;
use super::probe::{Probe, probe};
pub use super::query::{PodSelection, UsageGroup};
use super::query::{PromQl, Queries};
use super::selector::{Match, Matchers};
use crate::SourceError;
use crate::cluster_id::ClusterId;
use crate::http::Http;

/// The step of the query that lists namespaces.
const LISTING_SECONDS: u32 = 300;
/// The most pods or workloads that one question names.
const MAX_NAMED: usize = 50;

/// A store whose names are known.
#[derive(Clone)]
pub struct StoreReader {
    pub api: Api,
    pub names: Names,
    pub matchers: Matchers,
    pub step_seconds: u32,
    cpu_step_seconds: Option<u32>,
    /// True once the store did not understand a question for percentiles.
    lacks_percentiles: Arc<AtomicBool>,
    /// Only containers whose image's name contains this.
    image: Option<String>,
    /// Selects the pods whose usage is read.
    pods: Matchers,
    /// As far as the store knows it.
    pub cluster: ClusterId,
    /// The store's clock when it was asked what it calls things.
    pub probed_at: i64,
    /// The last moment with usage, if an outage of the store, or of what fills it, lasts.
    pub outage_since: Option<i64>,
}

impl StoreReader {
    /// Detects the names of a store. Fails if it has neither CPU nor memory of any container. In an outage that began within a
    /// day, or before a moment that was chosen, the store is read as of its begin.
    pub async fn connect(http: Http, options: PrometheusOptions) -> Result<Arc<Self>, SourceError> {
        let api = Api::new(http, &options);
        let probed = probe(&api, &options).await?;
        let at = match probed.absence {
            Some(Absence::Ended { at, .. }) if options.as_of.is_some() || probed.now - at < DAY => at,
            _ => return Ok(Arc::new(Self::new(api, &probed, &options)?)),
        };
        let api = Api { as_of: Some(at), ..api };
        let reader = Self::new(api.clone(), &probe(&api, &options).await?, &options)?;
        Ok(Arc::new(Self { outage_since: Some(at), ..reader }))
    }

    /// Fails if there is nothing to read.
    pub(super) fn new(api: Api, probed: &Probe, options: &PrometheusOptions) -> Result<Self, SourceError> {
        let (names, mut matchers) = (probed.names()?, options.matchers.clone());
        if let (Some(image), None, Some(label)) = (&options.image, &names.state, &names.usage_image) {
            matchers = matchers.and(label, Match::Contains(image));
        }
        Ok(Self {
            api,
            names,
            matchers,
            step_seconds: options.step_seconds.max(1),
            cpu_step_seconds: options.cpu_step_seconds,
            lacks_percentiles: Arc::default(),
            image: options.image.clone(),
            pods: Matchers::default(),
            cluster: probed.clusters.id(),
            probed_at: probed.now,
            outage_since: None,
        })
    }

    /// The step at which usage is read by pod.
    pub fn step_of(&self, resource: Resource) -> u32 {
        self.cpu_step_seconds.filter(|_| resource == Resource::Cpu).unwrap_or(self.step_seconds)
    }

    /// Builds the questions about usage by pod.
    fn queries_of(&self, resource: Resource) -> Queries<'_> {
        let is_average_of_minute = resource == Resource::Cpu && self.cpu_step_seconds.is_some();
        let step_seconds = if is_average_of_minute { self.step_of(resource).min(60) } else { self.step_seconds };
        Queries { step_seconds, leaves_border: is_average_of_minute, ..self.queries() }
    }

    pub fn queries(&self) -> Queries<'_> {
        Queries {
            names: &self.names,
            matchers: &self.matchers,
            image: self.image.as_deref(),
            pods: &self.pods,
            step_seconds: self.step_seconds,
            leaves_border: false,
        }
    }

    /// Lists namespaces by the series themselves, every five minutes of the window: the API that lists a label's values is not
    /// to be had everywhere, and knows no clock. All namespaces at once may be too much, so that is halved here.
    pub async fn namespaces(&self, window: Window) -> Result<Vec<String>, SourceError> {
        let (mut found, mut unasked) = (BTreeSet::new(), vec![window]);
        let Some((question, label)) = self.queries().namespaces(LISTING_SECONDS) else { return Ok(Vec::new()) };
        let step = i64::from(LISTING_SECONDS);
        let mut add = |row: AnswerSeries| _ = found.insert(row.label(label).to_owned());
        while let Some(span) = unasked.pop() {
            // Each step looks back, so all are one later than what they look at.
            let steps = (span.seconds() + step - 1).div_euclid(step);
            let later = Window { from: span.from + step, to: span.from + step * (steps + 1) };
            match (self.api.range(&question, later, LISTING_SECONDS, &mut add).await, span.halves(step)) {
                (Err(SourceError::Overloaded(_)), Some(halves)) => unasked.extend(halves.into_iter().rev()),
                (asked, _) => asked?,
            }
        }
        Ok(found.into_iter().collect())
    }

    /// So many seconds in whole steps, at least one.
    fn steps_in(&self, seconds: i64) -> i64 {
        let step = i64::from(self.step_seconds);
        seconds.div_euclid(step).max(1) * step
    }

    fn container(&self, row: &AnswerSeries) -> ContainerRef {
        ContainerRef::of(row, &self.names.usage)
    }

    /// Asks about each day before the end of a window, newest last, and hands over each number with the end of its day,
    /// in Unix seconds.
    async fn daily(
        &self,
        question: &PromQl,
        window: Window,
        each: &mut (dyn FnMut(ContainerRef, i64, f64) + Send),
    ) -> Result<(), SourceError> {
        // A window is asked last one step before its end, so each day is asked one step before its own.
        let step = i64::from(self.step_seconds);
        let days = (window.seconds() + DAY - 1).div_euclid(DAY).max(1);
        let ends = Window { from: window.to - (days - 1) * DAY - step, to: window.to + DAY - step };
        let day = u32::try_from(DAY).unwrap_or(u32::MAX);
        self.api
            .range(question, ends, day, &mut |row| {
                let container = self.container(&row);
                row.points().iter().for_each(|(time, number)| each(container.clone(), time + step, *number));
            })
            .await
    }

    async fn range(&self, question: &PromQl, window: Window, each: &mut EachRow<'_>) -> Result<(), SourceError> {
        self.api.range(question, window, self.step_seconds, each).await
    }
}

/// Ignores that an optional query was too much for the store.
fn unless_too_much(asked: Result<(), SourceError>) -> Result<(), SourceError> {
    match asked {
        Err(SourceError::Overloaded(reason)) => {
            tracing::debug!(reason, "not asked about the time before");
            Ok(())
        }
        asked => asked,
    }
}
