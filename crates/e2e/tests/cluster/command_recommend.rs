//! `kubectl headroom recommend --patch` at a real API server: dry run, refusal as a whole, execution on request, and rollback.

use std::path::{Path, PathBuf};
use std::process::Command;

use headroom_api_server::clock::now;
use headroom_e2e::cluster::{api_in, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_fixtures::files_below;
use headroom_fixtures::open_metrics::OpenMetrics;
use headroom_fixtures::servers::PrometheusServer;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::audit_log::AuditLog;
use crate::guarded_namespace::eventually;
use crate::objects::deployment;

const DAN: &str = "dan";

/// No request that an author wrote is lowered by less.
const SECONDS: i64 = 4 * 86_400;

/// Days of metrics of cAdvisor and kube-state-metrics for pods that use a third of a core and 200Mi.
fn history(namespace: &str, pods: &[String]) -> String {
    let (begin, mut history) = (now() / 60 * 60 - SECONDS, OpenMetrics::default());
    for pod in pods {
        let place = format!(r#"namespace="{namespace}",pod="{pod}",container="web""#);
        let used = (0..=SECONDS).step_by(60).map(|second| (begin + second, second / 3, 200 << 20));
        history.add_container(&place, "registry.example.com/shop/web:1", used);
    }
    history.to_string()
}

/// The names of the namespace's pods, as soon as there are so many, whose requests are wanted.
async fn pods(all: &Api<DynamicObject>, count: usize, is_wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    eventually("pods are created", async || {
        let pods = all.list(&ListParams::default()).await.unwrap().items;
        let wanted = pods.into_iter().filter(|pod| is_wanted(&pod.data["spec"]["containers"][0]["resources"]));
        let names: Vec<String> = wanted.filter_map(|pod| pod.metadata.name).collect();
        if names.len() >= count { Ok(names) } else { Err(format!("{} of {count}", names.len())) }
    })
    .await
}

/// The script that puts everything back, if there is one; each run has its own.
fn rollback(folder: &Path) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("headroom-rollback-");
    files_below(folder).unwrap().into_iter().find(is_it)
}

/// Scales the Deployment at 70 % of its CPU request.
fn autoscaler(api_version: &str, namespace: &str) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 70});
    json!({"apiVersion": api_version, "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}})
}

fn containers(deployment: &DynamicObject) -> Value {
    deployment.data["spec"]["template"]["spec"]["containers"].clone()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn a_patch_is_tried_then_applied_and_can_be_rolled_back() {
    crate::skip_without!("kube-controller-manager");
    let (cluster, audit) = AuditLog::start(InTreePlugins::On, Controllers::On).await;
    let (client, shop) = (cluster.client().await.unwrap(), cluster.new_namespace("shop").await.unwrap());
    let requested = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}});
    create(&client, deployment(&shop, 2, requested)).await.unwrap();
    // 1.23 is the first with the newer version.
    let autoscaling = match cluster.serves("autoscaling/v2", "HorizontalPodAutoscaler") {
        true => "autoscaling/v2",
        false => "autoscaling/v2beta2",
    };
    create(&client, autoscaler(autoscaling, &shop)).await.unwrap();
    let all_pods = api_in(&client, &shop, "v1", "Pod");
    let history = history(&shop, &pods(&all_pods, 2, |_| true).await);
    let store = PrometheusServer { history, ..PrometheusServer::default() }.start();
    let (role, user) = (format!("--user={DAN}"), "--clusterrole=edit");
    cluster.run_kubectl(&["create", "rolebinding", DAN, "-n", &shop, &role, user]).unwrap();
    eventually("the binding is effective", async || {
        let can = ["auth", "can-i", "patch", "deployments.apps", "-n", &shop, "--as", DAN];
        cluster.run_kubectl(&can).map(drop).map_err(|error| error.to_string())
    })
    .await;

    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = cluster.kubeconfig_file().unwrap();
    let patch = |more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom-under-test"));
        program.args(["recommend", "-n", &shop, "--prometheus", &store.url(), "-o", "csv", "--patch", "--as", DAN]);
        let output = program.args(more).current_dir(&folder).env("KUBECONFIG", &kubeconfig).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let deployments = api_in(&client, &shop, "apps/v1", "Deployment");
    let current = async || deployments.get("web").await.unwrap();
    let autoscalers = api_in(&client, &shop, autoscaling, "HorizontalPodAutoscaler");
    let target = async || {
        let autoscaler = autoscalers.get("web").await.unwrap();
        autoscaler.data["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"].as_u64().unwrap()
    };
    let before = current().await;
    // The requests of the user by our program that are no reads.
    let written = || {
        audit.requests(|event| {
            let is_kubectl = event["userAgent"].as_str().unwrap_or_default().starts_with("kubectl/");
            let is_read = event["verb"] == "get" || event["verb"] == "list";
            event["impersonatedUser"]["username"] == DAN && !is_kubectl && !is_read
        })
    };

    // The Deployment's creator owns its requests.
    let (code, said) = patch(&["--yes"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("--force-conflicts takes the fields over") && said.contains("nothing was changed"), "{said}");
    // There is no terminal for a confirmation, so the patch is only tried.
    let (code, said) = patch(&["--force-conflicts"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the API server would accept that: pass --yes"), "{said}");
    let tried = current().await;
    assert_eq!((tried.metadata.generation, containers(&tried)), (before.metadata.generation, containers(&before)));
    assert_eq!((target().await, rollback(folder.path())), (70, None));
    let tried = written();
    assert!(!tried.is_empty() && tried.iter().all(|request| request.uri.contains("dryRun=All")), "{tried:?}");

    let (code, said) = patch(&["--force-conflicts", "--yes"]);
    assert_eq!(code, 0, "{said}");
    let after = current().await;
    let resources = &containers(&after)[0]["resources"];
    let is_less = |name: &str| resources["requests"][name] != containers(&before)[0]["resources"]["requests"][name];
    assert!(is_less("cpu") && is_less("memory"), "{resources}");
    // The same usage is a larger share of the new request.
    assert!(target().await > 70);
    pods(&all_pods, 1, |of_pod| of_pod == resources).await;
    // Only these two objects were written, each after a dry run; the target was raised after the request was lowered.
    let written = written();
    assert!(written.iter().all(|request| request.verb == "patch"), "{written:?}");
    let made = written.iter().filter(|request| !request.uri.contains("dryRun=All")).map(|request| request.uri.as_str());
    let made: Vec<&str> = made.map(|uri| uri.split('?').next().unwrap()).collect();
    let of = |group: &str, resource: &str| format!("/apis/{group}/namespaces/{shop}/{resource}/web");
    assert_eq!(made, [of("apps/v1", "deployments"), of(autoscaling, "horizontalpodautoscalers")]);

    let programs = cluster.control_plane.as_ref().unwrap().programs();
    let path = std::env::join_paths([programs.to_owned(), "/usr/bin".into(), "/bin".into()]).unwrap();
    let mut script = Command::new("sh");
    let script = script.arg(rollback(folder.path()).unwrap()).env("PATH", path).env("KUBECONFIG", &kubeconfig);
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((containers(&current().await), target().await), (containers(&before), 70));
}
