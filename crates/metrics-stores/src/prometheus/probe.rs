//! Finds out what a store calls things, by counting the series of each candidate name. What is missing is not an
//! error here: `doctor` reports all of it at once.

use crate::SourceError;
use crate::cluster_id::LABELS;
use crate::diagnosis::median;

use super::PrometheusOptions;
use super::absence::{self, Absence};
use super::answer::AnswerSeries;
use super::api::Api;
use super::clusters::Clusters;
use super::jobs::{self, Jobs};
use super::names::{self, ContainerLabels, Names, Overrides, State, UsageNames};
use super::query::{self, PromQl};
use super::selector::{Match, Matchers};

/// The ages at which kube-state-metrics is searched for, in seconds: it may be away for a while.
const AWAY: [i64; 4] = [900, 3_600, 6 * 3_600, 86_400];
/// The longest wait for kube-state-metrics with usage whose image is unknown.
const WAIT_SECONDS: i64 = 6 * 3_600;

/// The names and jobs that a store has.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    pub wanted: Overrides,
    store: String,
    /// The names of usage that are there, or the likeliest if none are.
    pub usage: UsageNames,
    /// The number of containers with series of each.
    pub memory: f64,
    pub cpu: f64,
    /// None where it is not wanted.
    pub storage: Option<f64>,
    /// The number of containers with an image on their usage series, and in kube-state-metrics.
    pub with_image: f64,
    pub in_state: f64,
    /// Those of all names that are there, which may be too few to read with: see the method.
    pub names: Names,
    pub usage_jobs: Jobs,
    pub state_jobs: Jobs,
    /// The seconds since kube-state-metrics was seen.
    pub state_ago: i64,
    pub now: i64,
    pub clusters: Clusters,
    pub absence: Option<Absence>,
    pub scrape_seconds: Option<u32>,
}

