//! `kubectl headroom recommend` from a metrics store, by running the program: a small cluster in files, and a real
//! Prometheus with its usage.

mod cluster;
mod live;
mod lives;
mod reports;
mod ui;

use std::path::PathBuf;

use headroom_fixtures::open_metrics::OpenMetrics;
use headroom_fixtures::servers::{PrometheusServer, Server};

use crate::support::{Said, headroom};

pub fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/commands/recommend_from_store")
}

pub fn prometheus(history: OpenMetrics) -> Server {
    PrometheusServer { history: history.to_string(), ..PrometheusServer::default() }.start()
}

/// Runs with arguments separated by spaces, without a cluster, at the end of the history.
pub fn recommend(arguments: &str) -> Said {
    headroom(&here(), &format!("recommend {arguments} --settings moment.yaml"))
}
