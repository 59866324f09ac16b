//! Against a real InfluxDB 1.6, filled like Heapster did.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headroom_fixtures::servers::{self, Server, request};
use headroom_metrics_stores::Source;
use headroom_metrics_stores::diagnosis::SourceVerdict;
use headroom_metrics_stores::http::Endpoint;
use headroom_metrics_stores::influxdb::{InfluxDb, InfluxdbOptions, diagnose};
use headroom_usage::sample::Window;

use crate::data::{self, Cluster, Key, Points};
use crate::prometheus::read;

/// The schemas of Heapster: `Fields` with `withfields=true`.
#[derive(Clone, Copy)]
enum Schema {
    Measurements,
    Fields,
}

/// Heapster writes a value each minute, at any second of it; two nodes may report the same container.
fn line_protocol(cluster: &Cluster, schema: Schema) -> String {
    let mut text = String::new();
    for container in &cluster.containers {
        for minute in 0..container.cpu.len() {
            let image = container.image(minute);
            let tags = format!(
                "type=pod_container,namespace_name={},pod_name={},container_name={},container_base_image={image}",
                container.namespace, container.pod, container.name
            );
            let time = cluster.window.from + minute as i64 * 60 + 7;
            let mut write_value = |metric: &str, of: &str, tags: &str, value: f64| {
                let (measurement, field) = match schema {
                    Schema::Measurements => (format!("{metric}/{of}"), "value"),
                    Schema::Fields => (metric.to_owned(), of),
                };
                let _ = writeln!(text, "{measurement},{tags} {field}={}i {time}", value.round());
            };
            let on_node = |node: &str| format!("{tags},nodename={node}");
            if let Some(cores) = container.cpu[minute] {
                write_value("cpu", "usage_rate", &on_node("a"), cores * 1000.0);
            }
            if let Some(bytes) = memory(container, minute) {
                write_value("memory", "working_set", &on_node("a"), bytes);
                write_value("memory", "working_set", &on_node("b"), bytes);
            }
            // The whole pod is not a container.
            write_value("cpu", "usage_rate", &format!("type=pod,namespace_name={}", container.namespace), 99_999.0);
        }
    }
    text
}

fn memory(container: &data::Container, minute: usize) -> Option<f64> {
    container.memory[minute * 4].filter(|bytes| !bytes.is_nan())
}

fn expected(cluster: &Cluster) -> BTreeMap<Key, Points> {
    cluster.readings(0, memory)
}

fn options(server: &Server) -> InfluxdbOptions {
    InfluxdbOptions::new(Endpoint::new(server.url()))
}

fn connect(server: &Server) -> InfluxDb {
    InfluxDb::new(&options(server)).unwrap()
}

/// The error of a store that must not be read.
async fn refused(options: &InfluxdbOptions) -> String {
    let window = Window { from: 0, to: 60 };
    InfluxDb::new(options).unwrap().namespaces(window).await.unwrap_err().to_string()
}

fn fill(server: &Server, text: &str) {
    let (status, body) = request(server.port, "POST", "/write?db=k8s&precision=s", text.as_bytes()).unwrap();
    assert_eq!(status, 204, "{body}");
}

#[tokio::test]
async fn readings_match_usage_in_both_schemas_and_doctor_lists_what_it_found() {
    let cluster = Cluster::until_now(360);
    for (schema, names) in [
        (Schema::Measurements, "`cpu/usage_rate` and `memory/working_set`"),
        (Schema::Fields, "`usage_rate` of `cpu` and `working_set` of `memory`"),
    ] {
        let server = servers::influxdb();
        fill(&server, &line_protocol(&cluster, schema));
        let source = connect(&server);
        assert!((source.now().await.unwrap() - cluster.window.to).abs() < 300);
        assert_eq!(source.namespaces(cluster.window).await.unwrap(), ["pay", "shop"]);
        data::check(&read(&source, cluster.window, 6 * 3600).await, &expected(&cluster));
        data::check(&read(&source, cluster.window, 17 * 60).await, &expected(&cluster));

        let findings = diagnose(&options(&server), data::now()).await.unwrap();
        let reported: Vec<_> =
            findings.iter().map(|finding| (finding.verdict, finding.subject, finding.found.as_str())).collect();
        assert_eq!((reported[0].0, reported[0].1), (SourceVerdict::Good, "clock"));
        let schema = format!("Heapster's, {names} in database `k8s`");
        assert_eq!(
            reported[1..4],
            [
                (SourceVerdict::Good, "schema", schema.as_str()),
                (SourceVerdict::Good, "matched images", "5 of 5 containers in the last 10 minutes"),
                (SourceVerdict::Good, "sample interval", "60 s"),
            ]
        );
        assert_eq!((reported[4].0, reported[4].1), (SourceVerdict::Doubtful, "history"));
    }
}

