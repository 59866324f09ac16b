//! InfluxDB 1 with the data of Heapster. Versions 2 and 3 are not read: no server of them can be tested with.
//!
//! `query` builds the queries and `answer` reads the answers, both pure; `InfluxDb::ask` sends. Heapster writes the image of each
//! container with its usage.

mod answer;
mod query;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use headroom_usage::batch::Impossible;
use headroom_usage::sample::{Batch, Resource, SampledContainer, Series, Window};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use self::answer::Point;
use self::query::{CONTAINER, IMAGE, LIST_MEASUREMENTS, NAMESPACE, POD, Questions, Schema};
use super::http::{Endpoint, Http};
use super::{Sink, Source, SourceError, cluster_id, warn_of_unknown};
use crate::diagnosis::{self, SourceFinding, duration};
use crate::json_splitter::{self, Split, Splitter};

/// Points in one portion of an answer: what is in memory at a time.
const PORTION: &str = "10000";
/// Heapster's default.
pub const DATABASE: &str = "k8s";

const RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

#[derive(Clone)]
pub struct InfluxdbOptions {
    pub endpoint: Endpoint,
    /// Heapster's default unless given.
    pub database: String,
    /// Put into every question, such as `cluster = 'prod'`, which is needed where several clusters share a database.
    pub condition: String,
    pub step_seconds: u32,
}

impl InfluxdbOptions {
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, database: DATABASE.to_owned(), condition: String::new(), step_seconds: 60 }
    }
}

/// An InfluxDB. Whose schema it has is found out when it is first read.
pub struct InfluxDb {
    http: Http,
    options: InfluxdbOptions,
    schema: OnceCell<Schema>,
}

const NAME_IT: &str = "name the database after the URL, as in `http://influxdb:8086?db=NAME`";

impl InfluxDb {
    /// Sends nothing yet.
    pub fn new(options: &InfluxdbOptions) -> Result<Self, SourceError> {
        Ok(Self { http: Http::new(&options.endpoint)?, options: options.clone(), schema: OnceCell::new() })
    }

    /// Detects the schema. Fails if the database has neither of Heapster's.
    async fn questions(&self) -> Result<Questions<'_>, SourceError> {
        let find = async || {
            let found = self.find_schema().await?;
            let schema = found.map_err(|problem| SourceError::Permanent(format!("{problem}: {NAME_IT}")))?;
            match self.several_clusters(&self.questions_in(schema)).await? {
                None => Ok(schema),
                Some(question) => Err(SourceError::Permanent(question)),
            }
        };
        Ok(self.questions_in(*self.schema.get_or_try_init(find).await?))
    }

    fn questions_in(&self, schema: Schema) -> Questions<'_> {
        Questions { schema, condition: &self.options.condition }
    }

    /// The schema of the database, or a text about what it has instead.
    async fn find_schema(&self) -> Result<Result<Schema, String>, SourceError> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        self.ask::<(String,)>(LIST_MEASUREMENTS, &mut |series| {
            found.extend(series.values.into_iter().map(|(measurement,)| measurement));
        })
        .await?;
        let has = |schema: &Schema| RESOURCES.iter().any(|&resource| found.contains(schema.measurement(resource)));
        Ok(Schema::ALL.into_iter().find(has).ok_or_else(|| {
            let measurements = found.iter().take(cluster_id::MAX_NAMES).map(|name| format!("`{name}`"));
            let measurements = measurements.collect::<Vec<_>>().join(", ");
            // InfluxDB answers the same about a database that is empty and of one that is not there.
            let measurements = if found.is_empty() { "nothing at all" } else { &measurements };
            let database = &self.options.database;
            format!(
                "no measurement of Heapster's (`memory/working_set`, `memory`): database `{database}` has {measurements}"
            )
        }))
    }

    /// The message that asks for a condition, if the database has the usage of several clusters, whose equal names would be taken for
    /// one.
    async fn several_clusters(&self, questions: &Questions<'_>) -> Result<Option<String>, SourceError> {
        let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        self.ask::<(String, String)>(&questions.clusters(), &mut |series| {
            for (tag, value) in series.values {
                values.entry(tag).or_default().insert(value);
            }
        })
        .await?;
        let several = values.into_iter().find(|(_, values)| values.len() > 1);
        Ok(several.map(|(tag, values)| {
            let example = values.first().map_or("", String::as_str);
            let condition = format!("{tag} = {}", query::quoted(example));
            format!(
                "database `{}` has the usage of several clusters (tag `{tag}`: {}): which one is this? Say so with \
                 `matchers: {condition}` in the file of --source",
                self.options.database,
                cluster_id::listed(&values)
            )
        }))
    }

    async fn ask<Row: DeserializeOwned>(
        &self,
        question: &str,
        each: &mut (dyn FnMut(answer::InfluxSeries<Row>) + Send),
    ) -> Result<(), SourceError> {
        let database = self.options.database.as_str();
        let parameters =
            [("q", question), ("db", database), ("epoch", "s"), ("chunked", "true"), ("chunk_size", PORTION)];
        tracing::debug!(question, "asking");
        let mut answer = self.http.get("/query", &parameters).await?;
        if !answer.status.is_success() {
            return Err(answer::refusal(&answer.redactor(), answer.status, &answer.text().await?));
        }
        let mut more = true;
        let (redactor, mut splitter) = (answer.redactor(), Splitter::new(Split::Documents));
        while let Some(bytes) = answer.next().await? {
            splitter.feed(&bytes, &mut |document| {
                let (series, goes_on) = answer::portion(&redactor, document)?;
                series.into_iter().for_each(&mut *each);
                more = goes_on;
                Ok(())
            })?;
        }
        let around = splitter.finish()?;
        if !around.is_empty() {
            return Err(SourceError::Permanent(format!("the answer of `{}` is not InfluxDB's", self.http.name())));
        }
        if more { Err(json_splitter::truncated()) } else { Ok(()) }
    }
}

