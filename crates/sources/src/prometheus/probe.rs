//! Finds out what a store calls things, by counting the series of each candidate name. What is missing is not an
//! error here: `doctor` wants to tell all of it at once.

use crate::SourceError;

use super::api::Api;
use super::clusters::{self, Clusters};
use super::jobs::Jobs;
use super::names::{Cpu, Names, Overrides, Place, State, Usage};
use super::{Options, query};

/// How long ago kube-state-metrics may have been seen last to be taken as there, in seconds. It comes and goes.
const AWAY: [i64; 4] = [900, 3_600, 6 * 3_600, 86_400];
/// For so long usage whose image is not known waits for kube-state-metrics to come back.
const WAIT_SECONDS: i64 = 6 * 3_600;

/// What a store has.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    pub wanted: Overrides,
    store: String,
    pub cpu: Counted<Cpu>,
    pub memory: Counted<String>,
    /// None where it is not wanted.
    pub storage: Option<Counted<String>>,
    pub usage: Place,
    pub usage_jobs: Jobs,
    pub usage_image: Counted<String>,
    pub state_jobs: Jobs,
    pub state: Option<Counted<State>>,
    /// How many seconds ago kube-state-metrics was seen.
    pub state_ago: i64,
    now: i64,
    pub clusters: Clusters,
    /// The distance of two samples in the store, if it can be told.
    pub scrape_seconds: Option<u32>,
    metrics_ql: bool,
}

/// A name, and how many containers have series of it.
#[derive(Debug, Clone)]
pub(super) struct Counted<T> {
    pub name: T,
    pub containers: f64,
}

impl<T> Counted<T> {
    fn found(&self) -> Option<&T> {
        (self.containers > 0.0).then_some(&self.name)
    }
}

/// Asks the store for each name in turn until one has series.
pub(super) async fn probe(api: &Api, options: &Options) -> Result<Probe, SourceError> {
    let (wanted, matchers) = (&options.names, options.matchers.as_str());
    let count = async |metric: &str, place: &Place, image: Option<&str>, at: Option<i64>| {
        let question = query::count_of_containers(metric, place, image, matchers);
        Ok::<f64, SourceError>(api.number(&question, at).await?.unwrap_or(0.0))
    };

    let mut memory = Counted { name: wanted.memory(), containers: 0.0 };
    let mut cpu = Counted { name: wanted.cpu(), containers: 0.0 };
    let mut storage = None;
    let mut usage = None;
    'names: for Usage { cpu: cpu_name, memory: memory_name, storage: storage_name, places } in
        wanted.usages(api.is_google)
    {
        for place in places {
            let counted =
                (count(&memory_name, &place, None, None).await?, count(&cpu_name.metric, &place, None, None).await?);
            let is_found = counted.0 + counted.1 > 0.0;
            if is_found && options.ephemeral_storage {
                let containers = count(&storage_name, &place, None, None).await?;
                storage = Some(Counted { name: storage_name.clone(), containers });
            }
            if usage.is_none() || is_found {
                usage = Some(place);
            }
            if is_found {
                memory = Counted { name: memory_name, containers: counted.0 };
                cpu = Counted { name: cpu_name, containers: counted.1 };
                break 'names;
            }
        }
    }
    let usage = usage.ok_or_else(|| SourceError::Permanent("no label names to try".to_owned()))?;
    let metric = if memory.containers > 0.0 { &memory.name } else { &cpu.name.metric };

    let usage_jobs = Jobs::of(api, metric, &usage, matchers, None).await?;
    let mut usage_image = Counted { name: String::new(), containers: 0.0 };
    for name in wanted.usage_images() {
        if usage_image.containers == 0.0 {
            usage_image = Counted { containers: count(metric, &usage, Some(&name), None).await?, name };
        }
    }
    let now = api.now().await?;
    let mut state = None;
    let mut state_jobs = Jobs::default();
    let mut state_ago = 0;
    'found: for ago in [0].into_iter().chain(AWAY) {
        let at = (ago > 0).then_some(now - ago);
        if ago > 0 && api.number(&query::count_of_series(&wanted.info(), matchers), at).await?.unwrap_or(0.0) == 0.0 {
            continue;
        }
        for place in wanted.state_places() {
            for image in wanted.state_images() {
                let containers = count(&wanted.info(), &place, Some(&image), at).await?;
                if containers > 0.0 {
                    state_jobs = Jobs::of(api, &wanted.info(), &place, matchers, at).await?;
                    let job = state_jobs.matcher();
                    state = Some(Counted { name: State { info: wanted.info(), place, image, job }, containers });
                    state_ago = ago;
                    break 'found;
                }
            }
        }
    }
    let at = (state_ago > 0).then_some(now - state_ago);
    let clusters = clusters::find(api, state.as_ref().map(|state| (&state.name, at)), metric, &usage, matchers).await?;
    let scrape_seconds = scrape_seconds(api, metric, &usage, matchers).await?;
    let metrics_ql = match api.number(query::METRICS_QL, None).await {
        Ok(time) => time.is_some(),
        Err(SourceError::Temporary(text)) => return Err(SourceError::Temporary(text)),
        Err(_) => false, // whatever status it is refused with
    };
    let store = api.http.name().to_owned();
    let wanted = wanted.clone();
    Ok(Probe {
        wanted,
        store,
        cpu,
        memory,
        storage,
        usage,
        usage_jobs,
        usage_image,
        state_jobs,
        state,
        state_ago,
        now,
        clusters,
        scrape_seconds,
        metrics_ql,
    })
}

