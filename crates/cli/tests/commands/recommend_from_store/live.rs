//! A live cluster, played by a fake API server: how the store is found and reached, errors without permission, and how
//! recommendations are applied.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;

use headroom_fixtures::api_server::{ApiServer, Outcome, Request, status};
use headroom_fixtures::{files_below, servers};
use serde_json::{Value, json};

use super::{cluster, here, prometheus};
use crate::cluster::Live;
use crate::support::{Said, program, said};
use crate::terminal::terminal;

/// The behaviour of the API server.
#[derive(Default, Clone)]
struct Rules {
    /// The port of the store, which has a Service.
    prometheus: Option<u16>,
    /// A tenant's Service that is called like a store.
    has_hostile_service: bool,
    /// Paths that contain this are forbidden.
    forbidden: Vec<&'static str>,
    has_metrics_api: bool,
    /// True if patches conflict unless forced.
    conflicts: bool,
}

/// A PodMetrics, with the kind that gives it its path.
fn metrics() -> Value {
    let usage = json!([{"name": "front", "usage": {"cpu": "200m", "memory": "200Mi"}}]);
    json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "Pod", "timestamp": jiff::Timestamp::now().to_string(),
        "metadata": {"name": "web-6d4cf56db6-x7x2k", "namespace": "shop"}, "containers": usage})
}

fn service(namespace: &str, name: &str, port: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"name": port, "port": 9090}], "selector": {"a": "b"}}})
}

impl Live {
    fn start(rules: Rules) -> Self {
        let text = fs::read_to_string(here().join("world/shop.yaml")).unwrap();
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for object in &mut objects {
            // Containers in the metrics API need the pod's spec.
            if object["kind"] == "Pod" {
                object["spec"] = json!({"containers": [{"name": "front", "image": "registry.example/shop/app:1.4"}]});
            }
        }
        objects.extend(rules.prometheus.map(|_| service("monitoring", "prometheus-k8s", "web")));
        objects.extend(rules.has_hostile_service.then(|| service("evil", "thanos-query", "http")));
        objects.extend(rules.has_metrics_api.then(metrics));
        let live = Self::new(objects);
        let stored = Arc::clone(&live.server);
        live.server.on_request(move |request| respond(&rules, &stored, request));
        live
    }

    /// Recommends at the end of the tests' history.
    fn recommend(&self, arguments: &str) -> Said {
        self.recommend_now(&format!("--settings {} {arguments}", here().join("moment.yaml").display()))
    }

    fn recommend_now(&self, arguments: &str) -> Said {
        let mut command = program(self.folder.path());
        said(command.env("KUBECONFIG", self.kubeconfig()).arg("recommend").args(arguments.split_whitespace()))
    }
}

fn respond(rules: &Rules, stored: &ApiServer, request: &Request) -> Outcome {
    let path = &request.path;
    if rules.forbidden.iter().any(|part| path.contains(part)) {
        return status(403, &format!("{path} is forbidden: User \"eve\" cannot do that")).into();
    }
    if let Some((_, rest)) = request.uri.to_string().split_once("/services/prometheus-k8s:9090/proxy") {
        let (code, answer) = servers::request(rules.prometheus.unwrap(), &request.method, rest, b"").unwrap();
        return Outcome::Answer(code, serde_json::from_str(&answer).unwrap_or_default());
    }
    match request.method.as_str() {
        "PATCH" if rules.conflicts && request.parameter("force") != Some("true") => {
            status(409, "Apply failed with 1 conflict: conflict with \"helm\": .spec.template").into()
        }
        // Nothing is changed, so that every run finds the same.
        "PATCH" => Outcome::Answer(200, stored.get(path).unwrap()),
        _ => Outcome::Serve,
    }
}

const STORE: &str = "--prometheus monitoring/prometheus-k8s:9090";

