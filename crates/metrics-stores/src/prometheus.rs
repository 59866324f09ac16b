//! Prometheus, and stores with the same API: Thanos, VictoriaMetrics, Mimir, Google Managed Prometheus.
//!
//! `query` builds the questions and `answer` reads the answers, both pure; `api` sends, and is the only one that does.
//! Usage comes from cAdvisor's series, images and OOM kills from kube-state-metrics'; `names` and `probe` know what they
//! are called at a given store, `clusters` whether they are of one cluster, and `reader` reads with them. A range that is too much for the store is reported as
//! such, and the pipeline asks for less.

mod selector;

mod names;

mod answer;
mod jobs;
mod query;

mod api;

mod absence;
mod clusters;
mod images;

mod probe;
pub mod reader;

mod diagnose;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use headroom_api_server::parts::locked;
use headroom_usage::sample::Window;

use self::api::Api;
use super::cluster_id::ClusterId;
use super::http::{Endpoint, Http};
use super::{Sink, Source, SourceError};

pub use self::answer::AnswerSeries;
pub use self::diagnose::{detect, diagnose};
pub use self::names::{Labels, MetricNames, Overrides};
pub use self::reader::StoreReader;
pub use self::selector::Matchers;

#[derive(Clone)]
pub struct PrometheusOptions {
    pub endpoint: Endpoint,
    pub names: Overrides,
    /// Put into every selector, such as `cluster="prod"`, which is needed where several clusters share a store.
    pub matchers: Matchers,
    pub step_seconds: u32,
    /// The step of CPU where usage is kept by pod, if it is another: one that is read at each is an average of a minute, since
    /// those of more hide bursts.
    pub cpu_step_seconds: Option<u32>,
    /// Read ephemeral storage too, where the store has it.
    pub ephemeral_storage: bool,
    /// Take an answer in which a part of the store did not take part. What it misses is missed for ever.
    pub accept_partial: bool,
    /// Read only containers whose image's name contains this, and their kills.
    pub image: Option<String>,
    /// The moment that the store is asked about in the place of now, in unix seconds.
    pub as_of: Option<i64>,
}

impl PrometheusOptions {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            names: Overrides::default(),
            matchers: Matchers::default(),
            step_seconds: 60,
            cpu_step_seconds: None,
            ephemeral_storage: false,
            accept_partial: false,
            image: None,
            as_of: None,
        }
    }
}

/// A store with Prometheus' API. Its names are detected when it is first read, and again whenever
/// it is asked for its time, with which each run begins: kube-state-metrics may come and go.
pub struct Prometheus {
    pub api: Api,
    options: PrometheusOptions,
    /// With the moment when it was made.
    reader: Mutex<Option<(Instant, Arc<StoreReader>)>>,
}

/// So many names fit into one question. Of usual size, they have some thousand containers.
const NAMESPACES_AT_ONCE: usize = 128;

/// Detected names are used for so long.
const FRESH: Duration = Duration::from_secs(10);

impl Prometheus {
    /// Sends nothing yet.
    pub fn new(http: Http, options: PrometheusOptions) -> Self {
        let api = Api::new(http, &options);
        Self { api, options, reader: Mutex::default() }
    }

    /// The reader, with names that are not older than this. Fails if the store has neither CPU nor memory of any container.
    async fn reader_within(&self, age: Duration) -> Result<Arc<StoreReader>, SourceError> {
        let known = locked(&self.reader).clone();
        if let Some((_, reader)) = known.filter(|(since, _)| since.elapsed() <= age) {
            return Ok(reader);
        }
        let probed = probe::probe(&self.api, &self.options).await?;
        let reader = Arc::new(StoreReader::new(self.api.clone(), &probed, &self.options)?);
        *locked(&self.reader) = Some((Instant::now(), reader.clone()));
        Ok(reader)
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
        self.reader_within(Duration::MAX).await?.namespaces(window).await
    }

    async fn read(&self, namespaces: &[&str], window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        self.reader_within(Duration::MAX).await?.read(namespaces, window, sink).await
    }

    fn namespaces_at_once(&self) -> usize {
        NAMESPACES_AT_ONCE
    }

    fn step_seconds(&self) -> u32 {
        self.options.step_seconds.max(1)
    }
}
