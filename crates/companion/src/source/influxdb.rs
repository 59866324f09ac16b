//! InfluxDB 1.x, as Heapster filled it.
//!
//! `query` builds the questions and `answer` reads the answers, both pure; between them is one send, `Api::ask`. Heapster
//! tells each container's image itself, and no OOM kills.

mod answer;
mod query;

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use self::answer::Point;
use self::query::{CONTAINER, IMAGE, LIST_MEASUREMENTS, NAMESPACE, POD, Schema};
use super::examination::{Finding, duration};
use super::framing::{self, Pieces, Shape};
use super::http::{Endpoint, Http};
use super::{Batch, Container, Reach, Resource, Series, Sink, Source, SourceError, Window};

/// Points in one portion of an answer: what is in memory at a time.
const PORTION: &str = "10000";

const RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// How to use an InfluxDB.
#[derive(Clone)]
pub struct Options {
    pub endpoint: Endpoint,
    pub database: String,
    /// The database's own default if not given.
    pub retention_policy: Option<String>,
    pub step_seconds: u32,
}

impl Options {
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, database: "k8s".to_owned(), retention_policy: None, step_seconds: 60 }
    }
}

/// An InfluxDB. Which of Heapster's schemas it has is found out when it is first read.
pub struct InfluxDb {
    api: Api,
    schema: OnceCell<Schema>,
    step_seconds: u32,
}

struct Api {
    http: Http,
    database: String,
    retention_policy: Option<String>,
}

impl InfluxDb {
    /// Asks nothing yet.
    pub fn new(options: &Options) -> Result<Self, SourceError> {
        Ok(Self { api: Api::new(options)?, schema: OnceCell::new(), step_seconds: options.step_seconds.max(1) })
    }

    /// Asks at once for the schema. Fails if the database has none of Heapster's.
    pub async fn connect(options: &Options) -> Result<Self, SourceError> {
        let store = Self::new(options)?;
        store.schema().await?;
        Ok(store)
    }

    async fn schema(&self) -> Result<Schema, SourceError> {
        let find = async || {
            self.api.schema().await?.map_err(|found| {
                SourceError::Permanent(format!("{}: {NAME_IT}", no_heapster(&self.api.database, &found)))
            })
        };
        self.schema.get_or_try_init(find).await.copied()
    }
}

const NAME_IT: &str = "name Heapster's database with --database";

/// InfluxDB 1 says the same of a database that is empty and of one that is not there.
fn no_heapster(database: &str, found: &[String]) -> String {
    let found = if found.is_empty() { "nothing at all".to_owned() } else { format!("`{}`", found.join("`, `")) };
    format!(
        "database `{database}` has no measurement of Heapster's, neither `memory/working_set` nor `memory`: found {found}"
    )
}

impl Api {
    fn new(options: &Options) -> Result<Self, SourceError> {
        Ok(Self {
            http: Http::new(&options.endpoint)?,
            database: options.database.clone(),
            retention_policy: options.retention_policy.clone(),
        })
    }

    /// The schema, or the first measurements that are there instead.
    async fn schema(&self) -> Result<Result<Schema, Vec<String>>, SourceError> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        self.ask::<(String,)>(LIST_MEASUREMENTS, &mut |series| {
            found.extend(series.values.into_iter().map(|(measurement,)| measurement));
        })
        .await?;
        let has = |schema: Schema| RESOURCES.iter().any(|&resource| found.contains(schema.measurement(resource)));
        Ok(match [Schema::Measurements, Schema::Fields].into_iter().find(|&schema| has(schema)) {
            Some(schema) => Ok(schema),
            None => Err(found.into_iter().take(5).collect()),
        })
    }

    /// The store's clock and version.
    async fn ping(&self) -> Result<i64, SourceError> {
        self.http.get("/ping", &[]).await?.date()
    }

    async fn ask<Row: DeserializeOwned>(
        &self,
        question: &str,
        each: &mut (dyn FnMut(answer::Series<Row>) + Send),
    ) -> Result<(), SourceError> {
        let mut parameters = vec![
            ("q", question),
            ("db", self.database.as_str()),
            ("epoch", "s"),
            ("chunked", "true"),
            ("chunk_size", PORTION),
        ];
        parameters.extend(self.retention_policy.iter().map(|policy| ("rp", policy.as_str())));
        tracing::debug!(question, "asking");
        let mut answer = self.http.get("/query", &parameters).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(answer::refusal(self.http.name(), status, &answer.text().await?));
        }
        let mut more = true;
        let mut pieces = Pieces::new(Shape::Documents);
        while let Some(bytes) = answer.next().await? {
            pieces.feed(&bytes, &mut |document| {
                let portion = answer::portion(self.http.name(), document)?;
                portion.series.into_iter().for_each(&mut *each);
                more = portion.more;
                Ok(())
            })?;
        }
        let around = pieces.finish()?;
        if !around.is_empty() {
            return Err(SourceError::Permanent(format!("the answer of `{}` is not InfluxDB's", self.http.name())));
        }
        if more { Err(framing::truncated()) } else { Ok(()) }
    }
}