impl Probe {
    /// The names to read with; an error if there is nothing to read.
    pub fn names(&self) -> Result<Names, SourceError> {
        let (cpu, memory) = (self.cpu.found().cloned(), self.memory.found().cloned());
        if cpu.is_none() && memory.is_none() {
            return Err(SourceError::Permanent(format!(
                "`{}` has no container in `{}` or `{}` under the labels {}: is cAdvisor (the kubelets) scraped, and are the metrics called so? \
                 names can be set by hand, and `kubectl headroom doctor` tells what was tried",
                self.store,
                self.memory.name,
                self.cpu.name.metric,
                self.wanted.usage_places().iter().map(labels).collect::<Vec<_>>().join(" or ")
            )));
        }
        if let Some(question) = self.clusters.question() {
            return Err(SourceError::Permanent(format!("`{}` {question}", self.store)));
        }
        let is_away = self.state_ago > 0 && self.state_ago <= WAIT_SECONDS;
        Ok(Names {
            cpu,
            memory,
            storage: self.storage.as_ref().and_then(Counted::found).cloned(),
            usage: self.usage.clone(),
            usage_job: self.usage_jobs.matcher(),
            usage_image: self.usage_image.found().cloned(),
            state: self.state.as_ref().map(|state| state.name.clone()),
            state_away_since: is_away.then_some(self.now - self.state_ago),
            scrape_seconds: self.scrape(),
            metrics_ql: self.metrics_ql,
        })
    }

    /// A minute, Prometheus' own default, where the store is too young to tell.
    pub fn scrape(&self) -> u32 {
        self.scrape_seconds.unwrap_or(60)
    }
}

/// The distance of a series' samples, if the store shows them.
async fn scrape_seconds(api: &Api, metric: &str, place: &Place, matchers: &str) -> Result<Option<u32>, SourceError> {
    let steadiest = api.moment(&query::steadiest(metric, place, matchers), None).await?;
    let Some(series) = steadiest.first() else { return Ok(None) };
    match api.moment(&query::stored_samples(metric, series.labels()), None).await {
        Ok(stored) => Ok(stored.first().and_then(|row| usual_distance(row.points()))),
        Err(SourceError::Temporary(text)) => Err(SourceError::Temporary(text)),
        Err(_) => Ok(None), // not every store shows what it stores
    }
}

/// The median, because a scrape may be missing.
fn usual_distance(points: &[(i64, f64)]) -> Option<u32> {
    let mut distances: Vec<i64> =
        points.windows(2).filter_map(|pair| pair.last()?.0.checked_sub(pair.first()?.0)).collect();
    distances.sort_unstable();
    let median = *distances.get(distances.len() / 2)?;
    u32::try_from(median.clamp(1, 600)).ok()
}

pub(super) fn labels(place: &Place) -> String {
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
