//! `--patch`: dry run, refusal as a whole, execution on request, and rollback.

use std::path::{Path, PathBuf};
use std::process::Command;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::command_recommend::scene::{MONITORING, STORE, Scene, pods};
use crate::guarded_namespace::eventually;

const DAN: &str = "dan";

/// The script that puts everything back, if there is one; each run has its own.
fn rollback(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("headroom-rollback-"))
}

/// The API server's version with several metrics; 1.23 is the first with the newer one.
fn autoscaling(scene: &Scene) -> &'static str {
    match scene.shop.cluster.serves("autoscaling/v2", "HorizontalPodAutoscaler") {
        true => "autoscaling/v2",
        false => "autoscaling/v2beta2",
    }
}

/// Scales the Deployment at 70 % of its CPU request.
fn autoscaler(api_version: &str, namespace: &str) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 70});
    json!({"apiVersion": api_version, "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}})
}

async fn target_of(scene: &Scene) -> u64 {
    let autoscaler = scene.shop.all(autoscaling(scene), "HorizontalPodAutoscaler").get("web").await.unwrap();
    autoscaler.data["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"].as_u64().unwrap()
}

fn containers(deployment: &DynamicObject) -> Value {
    deployment.data["spec"]["template"]["spec"]["containers"].clone()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn a_patch_is_tried_then_applied_and_can_be_rolled_back() {
    crate::skip_without!("kube-controller-manager");
    let scene = Scene::start().await;
    let shop = scene.shop.namespace.as_str();
    scene.bind(DAN, shop, "clusterrole/edit", &["patch", "deployments.apps"]);
    scene.grant(DAN, MONITORING, "metrics-reader.yaml", "role/headroom-metrics", &["get", "services/proxy"]);
    scene.shop.create(autoscaler(autoscaling(&scene), shop)).await.unwrap();
    let before = scene.deployment().await;
    let patch = |more: &[&str]| {
        let recommend = ["recommend", "-n", shop, "--prometheus", STORE, "-o", "csv", "--patch"];
        scene.run_as(DAN, &[&recommend, more].concat())
    };
    let is_as_before = |deployment: &DynamicObject| {
        deployment.metadata.generation == before.metadata.generation && containers(deployment) == containers(&before)
    };

    // The Deployment's creator owns its requests.
    let said = patch(&["--yes"]);
    assert_eq!(said.exit, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("--force-conflicts takes the fields over"), "{}", said.err);
    assert!(said.err.contains("nothing was changed"), "{}", said.err);
    // There is no terminal for a confirmation, so the patch is only tried.
    let said = patch(&["--force-conflicts"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    assert!(said.err.contains("the API server would accept that: pass --yes"), "{}", said.err);
    assert!(is_as_before(&scene.deployment().await));
    assert_eq!(target_of(&scene).await, 70);
    assert_eq!(rollback(scene.folder.path()), None);
    let requests = scene.requests_by(DAN);
    let tried: Vec<&str> =
        requests.iter().filter(|request| request.verb == "patch").map(|request| request.uri.as_str()).collect();
    assert!(!tried.is_empty() && tried.iter().all(|uri| uri.contains("dryRun=All")), "{tried:?}");

    let said = patch(&["--force-conflicts", "--yes"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    let after = scene.deployment().await;
    let resources = &containers(&after)[0]["resources"];
    let is_less = |name: &str| resources["requests"][name] != containers(&before)[0]["resources"]["requests"][name];
    assert!(is_less("cpu") && is_less("memory"), "{resources}");
    // The same usage is a larger share of the new request.
    let target = target_of(&scene).await;
    assert!(target > 70, "{target}");
    eventually("a pod has the new requests", async || {
        let found = pods(&scene.shop, 1).await;
        let is_there = found.iter().any(|pod| pod.data["spec"]["containers"][0]["resources"] == *resources);
        is_there.then_some(()).ok_or(resources.to_string())
    })
    .await;
    // Only these two objects were written, each after a dry run; the target was raised after the request was lowered.
    let requests = scene.requests_by(DAN);
    let written: Vec<_> = requests.iter().filter(|request| !matches!(request.verb.as_str(), "get" | "list")).collect();
    assert!(written.iter().all(|request| request.verb == "patch"), "{written:?}");
    let made = written.iter().filter(|request| !request.uri.contains("dryRun=All")).map(|request| request.uri.as_str());
    let made: Vec<&str> = made.map(|uri| uri.split('?').next().unwrap()).collect();
    let of = |group: &str, resource: &str| format!("/apis/{group}/namespaces/{shop}/{resource}/web");
    assert_eq!(made, [of("apps/v1", "deployments"), of(autoscaling(&scene), "horizontalpodautoscalers")]);

    let programs = scene.shop.cluster.control_plane.as_ref().unwrap().programs();
    let path = std::env::join_paths([programs.to_owned(), "/usr/bin".into(), "/bin".into()]).unwrap();
    let output = Command::new("sh")
        .arg(rollback(scene.folder.path()).unwrap())
        .env("PATH", path)
        .env("KUBECONFIG", scene.shop.cluster.kubeconfig_file().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(containers(&scene.deployment().await), containers(&before));
    assert_eq!(target_of(&scene).await, 70);
}
