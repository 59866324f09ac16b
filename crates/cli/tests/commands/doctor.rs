//! `kubectl headroom doctor`: what it prints, proxies, identities, and secrets that must stay secret.

use std::process::Command;

use headroom_fixtures::api_server::kubeconfig;
use headroom_fixtures::fake_prometheus::{self, MATRIX};
use headroom_fixtures::http::{FakeServer, answer, header};
use headroom_fixtures::servers::free_port;
use serde_json::Value;

use crate::support::*;

/// Runs `doctor` with these arguments and only this environment.
fn doctor(arguments: &[&str], environment: &[(&str, &str)]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"));
    command.arg("doctor").args(arguments).env_clear().env("RUST_LOG", "trace");
    said(command.envs(environment.iter().copied()))
}

/// All that it says.
fn text(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let said = doctor(arguments, environment);
    said.out + &said.err
}

fn store() -> FakeServer {
    fake_prometheus::start(|| answer(200, MATRIX))
}

#[test]
fn it_has_json_output_and_advice() {
    let store = store();
    let said = doctor(&[&store.url(), "-o", "json"], &[]);
    let findings: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(findings["findings"][1]["subject"], "memory metric");
    assert_eq!(findings["findings"][1]["verdict"], "good");

    let Said { code, out, .. } = doctor(&[&format!("http://127.0.0.1:{}", free_port())], &[]);
    assert!(code == 1 && out.contains("FAIL   connection   cannot reach"), "{out}");
    assert!(out.contains("-> fix the connection first; the remaining checks were skipped"), "{out}");
}

#[test]
fn a_store_is_reached_through_the_proxy_of_the_environment() {
    let proxy = store();
    let url = format!("ann:se%40cret@127.0.0.1:{}", proxy.port);
    let said = text(&["http://store.example:9090"], &[("HTTP_PROXY", &url)]);
    assert!(said.contains("ok     memory metric"), "{said}");
    assert!(!said.contains("se%40cret") && !said.contains("se@cret"), "{said}");
    let asked = proxy.asked_for("CONNECT store.example:9090 ");
    assert!(!asked.is_empty());
    // `ann:se@cret` in base64.
    assert!(asked.iter().all(|head| head.contains("Basic YW5uOnNlQGNyZXQ=")), "{asked:?}");

    let said = text(&[&proxy.url()], &[("HTTP_PROXY", "http://127.0.0.1:1")]);
    assert!(said.contains("ok     memory metric"), "this machine needs no proxy: {said}");
}

#[test]
fn a_cluster_is_reached_through_the_proxy_of_its_kubeconfig_or_of_the_environment() {
    let proxy = FakeServer::start(|_| answer(404, r#"{"kind":"Status","message":"nothing here"}"#));
    let address = proxy.url();
    let plain = kubeconfig(&[("here", "http://cluster.example:6443", "shop")]);
    let check = |proxy_url: &str, environment: &[(&str, &str)], is_used: bool| {
        proxy.asked.lock().unwrap().clear();
        let folder = folder(&[("kubeconfig", &plain.replace(r#""server":"#, &format!(r#"{proxy_url}"server":"#)))]);
        let file = folder.path().join("kubeconfig");
        let said = text(&[], &[environment, &[("KUBECONFIG", file.to_str().unwrap())]].concat());
        let asked = proxy.asked_for("CONNECT cluster.example:6443 ");
        assert_eq!(!asked.is_empty(), is_used, "{proxy_url} {environment:?}: {said}");
    };
    check(&format!(r#""proxy-url":"{address}","#), &[], true);
    check("", &[("HTTP_PROXY", &address)], true);
    check("", &[("HTTP_PROXY", &address), ("NO_PROXY", "cluster.example")], false);
    check("", &[("HTTP_PROXY", &address), ("NO_PROXY", "127.0.0.1")], true);
}

#[test]
fn an_identity_can_be_set_if_it_does_not_follow_from_the_url() {
    let metadata = FakeServer::start(|_| answer(200, r#"{"access_token":"t1","expires_in":3600}"#));
    let store = FakeServer::start(|asked| match header(asked, "authorization") {
        Some("Bearer t1") => fake_prometheus::reply(asked, || answer(200, MATRIX)),
        _ => answer(401, "who are you?"),
    });
    let host = format!("127.0.0.1:{}", metadata.port);
    let environment = [("GCE_METADATA_HOST", host.as_str())];
    let folder = folder(&[("source.yaml", "identity: google")]);
    let source = folder.path().join("source.yaml");
    let said = text(&[&store.url(), "--source", source.to_str().unwrap()], &environment);
    let expected = format!("Google, token of the metadata server at `http://{host}`");
    assert!(said.contains(&expected) && said.contains("ok     memory metric"), "{said}");
    let said = text(&[&store.url()], &environment);
    assert!(said.contains("answers 401"), "{said}");
}

#[test]
fn a_password_in_a_url_is_refused_and_never_shown() {
    for arguments in [
        ["http://ann:hunter2@127.0.0.1:1"].as_slice(),
        &["http://ann:hunter2@[127.0.0.1"],
        &["ann:hunter2@127.0.0.1:1"],
        &["http://ann:hunter2@127.0.0.1:1?db=k8s"],
    ] {
        let said = text(arguments, &[]);
        assert!(said.contains("has a user or password in it: name `user`"), "{arguments:?}: {said}");
        assert!(!said.contains("hunter2"), "{arguments:?}: {said}");
    }
}

#[test]
fn it_writes_the_file_that_other_commands_read() {
    let store = store();
    let written = doctor(&[&store.url(), "-o", "source"], &[]).out;
    assert!(written.contains(&format!("\nurl: \"{}\"\n", store.url())), "{written}");
    assert!(written.contains("\nmetrics:\n  # Counter of CPU seconds.\n  cpu: \"container_cpu_usage"), "{written}");
    assert!(written.contains("\n#tokenFile: token\n"), "{written}");
    let source = written.replace("#tokenFile:", "tokenFile:");
    let folder = folder(&[("source.yaml", &source), ("token", "s3cret\n")]);
    let read = text(&["--source", folder.path().join("source.yaml").to_str().unwrap()], &[]);
    assert!(read.contains("ok     memory metric") && !read.contains("s3cret"), "{read}");
    assert!(store.asked_for("GET").iter().any(|head| header(head, "authorization") == Some("Bearer s3cret")));
}

#[test]
fn the_cluster_of_a_service_is_chosen_as_everywhere() {
    let service = ["monitoring/prometheus:9090"];
    let said = text(&[&service[..], &["--kubeconfig", "gone", "--as", "eve"]].concat(), &[]);
    assert_eq!(said, "error: no cluster: `gone` does not exist\n");
}
