//! Reads from failing stores: they give a clear error of the right kind, and no wrong figure.

use std::io::Write as _;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use headroom_fixtures::fake_prometheus::{MATRIX, reply, start as store};
use headroom_fixtures::http::{FakeServer, Reply, answer, header};
use headroom_metrics_stores::http::{Authentication, Endpoint, Http};
use headroom_metrics_stores::influxdb::{InfluxDb, InfluxdbOptions};
use headroom_metrics_stores::prometheus::{Prometheus, PrometheusOptions};
use headroom_metrics_stores::{Source, SourceError};
use headroom_usage::sample::Window;
use serde_json::json;

use crate::forward::client;
use crate::prometheus::{new_source, options};

const WINDOW: Window = Window { from: 6000, to: 9600 };

fn connect(fake: &FakeServer) -> Prometheus {
    let mut options = options(fake.url());
    options.endpoint.timeout = Duration::from_secs(3);
    new_source(options)
}

/// Checks the kind of the error, and that it contains these words.
async fn check(range: impl Fn() -> Reply + Send + Sync + 'static, kind: fn(String) -> SourceError, words: &str) {
    let error = connect(&store(range)).read(&["shop"], WINDOW, &mut |_| {}).await.unwrap_err();
    let text = error.to_string();
    assert!(error == kind(text.clone()) && text.contains(words) && !text.contains('\n'), "{error:?}");
}

