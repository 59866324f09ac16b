//! Prometheus, and stores with the same API: Thanos, VictoriaMetrics, Mimir, Google Managed Prometheus.
//!
//! `query` builds the questions and `answer` reads the answers, both pure; `api` sends, and is the only one that does.
//! Usage comes from cAdvisor's series, images and OOM kills from kube-state-metrics'; `names` and `probe` know what they
//! are called at a given store, `clusters` whether they are of one cluster, and `reader` reads with them. A range that is too much for the store is reported as
//! such, and the pipeline asks for less.

mod selector;

mod names;
mod options;

mod answer;
mod query;

mod api;

mod absence;
mod clusters;
mod images;
mod jobs;
mod oom;

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
use super::http::Http;
use super::{Reach, Sink, Source, SourceError};

pub use self::answer::AnswerSeries;
pub use self::diagnose::{detect, diagnose};
pub use self::names::{Labels, MetricNames, Overrides};
pub use self::options::PrometheusOptions;
pub use self::reader::StoreReader;
pub use self::selector::Matchers;

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

    /// Detects the names of the store. Fails if it has neither CPU nor memory of any container.
    async fn probe(&self) -> Result<Arc<StoreReader>, SourceError> {
        let probed = probe::probe(&self.api, &self.options).await?;
        let reader = Arc::new(StoreReader::new(self.api.clone(), &probed, &self.options)?);
        *locked(&self.reader) = Some((Instant::now(), reader.clone()));
        Ok(reader)
    }

    /// The reader, if its names are not older than this.
    async fn reader_within(&self, age: Duration) -> Result<Arc<StoreReader>, SourceError> {
        let known = locked(&self.reader).clone();
        match known {
            Some((since, reader)) if since.elapsed() <= age => Ok(reader),
            _ => self.probe().await,
        }
    }

    async fn reader(&self) -> Result<Arc<StoreReader>, SourceError> {
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
        self.read_several(&[namespace], window, sink).await
    }

    async fn read_several(&self, namespaces: &[&str], window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        self.reader().await?.read(namespaces, window, sink).await
    }

    fn namespaces_at_once(&self) -> usize {
        NAMESPACES_AT_ONCE
    }

    fn step_seconds(&self) -> u32 {
        self.options.step_seconds.max(1)
    }

    fn reach(&self) -> Reach {
        Reach::Past
    }
}
