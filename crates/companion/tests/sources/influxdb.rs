//! Against a real InfluxDB 1.6, filled as Heapster filled it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headroom_companion::source::examination::Verdict;
use headroom_companion::source::http::{Authentication, Endpoint};
use headroom_companion::source::influxdb::{InfluxDb, Options, examine};
use headroom_companion::source::{Resource, Source, SourceError, Window};

use crate::data::{self, Cluster, Key};
use crate::prometheus::read;
use crate::servers::{self, Server, request};

/// Whether Heapster was started with `withfields=true`.
#[derive(Clone, Copy, PartialEq)]
enum Schema {
    Measurements,
    Fields,
}

/// Heapster tells a value each minute, at some second of it; two nodes may tell of the same container.
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
            let mut tell = |metric: &str, of: &str, value: f64, node: &str| {
                let (measurement, field) = match schema {
                    Schema::Measurements => (format!("{metric}/{of}"), "value"),
                    Schema::Fields => (metric.to_owned(), of),
                };
                let _ = writeln!(text, "{measurement},{tags},nodename={node} {field}={}i {time}", value.round());
            };
            if let Some(cores) = container.cpu[minute] {
                tell("cpu", "usage_rate", cores * 1000.0, "a");
            }
            if let Some(bytes) = memory(container, minute) {
                tell("memory", "working_set", bytes, "a");
                tell("memory", "working_set", bytes, "b");
            }
            // The whole pod is not a container.
            let (pod, field) =
                if schema == Schema::Fields { ("cpu", "usage_rate") } else { ("cpu/usage_rate", "value") };
            let _ = writeln!(text, "{pod},type=pod,namespace_name={} {field}=99999i {time}", container.namespace);
        }
    }
    text
}

fn memory(container: &data::Container, minute: usize) -> Option<f64> {
    container.memory[minute * 4].filter(|bytes| !bytes.is_nan())
}

fn expected(cluster: &Cluster) -> BTreeMap<Key, Vec<(i64, f64)>> {
    let mut expected = BTreeMap::<Key, Vec<(i64, f64)>>::new();
    for container in &cluster.containers {
        for minute in 0..container.cpu.len() {
            let values = [(Resource::Cpu, container.cpu[minute]), (Resource::Memory, memory(container, minute))];
            for (resource, value) in values {
                let key = Key {
                    namespace: container.namespace.to_owned(),
                    pod: container.pod.clone(),
                    container: container.name.to_owned(),
                    image: container.image(minute).to_owned(),
                    resource,
                };
                let time = cluster.window.from + minute as i64 * 60;
                expected.entry(key).or_default().extend(value.map(|value| (time, value)));
            }
        }
    }
    expected
}

fn fill(server: &Server, user: &str, text: &str) {
    let (status, body) =
        request(server.port, "POST", &format!("/write?db=k8s&precision=s{user}"), text.as_bytes()).unwrap();
    assert_eq!(status, 204, "{body}");
}

#[tokio::test]
async fn what_is_read_is_what_was_used_in_both_schemas() {
    let cluster = Cluster::until_now(360);
    for schema in [Schema::Measurements, Schema::Fields] {
        let server = servers::influxdb(false, 0);
        fill(&server, "", &line_protocol(&cluster, schema));
        let source = InfluxDb::connect(&Options::new(Endpoint::new(server.url()))).await.unwrap();
        assert!((source.now().await.unwrap() - cluster.window.to).abs() < 300);
        assert_eq!(source.namespaces(cluster.window).await.unwrap(), ["pay", "shop"]);
        data::check(&read(&source, cluster.window, 6 * 3600).await, &expected(&cluster));
        data::check(&read(&source, cluster.window, 17 * 60).await, &expected(&cluster));
    }
}