#[tokio::test]
async fn answers_are_compressed() {
    let fake = store(|| {
        let mut zipped = GzEncoder::new(Vec::new(), Compression::default());
        zipped.write_all(MATRIX.as_bytes()).unwrap();
        let body = zipped.finish().unwrap();
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip";
        let head = format!("{head}\r\nContent-Length: {}\r\n\r\n", body.len());
        Reply::Bytes([head.as_bytes(), &body].concat())
    });
    let mut batches = 0;
    connect(&fake).read(&["shop"], WINDOW, &mut |_| batches += 1).await.unwrap();
    assert!(batches > 0);
    assert!(fake.asked.lock().unwrap().iter().all(|head| head.to_lowercase().contains("accept-encoding: gzip")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_rows_do_not_end_is_given_up() {
    let row = format!(r#"{{"metric":{{"a":"{}"}},"value":[1,"1"]}},"#, "x".repeat(1 << 20));
    let rows = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}"#, row.repeat(140));
    let fake = FakeServer::start(move |_| answer(200, &rows));
    let refused = new_source(options(fake.url())).now().await;
    assert_eq!(refused, Err(SourceError::Overloaded(format!("`{}` answers with more than 128 MiB", fake.url()))));
}

#[tokio::test]
async fn a_window_with_more_points_than_prometheus_answers_is_too_much() {
    let fake = store(|| answer(200, MATRIX));
    let window = Window { from: WINDOW.to - 12_000 * 60, ..WINDOW };
    let refused = connect(&fake).read(&["shop"], window, &mut |_| {}).await;
    assert!(matches!(refused, Err(SourceError::Overloaded(_))), "{refused:?}");
}

#[tokio::test]
async fn a_slow_store_gets_smaller_queries() {
    let started = Instant::now();
    check(|| Reply::Stall(Vec::new()), SourceError::Overloaded, "did not answer within 3 s").await;
    let half = || format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", MATRIX.len(), &MATRIX[..120]);
    check(move || Reply::Stall(half().into_bytes()), SourceError::Overloaded, "did not answer within 3 s").await;
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn an_incomplete_answer_is_an_error() {
    for length in [40, 90, 150, MATRIX.len() - 3] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", MATRIX.len());
        check(move || Reply::Bytes((head.clone() + &MATRIX[..length]).into_bytes()), SourceError::Temporary, "broke")
            .await;
        check(move || answer(200, &MATRIX[..length]), SourceError::Temporary, "ends in the middle").await;
        let chunk =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{}\r\n", &MATRIX[..length]);
        check(move || Reply::Bytes(chunk.clone().into_bytes()), SourceError::Temporary, "broke").await;
    }
}

#[tokio::test]
async fn every_request_has_credentials() {
    let fake = store(|| answer(200, MATRIX));
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "from-a-file\n").unwrap();
    let mut endpoint = Endpoint::new(format!("{}/prometheus", fake.url()));
    endpoint.headers.insert("X-Reader".into(), "headroom".into());
    endpoint.tenant = Some("team-a".into());
    for (authentication, expected) in [
        (Authentication::TokenFile(token.path().into()), "authorization: Bearer from-a-file"),
        (Authentication::Basic { user: "u".into(), password: "p".into() }, "authorization: Basic dTpw"),
    ] {
        endpoint.authentication = authentication;
        fake.asked.lock().unwrap().clear();
        new_source(PrometheusOptions::new(endpoint.clone())).cluster().await.unwrap();
        let asked = fake.asked.lock().unwrap();
        assert!(!asked.is_empty());
        for head in asked.iter() {
            assert!(head.starts_with("GET /prometheus/api/v1/query?"), "{head}");
            for header in [expected, "x-reader: headroom", "x-scope-orgid: team-a"] {
                assert!(head.to_lowercase().contains(&header.to_lowercase()), "{header} in {head}");
            }
        }
    }
}

/// Proxies and stores that refuse a header may repeat it, and many people read the log of a CI run.
#[tokio::test]
async fn an_error_that_repeats_our_credentials_is_shown_without_them() {
    type Echo = fn(&str) -> Reply;
    let echoes: [Echo; 4] = [
        |said| answer(401, &format!("bad header {said}")),
        |said| answer(400, &json!({"status": "error", "errorType": "bad_data", "error": said}).to_string()),
        |said| answer(200, &json!({"status": "error", "errorType": "bad_data", "error": said}).to_string()),
        |said| answer(200, &json!({"results": [{"error": said}]}).to_string()),
    ];
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "t0k3n-of-a-file\n").unwrap();
    for (authentication, secrets) in [
        (Authentication::TokenFile(file.path().into()), vec!["t0k3n"]),
        (
            Authentication::Basic { user: "ann".into(), password: r#"pa"\sw0rd"#.into() },
            vec!["YW5uOnBhIlxzdzByZA==", "sw0rd"],
        ),
    ] {
        let mut endpoint = Endpoint::new("");
        endpoint.authentication = authentication;
        endpoint.headers.insert("X-Api-Key".into(), "k3y".into());
        for echo in echoes {
            for name in ["authorization", "x-api-key"] {
                let fake = FakeServer::start(move |asked| {
                    let sent = header(asked, name).unwrap();
                    // As it was sent, and as a server reads it.
                    let read = sent.strip_prefix("Basic ").map(|credentials| STANDARD.decode(credentials).unwrap());
                    echo(&format!("{sent} {}", String::from_utf8_lossy(&read.unwrap_or_default())))
                });
                endpoint.url = fake.url().into();
                let prometheus = new_source(PrometheusOptions::new(endpoint.clone())).namespaces(WINDOW).await;
                let influxdb = InfluxDb::new(&InfluxdbOptions::new(endpoint.clone())).unwrap().namespaces(WINDOW).await;
                for error in [prometheus, influxdb].map(|asked| asked.unwrap_err().to_string()) {
                    let is_shown = secrets.iter().chain(&["k3y"]).any(|secret| error.contains(secret));
                    assert!(!is_shown, "{name}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_store_can_be_reached_through_the_api_server() {
    let fake = store(|| answer(200, MATRIX));
    let mut endpoint = Endpoint::new("");
    endpoint.headers.insert("X-Reader".into(), "headroom".into());
    endpoint.tenant = Some("team-a".into());
    let http = Http::through_api_server(client(&fake.url()), "monitoring", "prometheus:9090", &endpoint).unwrap();
    let source = Prometheus::new(http, PrometheusOptions::new(endpoint));
    source.read(&["shop"], WINDOW, &mut |_| {}).await.unwrap();
    for head in fake.asked.lock().unwrap().iter() {
        let path = "GET /api/v1/namespaces/monitoring/services/prometheus:9090/proxy/api/v1/query";
        assert!(head.starts_with(path), "{head}");
        assert!(head.contains("x-reader: headroom") && head.contains("x-scope-orgid: team-a"), "{head}");
    }
}

#[tokio::test]
async fn names_are_looked_up_again_with_each_run() {
    let series = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let there = series.clone();
    let fake = FakeServer::start(move |asked| {
        if asked.contains("vector(time())") || there.load(std::sync::atomic::Ordering::Relaxed) {
            reply(asked, || answer(200, MATRIX))
        } else {
            answer(200, r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#)
        }
    });
    let source = new_source(options(fake.url()));
    assert!(matches!(source.now().await, Err(SourceError::Permanent(_))));
    series.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(source.now().await, Ok(13_600));
}