#[async_trait]
impl Source for InfluxDb {
    async fn now(&self) -> Result<i64, SourceError> {
        self.api.ping().await
    }

    async fn namespaces(&self, _window: Window) -> Result<Vec<String>, SourceError> {
        let mut found = BTreeSet::new();
        self.api
            .ask::<(String, String)>(&self.schema().await?.namespaces(), &mut |series| {
                found.extend(series.values.into_iter().map(|(_, namespace)| namespace));
            })
            .await?;
        Ok(found.into_iter().collect())
    }

    async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let schema = self.schema().await?;
        let mut unmatched = BTreeSet::new();
        for resource in RESOURCES {
            let question = schema.usage(resource, namespace, window, self.step_seconds);
            self.api
                .ask::<Point>(&question, &mut |series| {
                    let (pod, name, image) = (series.tag(POD), series.tag(CONTAINER), series.tag(IMAGE));
                    if image.is_empty() {
                        unmatched.insert((pod.to_owned(), name.to_owned()));
                        return;
                    }
                    let container = Container {
                        namespace: namespace.to_owned(),
                        pod: pod.to_owned(),
                        name: name.to_owned(),
                        image: image.to_owned(),
                    };
                    let samples = series.samples(resource);
                    sink(Batch::Usage(vec![Series { container, resource, samples, step_seconds: self.step_seconds }]));
                })
                .await?;
        }
        if let Some((pod, container)) = unmatched.first() {
            tracing::warn!(
                namespace,
                containers = unmatched.len(),
                "the image of some containers is not known, so their usage is left out; one is `{container}` of `{pod}`"
            );
        }
        Ok(())
    }

    fn step_seconds(&self) -> u32 {
        self.step_seconds
    }

    fn reach(&self) -> Reach {
        Reach::Past
    }
}

/// Everything `doctor` has to say about an InfluxDB.
pub async fn examine(options: &Options, our_clock: i64) -> Result<Vec<Finding>, SourceError> {
    let api = Api::new(options)?;
    let now = api.ping().await?;
    let mut findings = vec![super::examination::clock(our_clock, now)];
    let schema = match api.schema().await? {
        Ok(schema) => schema,
        Err(found) => {
            findings.push(Finding::bad("schema", no_heapster(&options.database, &found), NAME_IT));
            return Ok(findings);
        }
    };
    let names = RESOURCES.map(|resource| schema.name(resource)).join(" and ");
    findings.push(Finding::good("schema", format!("Heapster's, {names} in database `{}`", options.database)));

    let (mut matched, mut unmatched, mut intervals) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    api.ask::<Point>(&schema.newest(Window { from: now - 600, to: now }), &mut |series| {
        let key = [NAMESPACE, POD, CONTAINER].map(|tag| series.tag(tag).to_owned());
        if series.tag(IMAGE).is_empty() {
            unmatched.insert(key);
        } else {
            matched.insert(key);
        }
        let distances = series.values.windows(2).filter_map(|pair| pair.last()?.0.checked_sub(pair.first()?.0));
        intervals.extend(distances.filter(|distance| *distance > 0));
    })
    .await?;
    let told = format!("{} of {} containers in the last 10 minutes", matched.len(), matched.len() + unmatched.len());
    findings.push(match unmatched.first() {
        None if matched.is_empty() => {
            Finding::bad("matched images", told, "check that Heapster is running and writes to this database")
        }
        None => Finding::good("matched images", told),
        Some([namespace, pod, container]) => Finding::doubtful(
            "matched images",
            format!("{told}; none for `{container}` of `{namespace}/{pod}`"),
            format!("their points have no tag `{IMAGE}`, so their usage is left out"),
        ),
    });
    intervals.sort_unstable();
    if let Some(interval) = intervals.get(intervals.len() / 2) {
        findings.push(Finding::good("sample interval", format!("{interval} s")));
    }
    let mut oldest = None;
    api.ask::<Point>(&schema.oldest(), &mut |series| oldest = series.values.first().map(|point| point.0)).await?;
    if let Some(oldest) = oldest {
        let age = now - oldest;
        let found = duration(age);
        findings.push(if age >= 30 * 86_400 {
            Finding::good("history", found)
        } else {
            Finding::doubtful(
                "history",
                found,
                "nothing to do if the database is young, since what is collected is kept; else raise its retention policy",
            )
        });
    }
    Ok(findings)
}