#[test]
fn the_store_that_was_chosen_once_is_remembered_for_the_cluster() {
    let store = prometheus(cluster::history(true));
    let server = Live::start(Rules { prometheus: Some(store.port), has_hostile_service: true, ..Rules::default() });
    let settings = here().join("moment.yaml");
    let typed = |answer: &str| {
        let arguments = format!("recommend -o csv --settings {}", settings.display());
        let mut script = terminal(&arguments, server.folder.path());
        script.env("HOME", server.folder.path()).env_remove("XDG_CONFIG_HOME").env("KUBECONFIG", server.kubeconfig());
        let mut running = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        running.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        String::from_utf8(running.wait_with_output().unwrap().stdout).unwrap()
    };
    let shown = typed("7\n");
    assert!(shown.contains("`7` is none of these numbers"), "{shown}");
    let shown = typed("1\n");
    assert!(shown.contains("Which of these") && shown.contains("remembered in `"), "{shown}");
    let said = server.recommend("-o csv");
    let chosen = "using --prometheus monitoring/prometheus-k8s:9090, as chosen before\n";
    assert_eq!((said.code, said.err.starts_with(chosen)), (0, true), "{}", said.err);
}

/// Anybody may call a Service so.
#[test]
fn nothing_is_sent_to_a_service_that_only_looks_like_a_store() {
    // Nothing listens there.
    let server = Live::start(Rules { prometheus: Some(9), has_hostile_service: true, ..Rules::default() });
    let found = "monitoring/prometheus-k8s:9090 (Prometheus), evil/thanos-query:9090 (Thanos)";
    let path = server.folder.path().join("source.yaml");
    let check = |source: &str, expected: String| {
        fs::write(&path, source).unwrap();
        let said = server.recommend(&format!("--source {}", path.display()));
        assert_eq!((said.code, said.err.as_str(), said.out.as_str()), (2, expected.as_str(), ""), "{source}");
    };
    let untrusted = format!(
        "error: found {found}, but anyone who can create a Service can give it such a name: name the store that you \
         trust with --prometheus NAMESPACE/SERVICE:PORT\n"
    );
    check("", untrusted);
    let refused = format!(
        "error: tokens, passwords and headers are sent only to a store that you name: add --prometheus \
         NAMESPACE/SERVICE:PORT (found: {found}), or its URL\n"
    );
    fs::write(server.folder.path().join("secret"), "SECRET").unwrap();
    check("{user: u, passwordFile: secret}", refused.clone());
    check("tokenFile: secret", refused.clone());
    check("headerFiles: {X-Api-Key: secret}", refused.clone());
    check("identity: aws", refused);
    for request in server.server.requests() {
        let target = request.uri.to_string();
        let is_quiet = ["thanos-query", "/proxy", "portforward"].iter().all(|part| !target.contains(part));
        assert!(request.method == "GET" && is_quiet && !format!("{request:?}").contains("SECRET"), "{request}");
    }
}

#[test]
fn missing_permissions_to_reach_the_store_are_named() {
    let store = prometheus(cluster::history(true));
    let rules = Rules { prometheus: Some(store.port), ..Rules::default() };
    let server = Live::start(Rules { forbidden: vec!["/proxy", "portforward"], ..rules.clone() });
    let said = server.recommend(STORE);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("bind it to the Role headroom-metrics there"), "{}", said.err);
    // Without permission to list Services in all namespaces, the usual namespaces are searched.
    let server = Live::start(Rules { forbidden: vec!["/api/v1/services"], ..rules });
    let said = server.recommend("-o json");
    assert_eq!(said.code, 2);
    assert!(said.err.contains("that you trust with --prometheus monitoring/prometheus-k8s:9090"), "{}", said.err);
}

