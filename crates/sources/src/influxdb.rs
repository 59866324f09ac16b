//! InfluxDB 1 with the data of Heapster or Telegraf. Versions 2 and 3 are not read: no server of them can be tested with.
//!
//! `query` builds the queries and `answer` reads the answers, both pure; `Api::ask` sends. Heapster writes the image of each
//! container with its usage. Telegraf's inventory has `images` and OOM kills, which it sees only while the container is down.

mod answer;
mod query;

mod images;

mod diagnose;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use self::answer::Point;
pub use self::diagnose::diagnose;
use headroom_kube::shell;
use headroom_usage::sample::{Batch, Container, OomKill, Resource, Series, Window};

use self::query::{CONTAINER, IMAGE, LIST_MEASUREMENTS, Literal, POD, Questions, Schema};
use super::http::{Endpoint, Http};
use super::{Reach, Sink, Source, SourceError, cluster_id};
use crate::images::{Images, warn_of_unknown};
use crate::json_splitter::{self, Split, Splitter};

/// Points in one portion of an answer: what is in memory at a time.
const PORTION: &str = "10000";
/// The default databases of Heapster and Telegraf.
const DATABASES: [&str; 2] = ["k8s", "telegraf"];

const RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// Options for reading an InfluxDB.
#[derive(Clone)]
pub struct Options {
    pub endpoint: Endpoint,
    /// The names that Heapster and Telegraf use are tried if it is not given.
    pub database: Option<String>,
    /// The database's own default if not given.
    pub retention_policy: Option<String>,
    /// Put into every question, such as `cluster = 'prod'`, which is needed where several clusters share a database.
    pub condition: String,
    pub step_seconds: u32,
    /// Read ephemeral storage too, which Telegraf writes.
    pub ephemeral_storage: bool,
}

impl Options {
    pub fn new(endpoint: Endpoint) -> Self {
        let (database, retention_policy, condition) = (None, None, String::new());
        Self { endpoint, database, retention_policy, condition, step_seconds: 60, ephemeral_storage: false }
    }
}

/// An InfluxDB. Whose schema it has is found out when it is first read.
pub struct InfluxDb {
    api: Api,
    known: OnceCell<Known>,
    step_seconds: u32,
    ephemeral_storage: bool,
}

/// The database and its schema.
struct Known {
    database: String,
    schema: Schema,
    condition: String,
}

impl Known {
    fn questions(&self) -> Questions<'_> {
        Questions { schema: self.schema, condition: &self.condition }
    }
}

struct Api {
    http: Http,
    databases: Vec<String>,
    retention_policy: Option<String>,
    condition: String,
}

impl InfluxDb {
    /// Sends nothing yet.
    pub fn new(options: &Options) -> Result<Self, SourceError> {
        Ok(Self {
            api: Api::new(options)?,
            known: OnceCell::new(),
            step_seconds: options.step_seconds.max(1),
            ephemeral_storage: options.ephemeral_storage,
        })
    }

    /// Detects the schema. Fails if no database has a known one.
    pub async fn connect(options: &Options) -> Result<Self, SourceError> {
        let store = Self::new(options)?;
        store.known().await?;
        Ok(store)
    }

    async fn known(&self) -> Result<&Known, SourceError> {
        let find = async || {
            let found = self.api.find().await?;
            let told = |looked| SourceError::Permanent(format!("{}: {NAME_IT}", no_schema(&looked)));
            let known = found.map_err(told)?;
            match self.api.several_clusters(&known).await? {
                None => Ok(known),
                Some(question) => Err(SourceError::Permanent(question)),
            }
        };
        self.known.get_or_try_init(find).await
    }
}

/// The kills of a window, with the images of their time.
fn kills(found: &[answer::Series<Point>], namespace: &str, window: Window, images: &Images) -> Vec<OomKill> {
    let mut kills = Vec::new();
    for series in found {
        let (pod, name) = (series.tag(POD), series.tag(CONTAINER));
        for sample in series.samples(1.0).into_iter().filter(|sample| window.contains(sample.time)) {
            let Some(image) = images.at(pod, name, sample.time) else { continue };
            let [namespace, pod, name, image] = [namespace, pod, name, image].map(str::to_owned);
            let container = Container { namespace, pod, name, image };
            kills.push(OomKill { container, at: sample.time, memory: sample.value });
        }
    }
    kills
}

const NAME_IT: &str = "name the database with --database";

/// The databases that were looked into, and the first measurements in each.
type Looked = Vec<(String, Vec<String>)>;

/// InfluxDB answers the same about a database that is empty and of one that is not there.
fn no_schema(looked: &Looked) -> String {
    let told = looked.iter().map(|(database, found)| {
        let found = if found.is_empty() { "nothing at all".to_owned() } else { format!("`{}`", found.join("`, `")) };
        format!("database `{database}` has {found}")
    });
    format!(
        "no measurement of Heapster's (`memory/working_set`, `memory`) or Telegraf's (`kubernetes_pod_container`): {}",
        told.collect::<Vec<_>>().join("; ")
    )
}

impl Api {
    fn new(options: &Options) -> Result<Self, SourceError> {
        let databases = match &options.database {
            Some(database) => vec![database.clone()],
            None => DATABASES.map(str::to_owned).into(),
        };
        Ok(Self {
            http: Http::new(&options.endpoint)?,
            databases,
            retention_policy: options.retention_policy.clone(),
            condition: options.condition.clone(),
        })
    }

