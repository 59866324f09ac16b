//! Probes and scrapes, while others do not read what they asked for.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use headroom_collector::metrics::Metrics;
use headroom_collector::probe_server;
use headroom_kube::clock;
use headroom_usage::accuracy::Sum;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The memory limit of the collector in the chart, in kilobytes.
const MEMORY_LIMIT: usize = 512 << 10;

/// The most memory that this process has had, in kilobytes.
fn peak_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

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
    let get = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 16];
        stream.read_exact(&mut answer).await.unwrap();
        (String::from_utf8(answer).unwrap(), stream)
    };
    let (mut unread, mut rejected) = (Vec::new(), 0);
    for _ in 0..20 {
        let (answer, stream) = get("/metrics").await;
        match answer.starts_with("HTTP/1.1 200") {
            true => unread.push(stream),
            false => rejected += 1,
        }
    }
    assert!(get("/healthz").await.0.starts_with("HTTP/1.1 200"));
    let peak = peak_memory();
    println!("peak memory: {} MiB, {} answered, {rejected} rejected", peak >> 10, unread.len());
    assert!(peak < MEMORY_LIMIT, "{} MiB", peak >> 10);
    assert!(!unread.is_empty() && rejected > 0);
    drop(unread);
    assert!(get("/metrics").await.0.starts_with("HTTP/1.1 200"));
}
