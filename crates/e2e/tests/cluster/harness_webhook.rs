//! An API server calls our webhooks over HTTPS and follows their answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use headroom_e2e::cluster::{Cluster, LABEL, create};
use headroom_e2e::control_plane::Controllers;
use headroom_e2e::webhook::WebhookServer;
use serde_json::{Value, json};

/// Labels every pod at `/mutate`; at `/validate`, refuses pods named `forbidden` and warns about all others.
fn review(path: &str, request: &Value) -> Value {
    match path {
        "/mutate" => {
            let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]);
            json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
        }
        "/validate" if request.get("name").is_some_and(|name| name == "forbidden") => {
            json!({"allowed": false, "status": {"message": "this name is forbidden", "code": 403}})
        }
        "/validate" => {
            let seen = request.pointer("/object/metadata/labels/seen").and_then(Value::as_str);
            json!({"allowed": true, "warnings": [format!("the label says {}", seen.unwrap_or("nothing"))]})
        }
        _ => json!({"allowed": false}),
    }
}

fn configuration(kind: &str, namespace: &str, client_config: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": namespace, "labels": {LABEL: namespace}},
        "webhooks": [{
            "name": "test.headroom.dev",
            "clientConfig": client_config,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {LABEL: namespace}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }],
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn patches_refusals_and_warnings_reach_the_client() {
    let cluster = Cluster::of_environment(Controllers::Off).await.unwrap();
    let client = cluster.client().await.unwrap();
    let namespace = cluster.new_namespace("hooked").await.unwrap();
    let webhook = WebhookServer::start(review).await.unwrap();
    for (kind, path) in [("MutatingWebhookConfiguration", "/mutate"), ("ValidatingWebhookConfiguration", "/validate")] {
        create(&client, configuration(kind, &namespace, webhook.client_config(path))).await.unwrap();
    }
    let label = format!("{LABEL}={namespace}");
    let labelled = cluster.kubectl().unwrap().args(["label", "namespace", &namespace, &label]).output().unwrap();
    assert!(labelled.status.success());

    let run = |name: &str| {
        let mut command = cluster.kubectl().unwrap();
        command.args(["run", name, "--image=nginx", "-n", &namespace, "-o", "jsonpath={.metadata.labels}"]);
        command.output().unwrap()
    };
    // New configurations take effect when the API server has seen them.
    let mut allowed = run("allowed-0");
    for attempt in 1..50 {
        if !allowed.stderr.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        allowed = run(&format!("allowed-{attempt}"));
    }
    assert_eq!(String::from_utf8_lossy(&allowed.stderr), "Warning: the label says yes\n");
    assert_eq!(String::from_utf8_lossy(&allowed.stdout), r#"{"seen":"yes"}"#);
    let refused = run("forbidden");
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("denied the request: this name is forbidden"), "{message}");
}