    /// The first database with a schema that is known here, or what they have instead.
    async fn find(&self) -> Result<Result<Known, Looked>, SourceError> {
        let mut looked = Vec::new();
        for database in &self.databases {
            let mut found: BTreeSet<String> = BTreeSet::new();
            let listed = self
                .ask::<(String,)>(database, LIST_MEASUREMENTS, &mut |series| {
                    found.extend(series.values.into_iter().map(|(measurement,)| measurement));
                })
                .await;
            match listed {
                // One of the usual names.
                Err(SourceError::NoDatabase(_)) if self.databases.len() > 1 => {}
                listed => listed?,
            }
            let has = |schema: &Schema| RESOURCES.iter().any(|&resource| found.contains(schema.measurement(resource)));
            if let Some(schema) = Schema::ALL.into_iter().find(has) {
                let (database, condition) = (database.clone(), self.condition.clone());
                return Ok(Ok(Known { database, schema, condition }));
            }
            looked.push((database.clone(), found.into_iter().take(cluster_id::MAX_NAMES).collect()));
        }
        Ok(Err(looked))
    }

    /// The message that asks for a condition, if the database has the usage of several clusters, whose equal names would be taken for
    /// one.
    async fn several_clusters(&self, known: &Known) -> Result<Option<String>, SourceError> {
        let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        self.ask::<(String, String)>(&known.database, &known.questions().clusters(), &mut |series| {
            for (tag, value) in series.values {
                values.entry(tag).or_default().insert(value);
            }
        })
        .await?;
        let several = values.into_iter().find(|(_, values)| values.len() > 1);
        Ok(several.map(|(tag, values)| {
            let example = values.first().map_or("", String::as_str);
            let condition = shell::quoted(&format!("{tag} = {}", Literal(example)));
            format!(
                "database `{}` has the usage of several clusters (tag `{tag}`: {}): which one is this? Say so with \
                 --where {condition}",
                known.database,
                cluster_id::listed(&values)
            )
        }))
    }

    /// The images of a namespace's containers in Telegraf's inventory.
    async fn images(&self, known: &Known, namespace: &str, window: Window) -> Result<Images, SourceError> {
        let mut found = images::LastSeen::default();
        let question = known.questions().images(Literal(namespace), window);
        self.ask::<Point>(&known.database, &question, &mut |series| found.add(&series)).await?;
        Ok(found.images())
    }

    /// The store's clock and version.
    async fn ping(&self) -> Result<i64, SourceError> {
        self.http.get("/ping", &[]).await?.date()
    }

    async fn ask<Row: DeserializeOwned>(
        &self,
        database: &str,
        question: &str,
        each: &mut (dyn FnMut(answer::Series<Row>) + Send),
    ) -> Result<(), SourceError> {
        let mut parameters =
            vec![("q", question), ("db", database), ("epoch", "s"), ("chunked", "true"), ("chunk_size", PORTION)];
        parameters.extend(self.retention_policy.iter().map(|policy| ("rp", policy.as_str())));
        tracing::debug!(question, "asking");
        let mut answer = self.http.get("/query", &parameters).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(answer::refusal(&answer.redactor(), status, &answer.text().await?));
        }
        let mut more = true;
        let (redactor, mut splitter) = (answer.redactor(), Splitter::new(Split::Documents));
        while let Some(bytes) = answer.next().await? {
            splitter.feed(&bytes, &mut |document| {
                let portion = answer::portion(&redactor, document)?;
                portion.series.into_iter().for_each(&mut *each);
                more = portion.more;
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
        self.api.ping().await
    }

    async fn namespaces(&self, _window: Window) -> Result<Vec<String>, SourceError> {
        let known = self.known().await?;
        let (database, question) = (&known.database, known.questions().namespaces());
        let mut found = BTreeSet::new();
        self.api
            .ask::<(String, String)>(database, &question, &mut |series| {
                found.extend(series.values.into_iter().map(|(_, namespace)| namespace));
            })
            .await?;
        Ok(found.into_iter().collect())
    }

    async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let known = self.known().await?;
        let Known { database, schema, .. } = known;
        let images = match schema.has_images_on_usage() {
            true => Images::default(),
            false => self.api.images(known, namespace, window).await?,
        };
        let mut unmatched = BTreeSet::new();
        let storage = (self.ephemeral_storage && *schema == Schema::Telegraf).then_some(Resource::EphemeralStorage);
        for resource in RESOURCES.into_iter().chain(storage) {
            let question = known.questions().usage(resource, Literal(namespace), window, self.step_seconds);
            self.api
                .ask::<Point>(database, &question, &mut |series| {
                    let (pod, name) = (series.tag(POD), series.tag(CONTAINER));
                    let samples = series.samples(schema.scale(resource));
                    let by_image = match schema.has_images_on_usage() {
                        true if series.tag(IMAGE).is_empty() => Vec::new(),
                        true => vec![(series.tag(IMAGE), samples)],
                        false => images.split(pod, name, samples.into_iter()),
                    };
                    if by_image.is_empty() {
                        unmatched.insert((pod.to_owned(), name.to_owned()));
                    }
                    for (image, samples) in by_image {
                        let [namespace, pod, name, image] = [namespace, pod, name, image].map(str::to_owned);
                        let container = Container { namespace, pod, name, image };
                        let step_seconds = self.step_seconds;
                        sink(Batch::Usage(vec![Series { container, resource, samples, step_seconds }]));
                    }
                })
                .await?;
        }
        if !schema.has_images_on_usage() {
            let mut found = Vec::new();
            let question = known.questions().kills(Literal(namespace), window);
            self.api.ask::<Point>(database, &question, &mut |series| found.push(series)).await?;
            let kills = kills(&found, namespace, window, &images);
            if !kills.is_empty() {
                sink(Batch::OomKills(kills));
            }
        }
        warn_of_unknown(unmatched.iter().map(|(pod, name)| (namespace, (&**pod, &**name))));
        Ok(())
    }

    fn step_seconds(&self) -> u32 {
        self.step_seconds
    }

    fn reach(&self) -> Reach {
        Reach::Past
    }
}
