//! A live cluster, played by an in-memory server: the requests, and the errors if it refuses.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;

use headroom_fixtures::api_server::{kubeconfig, list, not_found, status};
use headroom_fixtures::http::{FakeServer, answer, header};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::*;

/// An API server and a kubeconfig for it, in a folder with an application.
struct Live {
    server: FakeServer,
    folder: TempDir,
}

const RANGES: &str = "/api/v1/namespaces/shop/limitranges";
const QUOTAS: &str = "/api/v1/namespaces/shop/resourcequotas";
const TENANT_QUOTAS: &str = "/apis/headroom.dev/v1alpha1/tenantquotas";

/// Without estimates, so that no history is read.
const SETTINGS: &str = "estimates: {mode: never}\n";

fn limits() -> Value {
    json!({"metadata": {"name": "limits", "namespace": "shop"}, "spec": {"limits": [
        {"type": "Container", "max": {"memory": "1Gi"}, "default": {"memory": "1Gi"}, "defaultRequest": {"memory": "1Gi"}}]}})
}

fn team(used: &str) -> Value {
    json!({"metadata": {"name": "team", "namespace": "shop"}, "spec": {"hard": {"pods": "3"}},
        "status": {"hard": {"pods": "3"}, "used": {"pods": used}}})
}

impl Live {
    /// Paths without an answer do not exist; paths with `null` are forbidden.
    fn start(answers: Value) -> Self {
        let answers: BTreeMap<String, Value> = serde_json::from_value(answers).unwrap();
        let server = FakeServer::start(move |head| {
            let target = head.split(' ').nth(1).unwrap();
            let (code, object) = match answers.get(target.split('?').next().unwrap()) {
                Some(Value::Null) => status(403, "User \"ann\" cannot list it"),
                Some(found) => (200, found.clone()),
                None => not_found("x"),
            };
            answer(code, &object.to_string())
        });
        let url = server.url();
        let kubeconfig = kubeconfig(&[("here", &url, "shop"), ("lab", &url, "lab")]);
        let app = pod("a", "{limits: {memory: 2Gi}}").replace(", namespace: shop", "");
        let files = [("kubeconfig", kubeconfig), ("app.yaml", app), ("settings.yaml", SETTINGS.to_owned())];
        let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
        Self { server, folder }
    }

    fn headroom(&self, arguments: &[&str]) -> Said {
        headroom(
            self.folder.path(),
            &[arguments, &["--kubeconfig", "kubeconfig", "--settings", "settings.yaml"]].concat(),
        )
    }

    /// The requested paths, in order.
    fn asked(&self) -> Vec<String> {
        let asked = self.server.asked.lock().unwrap();
        asked.iter().map(|head| head.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned()).collect()
    }
}

