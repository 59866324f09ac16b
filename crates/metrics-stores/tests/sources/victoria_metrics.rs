//! Against a real VictoriaMetrics, whose Prometheus API differs in details.

use headroom_fixtures::servers;
use headroom_usage::sample::Window;

use crate::data::{self, Cluster};
use crate::prometheus::{check_day, check_hours, new_source, options, read};

#[tokio::test]
async fn readings_match_usage() {
    let cluster = Cluster::until_now(240);
    let server = servers::victoria_metrics(&cluster.exposition());
    let source = new_source(options(server.url()));
    let span = Window { from: cluster.window.from + 60, to: cluster.window.to + 60 };
    let found = read(&source, span, 4 * 3600).await;
    data::check(&found, &cluster.expected());
    assert_eq!(found.kills.len(), 2);
    data::check(&read(&source, span, 31 * 60).await, &cluster.expected());
    // It answers nothing about the last half minute.
    check_hours(server.url(), Window { to: span.to - 120, ..span }).await;
}

#[tokio::test]
async fn a_past_day_is_read_by_percentiles() {
    check_day(|cluster| servers::victoria_metrics(&cluster.exposition())).await;
}