/// Asks in three queries: what the store has of each candidate name, then what depends on the names, then how far apart samples
/// are. More are needed only where kube-state-metrics is away.
pub(super) async fn probe(api: &Api, options: &PrometheusOptions) -> Result<Probe, SourceError> {
    let (wanted, matchers) = (&options.names, &options.matchers);
    let by = jobs::labels(matchers);
    let usages = wanted.usages(api.is_google);
    let states = wanted.states();
    let of_states = || -> Vec<PromQl> {
        let count = |of: &State| query::count_of_containers_by(by, &of.info, &of.place, Some(&of.image), matchers);
        states.iter().map(count).collect()
    };
    let of_usages = |matchers: &Matchers| -> Vec<PromQl> {
        let metrics = |usage: &UsageNames| {
            let metrics = [&usage.memory, &usage.cpu.metric].into_iter();
            let metrics = metrics.chain(options.ephemeral_storage.then_some(&usage.storage));
            let count = |metric: &String| query::count_of_containers_by(by, metric, &usage.place, None, matchers);
            metrics.map(count).collect::<Vec<_>>()
        };
        usages.iter().flat_map(metrics).collect()
    };
    let mut questions = vec![query::now(), query::is_metrics_ql()];
    questions.extend(of_usages(matchers));
    questions.extend(of_states());
    let mut rows = api.moments(&questions, None).await?.into_iter();
    let mut next = || rows.next().unwrap_or_default();
    let now = number(&next()).map(|time| time.floor() as i64);
    let now = now.ok_or_else(|| SourceError::Permanent(format!("`{}` does not report its time", api.http.name())))?;
    let metrics_ql = number(&next()).is_some();
    let mut found = Vec::new();
    for usage in usages.clone() {
        let read = [&usage.memory, &usage.cpu.metric].map(|metric| (metric.clone(), next()));
        found.push((usage, read, options.ephemeral_storage.then(&mut next)));
    }
    let with_jobs = found.iter().flat_map(|(_, read, _)| read).filter(|(metric, _)| names::has_job(metric));
    let usage_jobs = Jobs::among(names::MEMORY, with_jobs.flat_map(|(_, rows)| rows), matchers);
    let jobs_of = |metric: &str| if names::has_job(metric) { usage_jobs.clone() } else { Jobs::default() };
    let is_there = |(metric, rows): &(String, Vec<AnswerSeries>)| jobs_of(metric).containers(rows) > 0.0;
    // The first says how they are usually called, where there are none.
    let chosen = found.iter().position(|(_, read, _)| read.iter().any(is_there)).unwrap_or(0);
    let Some((usage, read, of_storage)) = found.into_iter().nth(chosen) else {
        return Err(SourceError::Permanent("no label names to try".to_owned()));
    };
    let [memory, cpu] = read.map(|(metric, rows)| jobs_of(&metric).containers(&rows));
    let storage = of_storage.map(|rows| jobs_of(&usage.storage).containers(&rows));
    let storage = storage.filter(|_| memory + cpu > 0.0);
    let place = &usage.place;
    let metric = if memory > 0.0 { &usage.memory } else { &usage.cpu.metric };
    // All else is asked about this job alone, since anybody may expose series in another.
    let of_job = &matchers.clone().and_all(&jobs_of(metric).matchers());
    let absence = match (cpu > 0.0, memory > 0.0) {
        (_, true) => None,
        (true, false) => {
            let question = query::count_of_containers(absence::USAGE_BYTES, place, None, of_job);
            api.number(&question, None).await?.map(Absence::PageCache)
        }
        (false, false) => Some(Absence::find(api, options, now, of_usages).await?),
    };
    let state_in = |rows: &[Vec<AnswerSeries>]| {
        let jobs = Jobs::among(names::INFO, rows.iter().flatten(), matchers);
        let mut counted = states.iter().zip(rows.iter().map(|rows| jobs.containers(rows)));
        let (state, containers) = counted.find(|(_, containers)| *containers > 0.0)?;
        let state = State { job: jobs.matchers(), ..state.clone() };
        Some((state, containers, jobs))
    };
    let (mut found, mut state_ago) = (state_in(&rows.collect::<Vec<_>>()), 0);
    for ago in AWAY {
        if found.is_some() {
            break;
        }
        found = state_in(&api.moments(&of_states(), Some(now - ago)).await?);
        state_ago = found.as_ref().map_or(0, |_| ago);
    }
    let (state, in_state, state_jobs) =
        found.map_or_else(Default::default, |(state, containers, jobs)| (Some(state), containers, jobs));

    let images = wanted.usage_images();
    let mut questions = vec![
        query::steadiest(metric, place, of_job),
        query::count_by(&LABELS, metric, place, of_job),
        query::lasting_twins(&jobs::LABELS, metric, place, of_job),
        query::count_of_swapped(place, of_job),
    ];
    let with_image = |image: &String| query::count_of_containers(metric, place, Some(image), of_job);
    questions.extend(images.iter().map(with_image));
    let mut of_state: Vec<PromQl> = state.iter().map(|state| query::created(state, matchers)).collect();
    // Queries about kube-state-metrics are about the last time that it was seen.
    let at = (state_ago > 0).then_some(now - state_ago);
    if at.is_none() {
        questions.append(&mut of_state);
    }
    let mut rows = api.moments(&questions, None).await?;
    if at.is_some() {
        rows.extend(api.moments(&of_state, at).await?);
    }
    let mut rows = rows.into_iter();
    let mut next = || rows.next().unwrap_or_default();
    let steadiest = next();
    let by_label = next();
    let twins = next();
    let swapped = number(&next());
    // A recording rule is taken as it is.
    let swaps = metric == names::MEMORY && swapped.is_some();
    let counted = images.into_iter().map(|name| (name, number(&next()).unwrap_or_default()));
    // All answers are taken, also after the first that is there: those of kube-state-metrics follow.
    let usage_image = counted.collect::<Vec<_>>().into_iter().find(|(_, containers)| *containers > 0.0);
    let (usage_image, with_image) = usage_image.unzip();
    let mut clusters = Clusters::among(&next(), &by_label);
    if let Some(twin) = twins.iter().find(|row| jobs_of(metric).counts(row)) {
        let labels = [&place.namespace, &place.pod, &place.container]
            .map(|label| (label.as_str(), Match::Is(twin.label(label))));
        clusters.take_twins(&api.moment(&query::lasting_series(metric, &labels, of_job), None).await?, matchers);
    }
    let scrape_seconds = scrape_seconds(api, metric, &steadiest).await?;
    let is_away = state_ago > 0 && state_ago <= WAIT_SECONDS;
    let names = Names {
        cpu: (cpu > 0.0).then(|| usage.cpu.clone()),
        memory: (memory > 0.0).then(|| usage.memory.clone()),
        storage: storage.filter(|containers| *containers > 0.0).map(|_| usage.storage.clone()),
        usage: place.clone(),
        usage_job: usage_jobs.matchers(),
        usage_image,
        state,
        state_away_since: is_away.then_some(now - state_ago),
        // A minute, Prometheus' default, if the store is too young to know it.
        scrape_seconds: scrape_seconds.unwrap_or(60),
        metrics_ql,
        swaps,
    };
    Ok(Probe {
        wanted: wanted.clone(),
        store: api.http.name().to_owned(),
        usage,
        memory,
        cpu,
        storage,
        with_image: with_image.unwrap_or_default(),
        in_state,
        names,
        usage_jobs,
        state_jobs,
        state_ago,
        now,
        clusters,
        absence,
        scrape_seconds,
    })
}