#[tokio::test]
async fn a_long_series_comes_in_portions() {
    let minutes = 11_000;
    let mut text = String::new();
    for minute in 0..minutes {
        let tags = "type=pod_container,namespace_name=shop,pod_name=p,container_name=c,container_base_image=nginx:1";
        let _ = writeln!(text, "cpu/usage_rate,{tags} value={minute}i {}", minute * 60);
    }
    let server = servers::influxdb(false, 0);
    fill(&server, "", &text);
    let source = InfluxDb::connect(&Options::new(Endpoint::new(server.url()))).await.unwrap();
    let mut found = data::Read::default();
    let mut batches = 0;
    let window = Window { from: 0, to: minutes * 60 };
    let mut sink = |batch| {
        batches += 1;
        found.take(batch);
    };
    source.read("shop", window, &mut sink).await.unwrap();
    assert_eq!((found.samples(), batches), (11_000, 2));
}

#[tokio::test]
async fn a_password_is_asked_for_and_given() {
    let cluster = Cluster::until_now(60);
    let server = servers::influxdb(true, 0);
    fill(&server, "&u=admin&p=open+sesame", &line_protocol(&cluster, Schema::Measurements));
    let mut options = Options::new(Endpoint::new(server.url()));
    let refused = InfluxDb::connect(&options).await.err();
    assert!(matches!(&refused, Some(SourceError::Permanent(text)) if text.contains("answers 401")), "{refused:?}");
    options.endpoint.authentication = Authentication::Basic { user: "admin".into(), password: "open sesame".into() };
    let source = InfluxDb::connect(&options).await.unwrap();
    data::check(&read(&source, cluster.window, 3600).await, &expected(&cluster));
}

#[tokio::test]
async fn a_database_that_is_missing_or_not_heapsters_is_told_so() {
    let server = servers::influxdb(false, 0);
    let mut options = Options::new(Endpoint::new(server.url()));
    let refused = |error: Option<SourceError>| match error {
        Some(SourceError::Permanent(text)) => text,
        other => panic!("{other:?}"),
    };
    options.database = "other".to_owned();
    let text = refused(InfluxDb::connect(&options).await.err());
    assert!(text.ends_with("found nothing at all: name Heapster's database with --database"), "{text}");
    options.database = "k8s".to_owned();
    fill(&server, "", "requests,host=a value=1 0\n");
    let text = refused(InfluxDb::connect(&options).await.err());
    assert!(text.contains("found `requests`: name"), "{text}");
}

#[tokio::test]
async fn doctor_tells_what_was_found() {
    let cluster = Cluster::until_now(60);
    let server = servers::influxdb(false, 0);
    fill(&server, "", &line_protocol(&cluster, Schema::Fields));
    let options = Options::new(Endpoint::new(server.url()));
    let findings = examine(&options, cluster.window.to + 30).await.unwrap();
    let told: Vec<_> =
        findings.iter().map(|finding| (finding.verdict, finding.subject, finding.found.as_str())).collect();
    assert_eq!((told[0].0, told[0].1), (Verdict::Good, "clock"));
    assert_eq!(
        told[1..4],
        [
            (
                Verdict::Good,
                "schema",
                "Heapster's, `usage_rate` of `cpu` and `working_set` of `memory` in database `k8s`"
            ),
            (Verdict::Good, "matched images", "5 of 5 containers in the last 10 minutes"),
            (Verdict::Good, "sample interval", "60 s"),
        ]
    );
    assert_eq!((told[4].0, told[4].1), (Verdict::Doubtful, "history"));
}

#[tokio::test]
async fn a_limit_of_steps_asks_for_less() {
    let cluster = Cluster::until_now(120);
    let server = servers::influxdb(false, 30);
    fill(&server, "", &line_protocol(&cluster, Schema::Measurements));
    let source = InfluxDb::connect(&Options::new(Endpoint::new(server.url()))).await.unwrap();
    let refused = source.read("shop", cluster.window, &mut |_| {}).await;
    assert!(
        matches!(&refused, Err(SourceError::Overloaded(text)) if text.contains("max-select-buckets")),
        "{refused:?}"
    );
    data::check(&read(&source, cluster.window, 20 * 60).await, &expected(&cluster));
}
