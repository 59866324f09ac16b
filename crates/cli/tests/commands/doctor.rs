//! `kubectl headroom doctor`: what it prints, proxies, identities, and secrets that must stay secret.

use std::process::{Command, Output};

use headroom_fixtures::fake_prometheus::{self, MATRIX};
use headroom_fixtures::http::{FakeServer, answer, header};
use headroom_fixtures::servers::free_port;
use serde_json::Value;

/// Runs `doctor` with these arguments and only this environment.
fn doctor(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"))
        .arg("doctor")
        .args(arguments)
        .env_clear()
        .env("RUST_LOG", "trace")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn store() -> FakeServer {
    fake_prometheus::start(|| answer(200, MATRIX))
}

#[test]
fn it_has_text_and_json_output() {
    let store = store();
    let diagnosis = doctor(&[&store.url()], &[]);
    let text = String::from_utf8(diagnosis.stdout).unwrap();
    assert!(diagnosis.status.success(), "{text}");
    assert!(text.starts_with(&format!("prometheus at {}\n", store.url())), "{text}");
    let diagnosis = doctor(&[&store.url(), "-o", "json"], &[]);
    let findings: Value = serde_json::from_slice(&diagnosis.stdout).unwrap();
    assert_eq!(findings["findings"][1]["subject"], "memory metric");
    assert_eq!(findings["findings"][1]["verdict"], "good");

    let diagnosis = doctor(&[&format!("http://127.0.0.1:{}", free_port())], &[]);
    assert_eq!(diagnosis.status.code(), Some(1));
    let text = String::from_utf8(diagnosis.stdout).unwrap();
    assert!(text.contains("FAIL   connection   cannot reach"), "{text}");
    assert!(text.contains("-> fix the connection first; the remaining checks were skipped"), "{text}");
}

#[test]
fn a_store_is_reached_through_the_proxy_of_the_environment() {
    let proxy = store();
    let url = format!("ann:se%40cret@127.0.0.1:{}", proxy.port);
    let output = doctor(&["http://store.example:9090"], &[("HTTP_PROXY", &url)]);
    let text = text_of(&output);
    assert!(text.contains("ok     memory metric"), "{text}");
    assert!(!text.contains("se%40cret") && !text.contains("se@cret"), "{text}");
    let asked = proxy.asked_for("CONNECT store.example:9090 ");
    assert!(!asked.is_empty());
    // `ann:se@cret` in base64.
    assert!(asked.iter().all(|head| head.contains("Basic YW5uOnNlQGNyZXQ=")), "{asked:?}");

    let output = doctor(&[&proxy.url()], &[("HTTP_PROXY", "http://127.0.0.1:1")]);
    assert!(text_of(&output).contains("ok     memory metric"), "this machine needs no proxy: {}", text_of(&output));
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
        let output = doctor(&[], &environment);
        let asked = proxy.asked_for("CONNECT cluster.example:6443 ");
        assert_eq!(!asked.is_empty(), is_used, "{proxy_url} {environment:?}: {}", text_of(&output));
    };
    check(&format!(", proxy-url: '{address}'"), &[], true);
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
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "identity: google").unwrap();
    let source = file.path().to_str().unwrap();
    let output = doctor(&[&store.url(), "--source", source], &environment);
    let expected = format!("Google, token of the metadata server at `http://{host}`");
    assert!(
        text_of(&output).contains(&expected) && text_of(&output).contains("ok     memory metric"),
        "{}",
        text_of(&output)
    );
    let output = doctor(&[&store.url()], &environment);
    assert!(text_of(&output).contains("answers 401"), "{}", text_of(&output));
}

#[test]
fn a_password_in_a_url_is_refused_and_never_shown() {
    for arguments in [
        ["http://ann:hunter2@127.0.0.1:1"].as_slice(),
        &["http://ann:hunter2@[127.0.0.1"],
        &["ann:hunter2@127.0.0.1:1"],
        &["http://ann:hunter2@127.0.0.1:1?db=k8s"],
    ] {
        let said = text_of(&doctor(arguments, &[]));
        assert!(said.contains("has a user or password in it: name `user`"), "{arguments:?}: {said}");
        assert!(!said.contains("hunter2"), "{arguments:?}: {said}");
    }
}

#[test]
fn it_writes_the_file_that_other_commands_read() {
    let store = store();
    let folder = tempfile::tempdir().unwrap();
    let written = doctor(&[&store.url(), "-o", "source"], &[]);
    let text = String::from_utf8(written.stdout).unwrap();
    assert!(text.contains(&format!("\nurl: \"{}\"\n", store.url())), "{text}");
    assert!(text.contains("\nmetrics:\n  # Counter of CPU seconds.\n  cpu: \"container_cpu_usage"), "{text}");
    assert!(text.contains("\n#tokenFile: token\n"), "{text}");
    let path = folder.path().join("source.yaml");
    std::fs::write(&path, text.replace("#tokenFile:", "tokenFile:")).unwrap();
    std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
    let read = text_of(&doctor(&["--source", path.to_str().unwrap()], &[]));
    assert!(read.contains("ok     memory metric") && !read.contains("s3cret"), "{read}");
    assert!(store.asked_for("GET").iter().any(|head| header(head, "authorization") == Some("Bearer s3cret")));
}

#[test]
fn the_cluster_of_a_service_is_chosen_as_everywhere() {
    let service = ["monitoring/prometheus:9090"];
    let said = text_of(&doctor(&[&service[..], &["--kubeconfig", "gone", "--as", "eve"]].concat(), &[]));
    assert_eq!(said, "error: no cluster: `gone` does not exist\n");
}