#[async_trait]
impl Source for InfluxDb {
    async fn now(&self) -> Result<i64, SourceError> {
        self.http.get("/ping", &[]).await?.date()
    }

    async fn namespaces(&self, _window: Window) -> Result<Vec<String>, SourceError> {
        let question = self.questions().await?.namespaces();
        let mut found = BTreeSet::new();
        self.ask::<(String, String)>(&question, &mut |series| {
            found.extend(series.values.into_iter().map(|(_, namespace)| namespace));
        })
        .await?;
        Ok(found.into_iter().collect())
    }

    async fn read(&self, namespaces: &[&str], window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let questions = self.questions().await?;
        for &namespace in namespaces {
            let mut without_image = BTreeSet::new();
            for resource in RESOURCES {
                let question = questions.usage(resource, namespace, window, self.step_seconds());
                self.ask::<Point>(&question, &mut |series| {
                    let [pod, name, image] = [POD, CONTAINER, IMAGE].map(|tag| series.tag(tag).to_owned());
                    if image.is_empty() {
                        without_image.insert((pod, name));
                        return;
                    }
                    let samples = series.samples(query::scale(resource), self.step_seconds());
                    let container = SampledContainer { namespace: namespace.to_owned(), pod, name, image };
                    sink(Batch::Usage(vec![Series { container, resource, samples }]));
                })
                .await?;
            }
            warn_of_unknown(without_image.iter().map(|(pod, name)| (namespace, (&**pod, &**name))));
        }
        Ok(())
    }

    fn step_seconds(&self) -> u32 {
        self.options.step_seconds.max(1)
    }
}

/// The findings of `doctor` about an InfluxDB.
pub async fn diagnose(options: &InfluxdbOptions, our_clock: i64) -> Result<Vec<SourceFinding>, SourceError> {
    let store = InfluxDb::new(options)?;
    let now = store.now().await?;
    let mut findings = vec![diagnosis::clock(our_clock, now)];
    let schema = match store.find_schema().await? {
        Ok(schema) => schema,
        Err(problem) => {
            findings.push(SourceFinding::bad("schema", problem, NAME_IT));
            return Ok(findings);
        }
    };
    let questions = store.questions_in(schema);
    let names = RESOURCES.map(|resource| schema.name(resource)).join(" and ");
    findings.push(SourceFinding::good("schema", format!("Heapster's, {names} in database `{}`", options.database)));

    if let Some(question) = store.several_clusters(&questions).await? {
        findings.push(SourceFinding::bad("cluster", question, "one store of the collector holds one cluster"));
        return Ok(findings);
    }
    let window = Window { from: now - 600, to: now };
    let (mut seen, mut named, mut intervals) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut impossible = Impossible::default();
    store
        .ask::<Point>(&questions.newest(window), &mut |series| {
            let key = [NAMESPACE, POD, CONTAINER].map(|tag| series.tag(tag).to_owned());
            if !series.tag(IMAGE).is_empty() {
                named.insert(key.clone());
            }
            for bytes in series.values.iter().filter_map(|(_, bytes)| *bytes) {
                impossible.check(bytes as u64, Resource::Memory, key.each_ref().map(String::as_str));
            }
            seen.insert(key);
            let distances = series.values.windows(2).filter_map(|pair| pair.last()?.0.checked_sub(pair.first()?.0));
            intervals.extend(distances.filter(|distance| *distance > 0));
        })
        .await?;
    let found = format!("{} of {} containers in the last 10 minutes", named.len(), seen.len());
    let unnamed = seen.difference(&named).next();
    let example = unnamed.map(|[namespace, pod, container]| format!("`{container}` of `{namespace}/{pod}`"));
    let none = "check that Heapster is running and writes to this database";
    let advice = format!("their points have no tag `{IMAGE}`, so their usage is left out");
    findings.push(diagnosis::matched(named.len(), found, example, none, &advice));
    findings.extend(diagnosis::impossible(&impossible));
    let interval = diagnosis::median(intervals);
    findings.extend(interval.map(|interval| SourceFinding::good("sample interval", format!("{interval} s"))));
    let mut oldest = None;
    store.ask::<Point>(&questions.oldest(), &mut |series| oldest = series.values.first().map(|point| point.0)).await?;
    findings.extend(oldest.map(|oldest| diagnosis::history(duration(now - oldest), now - oldest >= 30 * 86_400)));
    Ok(findings)
}
