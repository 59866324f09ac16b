//! Prometheus, and everything that speaks its API: Thanos, VictoriaMetrics, Mimir, Google Managed Prometheus.
//!
//! `query` builds the questions and `answer` reads the answers, both pure; `api` sends, and is the only one that does.
//! Usage comes from cAdvisor's series, images and OOM kills from kube-state-metrics'; `names` and `probe` know what they
//! are called at a given store, `clusters` whether they are of one cluster, and `reader` reads with them. A range that is too much for the store is reported as
//! such, and the pipeline asks for less.

mod answer;
mod api;
mod clusters;
mod diagnose;
mod images;
mod jobs;
mod names;
mod oom;
mod probe;
mod query;
pub mod reader;
mod selector;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use headroom_usage::sample::Window;

use self::api::Api;
use super::cluster_id::ClusterId;
use super::http::{Endpoint, Http};
use super::{Reach, Sink, Source, SourceError};

pub use self::answer::Row;
pub use self::diagnose::{detect, diagnose};
pub use self::names::{Labels, Metrics, Overrides};
pub use self::reader::Reader;
pub use self::selector::Matchers;

/// How to use a store that speaks Prometheus' API.
#[derive(Clone)]
pub struct Options {
    pub endpoint: Endpoint,
    pub names: Overrides,
    /// Put into every selector, such as `cluster="prod"`, which is needed where several clusters share a store.
    pub matchers: Matchers,
    pub step_seconds: u32,
    /// Read ephemeral storage too, where the store has it.
    pub ephemeral_storage: bool,
    /// Take an answer in which a part of the store did not take part. What it misses is missed for ever.
    pub accept_partial: bool,
    /// The moment that the store is asked about in the place of now, in unix seconds.
    pub as_of: Option<i64>,
}

impl Options {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            names: Overrides::default(),
            matchers: Matchers::default(),
            step_seconds: 60,
            ephemeral_storage: false,
            accept_partial: false,
            as_of: None,
        }
    }
}

/// A store that speaks Prometheus' API. What it calls things is found out when it is first read, and again whenever
/// it is asked for its time, with which each run begins: kube-state-metrics may come and go.
pub struct Prometheus {
    api: Api,
    options: Options,
    /// With the moment when it was made.
    reader: Mutex<Option<(Instant, Arc<Reader>)>>,
}

/// What was found out is good for so long.
const FRESH: Duration = Duration::from_secs(10);

impl Prometheus {
    /// Asks nothing yet.
    pub fn new(http: Http, options: Options) -> Self {
        let api = Api::new(http, &options);
        Self { api, options, reader: Mutex::default() }
    }

    /// Asks at once what the store calls things. Fails if it has neither CPU nor memory of any container.
    pub async fn connect(options: &Options) -> Result<Self, SourceError> {
        let store = Self::new(Http::new(&options.endpoint)?, options.clone());
        store.probe().await?;
        Ok(store)
    }

    async fn probe(&self) -> Result<Arc<Reader>, SourceError> {
        let probed = probe::probe(&self.api, &self.options).await?;
        let reader = Arc::new(Reader::new(self.api.clone(), &probed, &self.options)?);
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), reader.clone()));
        Ok(reader)
    }

    /// What was found out, if it is not older than this.
    async fn reader_within(&self, age: Duration) -> Result<Arc<Reader>, SourceError> {
        let known = self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some((since, reader)) if since.elapsed() <= age => Ok(reader),
            _ => self.probe().await,
        }
    }

    async fn reader(&self) -> Result<Arc<Reader>, SourceError> {
        self.reader_within(Duration::MAX).await
    }
}

#[async_trait]
impl Source for Prometheus {
    async fn cluster(&self) -> Result<ClusterId, SourceError> {
        Ok(self.reader_within(FRESH).await?.cluster.clone())
    }

    async fn now(&self) -> Result<i64, SourceError> {
        self.reader_within(FRESH).await?;
        self.api.now().await
    }

    async fn namespaces(&self, window: Window) -> Result<Vec<String>, SourceError> {
        self.reader().await?.namespaces(window).await
    }

    async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        self.reader().await?.read(namespace, window, sink).await
    }

    fn step_seconds(&self) -> u32 {
        self.options.step_seconds.max(1)
    }

    fn reach(&self) -> Reach {
        Reach::Past
    }
}