#[tokio::test]
async fn a_long_series_is_read_in_chunks() {
    let minutes = 11_000;
    let mut text = String::new();
    for minute in 0..minutes {
        let tags = "type=pod_container,namespace_name=shop,pod_name=p,container_name=c,container_base_image=nginx:1";
        let _ = writeln!(text, "cpu/usage_rate,{tags} value={minute}i {}", minute * 60);
    }
    let server = servers::influxdb();
    fill(&server, &text);
    let source = connect(&server);
    let mut found = data::Read::default();
    let mut batches = 0;
    let window = Window { from: 0, to: minutes * 60 };
    let mut sink = |batch| {
        batches += 1;
        found.take(batch);
    };
    source.read(&["shop"], window, &mut sink).await.unwrap();
    assert_eq!((found.samples(), batches), (11_000, 2));
}

#[tokio::test]
async fn a_missing_database_or_one_not_from_heapster_is_reported() {
    let server = servers::influxdb();
    let text = refused(&InfluxdbOptions { database: "other".to_owned(), ..options(&server) }).await;
    let expected =
        "database `other` has nothing at all: name the database after the URL, as in `http://influxdb:8086?db=NAME`";
    assert!(text.ends_with(expected), "{text}");
    fill(&server, "requests,host=a value=1 0\n");
    let text = refused(&options(&server)).await;
    assert!(text.contains("database `k8s` has `requests`: name"), "{text}");
}

#[tokio::test]
async fn points_without_an_image_and_with_impossible_amounts_are_reported() {
    let server = servers::influxdb();
    let now = data::now();
    let line = |bytes: u64, at: i64| {
        format!(
            "memory/working_set,type=pod_container,namespace_name=shop,pod_name=p,container_name=c value={bytes}i {at}\n"
        )
    };
    fill(&server, &(line(5, now - 60) + &line(9_223_372_036_854_775_807, now - 30)));
    let findings = diagnose(&options(&server), now).await.unwrap();
    let images = findings.iter().find(|finding| finding.subject == "matched images").unwrap();
    assert_eq!(images.verdict, SourceVerdict::Bad);
    assert!(images.advice.as_ref().unwrap().contains("no tag `container_base_image`"), "{images:?}");
    let amounts = findings.iter().find(|finding| finding.subject == "amounts").unwrap();
    assert_eq!(amounts.found, "1 impossible sample, such as memory 8Ei of container c in shop/p");
}

#[tokio::test]
async fn clusters_that_share_a_database_are_distinguished() {
    let server = servers::influxdb();
    let now = data::now();
    let line = |cluster: &str, bytes: u64| {
        let tags = "type=pod_container,namespace_name=shop,pod_name=p,container_name=c,container_base_image=nginx:1";
        format!("memory/working_set,{tags},cluster_name={cluster} value={bytes}i {}\n", now / 60 * 60 - 60)
    };
    fill(&server, &(line("prod", 5) + &line("test", 9)));
    let mut options = self::options(&server);
    let text = refused(&options).await;
    assert!(text.contains("tag `cluster_name`: `prod`, `test`): which one is this?"), "{text}");
    let findings = diagnose(&options, now).await.unwrap();
    assert!(findings.iter().any(|finding| (finding.verdict, finding.subject) == (SourceVerdict::Bad, "cluster")));

    options.condition = "cluster_name = 'prod'".to_owned();
    let source = InfluxDb::new(&options).unwrap();
    let mut found = Vec::new();
    let window = Window { from: now / 3600 * 3600 - 3600, to: now / 3600 * 3600 + 3600 };
    source.read(&["shop"], window, &mut |batch| found.push(batch)).await.unwrap();
    let [headroom_usage::sample::Batch::Usage(series)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(series[0].samples.iter().map(|sample| sample.value).collect::<Vec<_>>(), [5]);
}
