//! Errors as a user meets them: one line for one cause, with what to do.

use std::fmt::Write as _;
use std::fs;

use headroom_fixtures::api_server::{kubeconfig, not_found, status};
use headroom_fixtures::http::{FakeServer, answer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::*;

/// Commands and what they answer, as at a terminal.
#[track_caller]
fn transcript(folder: &TempDir, name: &str, commands: &[&str]) {
    let mut text = String::new();
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
        let Said { code, out, err } = headroom(folder.path(), &arguments);
        let place = folder.path().to_str().unwrap();
        let said = (err + &out).replace(place, "~");
        writeln!(text, "$ kubectl headroom {command}\n{said}exit code {code}\n").unwrap();
    }
    snapshot(name, &text);
}

/// A folder with a kubeconfig for a server that answers each path.
fn live(respond: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> (FakeServer, TempDir) {
    let server = FakeServer::start(move |head| {
        let path = head.split(' ').nth(1).unwrap().split('?').next().unwrap();
        let (code, body) = respond(path);
        answer(code, &body.to_string())
    });
    let copy = |file: &str| fs::read_to_string(root().join("docs/examples/shop").join(file)).unwrap();
    let names = ["cluster/namespace.yaml", "cluster/running.yaml", "app/web.yaml", "tighter.yaml"];
    let folder = folder(&names.map(|name| (name, copy(name))).each_ref().map(|(name, text)| (*name, text.as_str())));
    fs::write(folder.path().join("kubeconfig"), kubeconfig(&[("here", &server.url(), "shop")])).unwrap();
    (server, folder)
}

/// All commands that read a cluster.
const READING: [&str; 10] = [
    "check app cluster",
    "explain web",
    "recommend",
    "describe quota",
    "describe limits",
    "describe usage",
    "describe tenantquota",
    "simulate -f tighter.yaml",
    "snapshot -A -o x.json",
    "ledger check",
];

#[track_caller]
fn assert_one_line(folder: &TempDir, expected: &str) {
    for command in READING {
        let arguments: Vec<&str> = command.split(' ').chain(["--kubeconfig", "kubeconfig"]).collect();
        let Said { code, out, err } = headroom(folder.path(), &arguments);
        assert_eq!((code, out.as_str(), err.as_str()), (2, "", expected), "{command}");
    }
}

#[test]
fn an_api_server_that_does_not_know_the_user_is_one_line() {
    let (server, folder) = live(|_| status(401, "Unauthorized"));
    assert_one_line(
        &folder,
        &format!(
            "error: the API server {} does not accept the credentials (Unauthorized): they may have expired, so log in again\n",
            server.url()
        ),
    );
}

#[test]
fn an_api_server_that_cannot_be_reached_is_one_line() {
    let (server, folder) = live(|_| not_found("x"));
    let path = folder.path().join("kubeconfig");
    let kubeconfig = fs::read_to_string(&path).unwrap().replace(&server.url(), "https://127.0.0.1:1");
    fs::write(path, kubeconfig).unwrap();
    assert_one_line(
        &folder,
        "error: cannot reach the API server https://127.0.0.1:1: Connection refused (os error 111)\n",
    );
}

#[test]
fn a_live_check_uses_the_release_of_the_cluster() {
    let autoscaler = "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: shop}\n\
                      spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n";
    for (minor, code) in [("25", 0), ("26+", 1)] {
        let (_server, folder) = live(move |path| match path {
            "/version" => (200, json!({"major": "1", "minor": minor})),
            _ if path.ends_with("/a") || path.ends_with("/web") => not_found("x"),
            _ => (200, json!({"kind": "List", "items": []})),
        });
        fs::write(folder.path().join("hpa.yaml"), autoscaler).unwrap();
        let check = |more: &[&str]| {
            headroom(folder.path(), &[&["check", "hpa.yaml", "--kubeconfig", "kubeconfig"], more].concat())
        };
        let said = check(&[]);
        assert_eq!(said.code, code, "{minor}: {}{}", said.out, said.err);
        // The settings have precedence.
        fs::write(folder.path().join("settings.yaml"), "kubernetesVersion: \"1.30\"\n").unwrap();
        assert_eq!(check(&["--settings", "settings.yaml"]).code, 1);
    }
}

#[test]
fn a_wrong_namespace_of_a_cluster_is_named_with_the_nearest() {
    let (_server, folder) = live(|path| match path {
        "/api/v1/namespaces" => {
            (200, json!({"kind": "List", "items": [{"metadata": {"name": "shop"}}, {"metadata": {"name": "lab"}}]}))
        }
        _ if path.ends_with("/web") => not_found("x"),
        _ if path.ends_with("/quotaledgers") => status(404, "the server could not find the requested resource"),
        _ => (200, json!({"kind": "List", "items": []})),
    });
    transcript(
        &folder,
        "errors-live.txt",
        &[
            "describe quota -n shp --kubeconfig kubeconfig",
            "explain web -n shp --kubeconfig kubeconfig",
            "explain web --kubeconfig kubeconfig",
            "explain web --kubeconfig kubeconfig --context gone",
            "recommend -A --from profiles --kubeconfig kubeconfig",
            "ledger check --kubeconfig kubeconfig",
        ],
    );
}
