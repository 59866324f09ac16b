//! The connection to a store: proxies, compression, and secrets that must stay secret.

use std::io::Write as _;
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use headroom_fixtures::http::{FakeServer, Reply, answer};
use headroom_sources::Source;
use headroom_sources::http::Endpoint;
use headroom_sources::prometheus::{Options, Prometheus};
use headroom_usage::sample::Window;

use crate::faults::{MATRIX, store};

/// Runs `doctor` with these arguments and only this environment.
pub fn doctor(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
        .arg("doctor")
        .args(arguments)
        .env_clear()
        .env("RUST_LOG", "trace")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

pub fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_store_is_reached_through_the_proxy_of_the_environment() {
    let proxy = store(|| answer(200, MATRIX));
    let url = format!("ann:se%40cret@127.0.0.1:{}", proxy.port);
    let output = doctor(&["prometheus", "http://store.example:9090"], &[("HTTP_PROXY", &url)]);
    let text = text_of(&output);
    assert!(text.contains("ok    memory metric"), "{text}");
    assert!(!text.contains("se%40cret") && !text.contains("se@cret"), "{text}");
    let asked = proxy.asked_for("CONNECT store.example:9090 ");
    assert!(!asked.is_empty());
    // `ann:se@cret` in base64.
    assert!(asked.iter().all(|head| head.contains("Basic YW5uOnNlQGNyZXQ=")), "{asked:?}");

    let output = doctor(&["prometheus", &proxy.url()], &[("HTTP_PROXY", "http://127.0.0.1:1")]);
    assert!(text_of(&output).contains("ok    memory metric"), "this machine needs no proxy: {}", text_of(&output));
}

#[test]
fn a_cluster_is_reached_through_the_proxy_of_its_kubeconfig_or_of_the_environment() {
    let proxy = FakeServer::start(|_| answer(404, r#"{"kind":"Status","message":"nothing here"}"#));
    let address = proxy.url();
    let kubeconfig = |proxy_url: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cluster = format!("{{server: 'http://cluster.example:6443'{proxy_url}}}");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, clusters: [{{name: c, cluster: {cluster}}}], \
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}], users: [{{name: u, user: {{}}}}]}}"
        );
        std::fs::write(file.path(), text).unwrap();
        file
    };
    let check = |proxy_url: &str, environment: &[(&str, &str)], is_used: bool| {
        proxy.asked.lock().unwrap().clear();
        let file = kubeconfig(proxy_url);
        let mut environment = environment.to_vec();
        environment.push(("KUBECONFIG", file.path().to_str().unwrap()));
        let output = doctor(&["metrics-api"], &environment);
        let asked = proxy.asked_for("CONNECT cluster.example:6443 ");
        assert_eq!(!asked.is_empty(), is_used, "{proxy_url} {environment:?}: {}", text_of(&output));
    };
    check(&format!(", proxy-url: '{address}'"), &[], true);
    check("", &[("HTTP_PROXY", &address)], true);
    check("", &[("HTTP_PROXY", &address), ("NO_PROXY", "cluster.example")], false);
    check("", &[("HTTP_PROXY", &address), ("NO_PROXY", "127.0.0.1")], true);
}

#[tokio::test]
async fn answers_are_compressed() {
    let fake = store(|| {
        let mut zipped = GzEncoder::new(Vec::new(), Compression::default());
        zipped.write_all(MATRIX.as_bytes()).unwrap();
        let body = zipped.finish().unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Reply::Bytes([head.as_bytes(), &body].concat())
    });
    let source = Prometheus::connect(&Options::new(Endpoint::new(fake.url()))).await.unwrap();
    let mut batches = 0;
    source.read("shop", Window { from: 6000, to: 9600 }, &mut |_| batches += 1).await.unwrap();
    assert!(batches > 0);
    assert!(fake.asked.lock().unwrap().iter().all(|head| head.to_lowercase().contains("accept-encoding: gzip")));
}

#[test]
fn a_password_in_a_url_is_used_and_never_shown() {
    let fake = store(|| answer(200, MATRIX));
    let place = format!("127.0.0.1:{}", fake.port);
    let output = doctor(&["prometheus", &format!("http://ann:hunter2@{place}")], &[]);
    let text = text_of(&output);
    assert!(
        text.contains(&format!("prometheus at http://{place}\n")) && text.contains("ok    memory metric"),
        "{text}"
    );
    assert!(fake.asked_for("GET").iter().all(|head| head.contains("Basic YW5uOmh1bnRlcjI=")));
    // With any error.
    for arguments in [
        ["prometheus", "http://ann:hunter2@127.0.0.1:1"].as_slice(),
        &["prometheus", "http://ann:hunter2@[127.0.0.1"],
        &["prometheus", "ann:hunter2@127.0.0.1:1"],
        &["influxdb", "http://ann:hunter2@127.0.0.1:1"],
        &["influxdb", &format!("http://ann:hunter2@{place}/nowhere")],
        &["prometheus", "http://127.0.0.1:1", "--header", "Authorization Bearer hunter2"],
        &["prometheus", "http://127.0.0.1:1", "--header", "X-Key: hunter2\n"],
        &["prometheus", "http://127.0.0.1:1", "--token", "hunter2", "--user", "ann"],
    ] {
        let said = text_of(&doctor(arguments, &[]));
        assert!(!said.contains("hunter2") && !said.is_empty(), "{arguments:?}: {said}");
    }
}
