//! Probes and scrapes, while others do not read what they asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_collector::metrics::Metrics;
use headroom_collector::probe_server;
use headroom_fixtures::unread_metrics;
use headroom_kube::clock;
use headroom_usage::accuracy::Sum;
use tokio::net::TcpListener;

/// The memory limit of the collector in the chart.
const MEMORY_LIMIT_KIB: u64 = 512 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_read_the_metrics_are_bounded_and_probes_are_answered() {
    let metrics = Arc::new(Metrics::default());
    metrics.alive(clock::now());
    let sum = Sum { containers: 4, above: 1, estimated: 1_500_000_000, used: 250_000_000 };
    let namespaces = (0..6_000).map(|number| (format!("{}-{number}", "n".repeat(50)), [sum; 3]));
    metrics.estimates(&namespaces.collect::<BTreeMap<_, _>>());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(probe_server::serve(listener, Arc::clone(&metrics)));
    unread_metrics::check(address, MEMORY_LIMIT_KIB, || ());
}