fn number(rows: &[AnswerSeries]) -> Option<f64> {
    rows.first().and_then(AnswerSeries::value)
}

impl Probe {
    /// The names to read with; an error if there is nothing to read.
    pub fn names(&self) -> Result<Names, SourceError> {
        if self.names.cpu.is_none() && self.names.memory.is_none() {
            let reason = match &self.absence {
                Some(absence @ (Absence::Ended { .. } | Absence::Matchers(_))) => {
                    format!("`{}`: {absence}", self.store)
                }
                absence => format!(
                    "`{}` has no container in `{}` or `{}` under the labels {}: {}",
                    self.store,
                    self.usage.memory,
                    self.usage.cpu.metric,
                    self.wanted.usage_places().iter().map(labels).collect::<Vec<_>>().join(" or "),
                    absence.as_ref().unwrap_or(&Absence::Unknown)
                ),
            };
            return Err(SourceError::Permanent(reason));
        }
        if let Some(question) = self.clusters.question() {
            return Err(SourceError::Permanent(format!("`{}` {question}", self.store)));
        }
        Ok(self.names.clone())
    }
}

/// The distance of the samples of the series that was there longest, if the store shows them.
async fn scrape_seconds(api: &Api, metric: &str, steadiest: &[AnswerSeries]) -> Result<Option<u32>, SourceError> {
    let Some(series) = steadiest.first() else { return Ok(None) };
    match api.moment(&query::stored_samples(metric, &series.labels_of_series()), None).await {
        Ok(stored) => Ok(stored.first().and_then(|row| usual_distance(row.points()))),
        Err(SourceError::Temporary(text)) => Err(SourceError::Temporary(text)),
        Err(_) => Ok(None), // not every store shows what it stores
    }
}

fn usual_distance(points: &[(i64, f64)]) -> Option<u32> {
    let distances = points.windows(2).filter_map(|pair| pair.last()?.0.checked_sub(pair.first()?.0));
    u32::try_from(median(distances.collect())?.clamp(1, 600)).ok()
}

pub(super) fn labels(place: &ContainerLabels) -> String {
    format!("`{}`, `{}`, `{}`", place.namespace, place.pod, place.container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_scrape_does_not_change_the_distance() {
        let check = |times: &[i64], expected| {
            let points: Vec<_> = times.iter().map(|&time| (time, 0.0)).collect();
            assert_eq!(usual_distance(&points), expected, "{times:?}");
        };
        check(&[0, 15, 30, 60, 75, 90], Some(15));
        check(&[0, 31, 60], Some(31));
        check(&[0], None);
        check(&[], None);
    }
}