#[test]
fn without_a_store_output_says_that_the_metrics_api_has_no_history() {
    let server = Live::start(Rules { has_metrics_api: true, ..Rules::default() });
    let said = server.recommend_now("deployment/web");
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("no history: the metrics API has one current sample per container"), "{}", said.out);
    assert!(said.out.contains("1min, 1 pod") && said.out.contains("too little data (1min, 1 pod)"), "{}", said.out);
    // Nothing to write, and why.
    let said = server.recommend_now("deployment/web -o kustomize");
    assert_eq!((said.code, said.out.lines().all(|line| line.starts_with('#'))), (0, true), "{}", said.err);
    assert!(said.out.contains("# shop deployment/web front: restarts 3, too little data (1min, 1 pod)"), "{said:?}");
    let server = Live::start(Rules::default());
    let said = server.recommend("");
    assert_eq!(said.code, 2);
    let advice = "error: no Service of the cluster looks like a metrics store; name the store with --prometheus, \
                  by its URL or as NAMESPACE/SERVICE:PORT; ";
    assert!(said.err.starts_with(advice), "{}", said.err);
}

#[test]
fn recommendations_are_applied_after_a_dry_run_and_can_be_rolled_back() {
    let store = prometheus(cluster::history(true));
    let rules = Rules { prometheus: Some(store.port), ..Rules::default() };
    let server = Live::start(rules.clone());
    let patches = |live: &Live| -> Vec<(String, Value)> {
        let asked = live.server.requests().into_iter().filter(|request| request.method == "PATCH");
        asked.map(|request| (request.uri.to_string(), request.body)).collect()
    };
    // There is no terminal for a confirmation, so the patch is only tried.
    let said = server.recommend(&format!("{STORE} statefulset/db --patch -o csv"));
    assert_eq!(said.code, 0, "{}", said.err);
    for part in [
        "1 object in context here (http://127.0.0.1:",
        ") would be changed, and the API server would accept that: pass --yes",
    ] {
        assert!(said.err.contains(part), "{}", said.err);
    }
    let tried = patches(&server);
    assert_eq!(tried.len(), 1);
    let (target, _) = &tried[0];
    assert!(target.contains("dryRun=All") && target.contains("fieldManager=kubectl-headroom"), "{target}");
    let rollbacks = || {
        let mut files = files_below(server.folder.path()).unwrap();
        files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("headroom-rollback-"));
        files
    };
    assert!(rollbacks().is_empty());

    let said = server.recommend(&format!("{STORE} statefulset/db --patch --yes -o csv"));
    assert_eq!(said.code, 0, "{}", said.err);
    let made = patches(&server);
    assert_eq!(made.len(), 3);
    assert!(!made[2].0.contains("dryRun") && !made[2].0.contains("force"), "{}", made[2].0);
    let resources = "/spec/template/spec/containers/0/resources";
    let set = made[2].1.pointer(resources).unwrap();
    assert!(set["limits"]["memory"].is_string() && set["requests"]["cpu"] == "31m", "{set}");
    let rollback = rollbacks().remove(0);
    let text = fs::read_to_string(&rollback).unwrap();
    let back = r#"{"spec":{"template":{"spec":{"containers":[{"name":"postgres","resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"100m","memory":"256Mi"}}}]}}}}"#;
    assert!(text.lines().any(|line| line.starts_with("# in context here (http://127.0.0.1:")), "{text}");
    let command = format!(
        "kubectl --context here patch statefulset.v1.apps/db --namespace shop --type strategic --patch '{back}'"
    );
    assert_eq!(text.lines().last(), Some(command.as_str()));
    // The rollback file of an earlier run is never overwritten.
    server.recommend(&format!("{STORE} statefulset/db --patch --yes"));
    assert_eq!(fs::read_to_string(&rollback).unwrap(), text);

    let server = Live::start(Rules { conflicts: true, ..rules });
    let said = server.recommend(&format!("{STORE} --patch --yes -o csv"));
    assert_eq!(said.code, 1);
    let conflict = "conflict with \"helm\": .spec.template; --force-conflicts takes the fields over";
    assert!(said.err.contains(conflict), "{}", said.err);
    assert!(said.err.contains("nothing was changed: 1 of 1 changes would be rejected"), "{}", said.err);
    assert!(patches(&server).iter().all(|(target, _)| target.contains("dryRun=All")));
}