#[test]
fn manifests_are_evaluated_in_the_namespace_of_the_kubeconfig() {
    let live = Live::start(
        json!({RANGES: list(json!([limits()])), QUOTAS: list(json!([team("1")])), TENANT_QUOTAS: Value::Null}),
    );
    let said = live.headroom(&["check", "-f", "app.yaml"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    assert!(said.out.contains("rejected   pod/a    shop"), "{}", said.out);
    // Without TenantQuotas in the cluster, permissions in the one namespace are sufficient.
    let asked =
        ["/version", "/api/v1/namespaces/shop/pods/a", RANGES, QUOTAS, TENANT_QUOTAS, "/apis/headroom.dev/v1alpha1"];
    assert_eq!(live.asked(), asked);
    let said = live.headroom(&["check", "-f", "app.yaml", "--context", "lab"]);
    assert!(said.out.contains("pod/a    lab"), "{}{}", said.out, said.err);
}

#[test]
fn lists_are_read_once_in_a_run() {
    let live = Live::start(json!({RANGES: list(json!([])), QUOTAS: list(json!([team("1")]))}));
    let pods: Vec<String> = ["a", "b", "c"].iter().map(|name| pod(name, "{}")).collect();
    fs::write(live.folder.path().join("app.yaml"), pods.join("---\n")).unwrap();
    let said = live.headroom(&["check", "-f", "app.yaml"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("3 objects: 1 rejected, 2 admitted"), "{}", said.out);
    assert_eq!(live.asked().iter().filter(|path| *path == QUOTAS).count(), 1);
}

/// Pages read ahead are not read again, unless the API server has forgotten where they go on.
#[test]
fn each_page_of_a_long_list_is_read_once() {
    for forgets in [false, true] {
        let asked_again = Mutex::new(false);
        let server = FakeServer::start(move |head| {
            let page = |from: usize, more: &str| {
                let pods = (from..from + 2)
                    .map(|number| json!({"metadata": {"name": format!("web-{number}"), "namespace": "shop"}}));
                json!({"kind": "List", "metadata": {"continue": more}, "items": pods.collect::<Vec<_>>()})
            };
            let body = match head {
                _ if !head.contains("/api/v1/namespaces/shop/pods?") => list(json!([])),
                _ if head.contains("continue=third") => page(4, ""),
                _ if head.contains("continue=second") => {
                    if forgets && !std::mem::replace(&mut *asked_again.lock().unwrap(), true) {
                        return answer(410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#);
                    }
                    page(2, "third")
                }
                _ => page(0, "second"),
            };
            answer(200, &body.to_string())
        });
        let live = Live::start(json!({}));
        let kubeconfig = fs::read_to_string(live.folder.path().join("kubeconfig")).unwrap();
        fs::write(live.folder.path().join("kubeconfig"), kubeconfig.replace(&live.server.url(), &server.url()))
            .unwrap();
        let said = live.headroom(&["snapshot", "-n", "shop", "-o", "shop.json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let asked = server.asked.lock().unwrap();
        let pages = asked.iter().filter(|head| head.contains("/api/v1/namespaces/shop/pods?")).count();
        assert_eq!(pages, if forgets { 5 } else { 3 });
        let taken = fs::read_to_string(live.folder.path().join("shop.json")).unwrap();
        for number in 0..6 {
            assert_eq!(taken.matches(&format!("\"web-{number}\"")).count(), 1, "{taken}");
        }
    }
}

#[test]
fn all_pages_of_long_lists_are_read() {
    let first = json!({"kind": "List", "metadata": {"continue": "more"}, "items": [team("0")]});
    let second = json!({"kind": "List", "metadata": {}, "items": [
        {"metadata": {"name": "tight", "namespace": "shop"}, "status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}]});
    let server = FakeServer::start(move |head| {
        let body = match head {
            _ if !head.contains("resourcequotas") => list(json!([])),
            _ if head.contains("continue=more") => second.clone(),
            _ => first.clone(),
        };
        if head.contains("/pods/") {
            answer(404, r#"{"kind":"Status","code":404,"message":"no","details":{"name":"a"}}"#)
        } else {
            answer(200, &body.to_string())
        }
    });
    let live = Live::start(json!({}));
    let kubeconfig = fs::read_to_string(live.folder.path().join("kubeconfig")).unwrap();
    fs::write(live.folder.path().join("kubeconfig"), kubeconfig.replace(&live.server.url(), &server.url())).unwrap();
    let said = live.headroom(&["check", "-f", "app.yaml"]);
    assert!(said.out.contains("exceeded quota: tight"), "{}{}", said.out, said.err);
}

#[test]
fn files_override_the_cluster() {
    let live = Live::start(json!({RANGES: list(json!([limits()])), QUOTAS: list(json!([team("3")]))}));
    fs::create_dir(live.folder.path().join("files")).unwrap();
    fs::write(live.folder.path().join("files/range.yaml"), limit_range("limits", "max: {memory: 4Gi}")).unwrap();
    let said = live.headroom(&["check", "-f", "app.yaml", "--cluster-dir", "files"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("exceeded quota: team") && !said.out.contains("maximum memory"), "{}", said.out);
}

#[test]
fn forbidden_reads_are_reported_and_exit_with_2() {
    let live = Live::start(json!({RANGES: Value::Null, QUOTAS: list(json!([]))}));
    let said = live.headroom(&["check", "-f", "app.yaml"]);
    assert_eq!((said.code, said.err.as_str()), (2, ""));
    snapshot("check-forbidden.table", &said.out);
    // If the settings allow it, there is only a warning.
    fs::write(live.folder.path().join("settings.yaml"), format!("{SETTINGS}onMissingContext: warn\n")).unwrap();
    let said = live.headroom(&["check", "-f", "app.yaml"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let expected =
        "warning: cannot read limitranges in namespace shop: User \"ann\" cannot list it; evaluated without it\n";
    assert!(said.out.contains(expected), "{}", said.out);
    // Other reasons still refuse.
    let live = Live::start(json!({RANGES: Value::Null, QUOTAS: list(json!([team("3")]))}));
    assert_eq!(live.headroom(&["check", "-f", "app.yaml"]).code, 1);
}

#[test]
fn no_error_shows_a_credential_that_the_server_repeats() {
    let server = FakeServer::start(|head| {
        let sent = header(head, "authorization").unwrap_or_default();
        let (code, object) = status(403, &format!("no limits for `{sent}`"));
        answer(code, &object.to_string())
    });
    let check = |user: &Value, scheme: &str| {
        let kubeconfig =
            kubeconfig(&[("here", &server.url(), "shop")]).replace(r#""user":{}"#, &format!(r#""user":{user}"#));
        let files = [("kubeconfig", kubeconfig.as_str()), ("app.yaml", &pod("a", "{}")), ("token", "s3cret")];
        let folder = folder(&files);
        let said = headroom(folder.path(), &["check", "-f", "app.yaml", "--kubeconfig", "kubeconfig"]);
        assert_eq!(said.code, 2, "{}", said.err);
        // The base64 of `ann:s3cret`.
        let is_shown = ["s3cret", "YW5uOnMzY3JldA=="].iter().any(|secret| said.out.contains(secret));
        assert!(said.out.contains(&format!("no limits for `{scheme} ***`")) && !is_shown, "{}", said.out);
    };
    let plugin = |status: Value| {
        let (version, kind) = ("client.authentication.k8s.io/v1", "ExecCredential");
        let said = json!({"apiVersion": version, "kind": kind, "status": status}).to_string();
        json!({"exec": {"apiVersion": version, "command": "echo", "args": [said], "interactiveMode": "Never"}})
    };
    check(&json!({"token": "s3cret"}), "Bearer");
    check(&json!({"tokenFile": "token"}), "Bearer");
    check(&json!({"username": "ann", "password": "s3cret"}), "Basic");
    check(&plugin(json!({"token": "s3cret"})), "Bearer");
    check(&plugin(json!({"token": "s3cret", "expirationTimestamp": "2126-01-01T00:00:00Z"})), "Bearer");
}

/// As kubectl: most editors end a file with a newline.
#[test]
fn the_token_of_a_file_is_sent_without_the_space_around_it() {
    let server = FakeServer::start(|head| match header(head, "authorization") {
        Some("Bearer s3cret") => answer(200, &list(json!([])).to_string()),
        sent => {
            let (code, object) = status(401, &format!("unknown: {sent:?}"));
            answer(code, &object.to_string())
        }
    });
    let check = |user: &Value, token: &str, expected: &str| {
        let kubeconfig = kubeconfig(&[("here", &server.url(), "shop")]);
        let kubeconfig = kubeconfig.replace(r#""user":{}"#, &format!(r#""user":{user}"#));
        let files = [("kubeconfig", kubeconfig.as_str()), ("app.yaml", &pod("a", "{}")), ("token", token)];
        let folder = folder(&files);
        let said = headroom(folder.path(), &["check", "-f", "app.yaml", "--kubeconfig", "kubeconfig"]);
        let path = folder.path().join("token").display().to_string();
        assert_eq!(said.err.replace(&path, "token"), expected, "{}", said.out);
    };
    check(&json!({"tokenFile": "token"}), " s3cret\r\n", "");
    check(&json!({"tokenFile": "token", "token": "old"}), "s3cret\n", "");
    check(&json!({"tokenFile": "token", "token": "s3cret"}), "\n", "");
    check(&json!({"tokenFile": "token"}), "\n", "error: the tokenFile `token` is empty\n");
}

#[test]
fn an_unreachable_cluster_is_reported() {
    let live = Live::start(json!({}));
    let kubeconfig = fs::read_to_string(live.folder.path().join("kubeconfig")).unwrap();
    fs::write(live.folder.path().join("kubeconfig"), kubeconfig.replace(&live.server.url(), "http://127.0.0.1:1"))
        .unwrap();
    let said = live.headroom(&["explain", "a"]);
    assert_eq!(said.code, 2);
    assert_eq!(said.err, "error: cannot reach the API server http://127.0.0.1:1: Connection refused (os error 111)\n");
    // An earlier snapshot is kept.
    fs::write(live.folder.path().join("shop.json"), "taken before").unwrap();
    let said = live.headroom(&["snapshot", "-o", "shop.json"]);
    let expected = "error: cannot reach the API server http://127.0.0.1:1: Connection refused";
    assert!(said.code == 2 && said.err.starts_with(expected), "{}", said.err);
    assert_eq!(fs::read_to_string(live.folder.path().join("shop.json")).unwrap(), "taken before");
    let said = live.headroom(&["explain", "a", "--context", "gone"]);
    assert!(
        said.code == 2
            && said.err.contains("no cluster: the kubeconfig has no context `gone`; it has here, lab")
            && said.err.contains("gone"),
        "{}",
        said.err
    );
}

#[test]
fn a_running_pod_is_explained_from_the_cluster() {
    let running = json!({"metadata": {"name": "a", "namespace": "shop", "uid": "1"}, "spec": {"containers": [
        {"name": "app", "image": "app:1", "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}}]}});
    let live = Live::start(json!({
        "/api/v1/namespaces/shop/pods/a": running, RANGES: list(json!([limits()])), QUOTAS: list(json!([team("3")]))}));
    let said = live.headroom(&["explain", "a"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    snapshot("explain-cluster.text", &said.out);
}

#[test]
fn contents_of_secrets_are_never_requested() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n";
    let live = Live::start(json!({QUOTAS: list(json!([]))}));
    fs::write(live.folder.path().join("secret.yaml"), secret).unwrap();
    assert_eq!(live.headroom(&["check", "-f", "secret.yaml"]).code, 0);
    let asked = live.server.asked.lock().unwrap();
    let get = asked.iter().find(|head| head.contains("/secrets/s")).unwrap();
    assert!(get.contains("as=PartialObjectMetadata"), "{get}");
}

#[test]
fn a_simulation_reports_kinds_that_cannot_be_listed() {
    let live = Live::start(
        json!({RANGES: list(json!([])), QUOTAS: list(json!([])), "/api/v1/namespaces/shop/pods": Value::Null}),
    );
    fs::write(live.folder.path().join("new.yaml"), limit_range("limits", "max: {memory: 4Gi}")).unwrap();
    let said = live.headroom(&["simulate", "-f", "new.yaml"]);
    assert_eq!(said.code, 2);
    assert!(
        said.out.contains("not read: cannot read pods in namespace shop: User \"ann\" cannot list it"),
        "{}",
        said.out
    );
}
