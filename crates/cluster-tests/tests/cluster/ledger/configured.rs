//! A replica with the rights of `deploy/ledger` and no others, which makes its certificate and its webhook configuration.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headroom_cluster_tests::cluster::{Cluster, create, resource};
use headroom_cluster_tests::control_plane::{Controllers, InTreePlugins};
use headroom_companion::ledger::check::check;
use headroom_companion::ledger::configure::Webhook;
use headroom_companion::ledger::{Options, Replica, api};
use headroom_testkit::built::workspace_file;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::replicas::{free_address, until};

const LEDGER: &str = "system:serviceaccount:headroom:headroom-ledger";

async fn pod(client: &Client, namespace: &str, name: &str) -> Result<(), String> {
    let pod = crate::objects::pod(namespace, name, json!({}));
    create(client, pod).await.map(|_| ()).map_err(|error| error.to_string())
}

async fn namespace(client: &Client, name: &str) {
    let metadata = json!({"name": name, "labels": {"tenant": "payments"}});
    create(client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await.unwrap();
}

/// Tries until the outcome is as expected: the API server hears of webhooks by a watch.
async fn eventually<T, F: Future<Output = T>>(what: &str, attempt: impl Fn() -> F, is_it: impl Fn(&T) -> bool)
where
    T: std::fmt::Debug,
{
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let outcome = attempt().await;
        if is_it(&outcome) {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {outcome:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn it_configures_itself_and_restores_what_is_removed() {
    let cluster = Cluster::start(InTreePlugins::Off, Controllers::Off).await.unwrap();
    let kubectl = |arguments: &[&str]| {
        let output = cluster.kubectl().unwrap().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for manifest in ["crds.yaml", "namespace.yaml", "rbac.yaml"] {
        let path = workspace_file("deploy/ledger").join(manifest);
        kubectl(&["apply", "--namespace=headroom", "-f", path.to_str().unwrap()]);
    }
    kubectl(&["wait", "--for=condition=established", "--timeout=60s", "crd", "--all"]);
    // No controller aggregates here.
    kubectl(&[
        "create",
        "clusterrolebinding",
        "counted",
        "--clusterrole=headroom-ledger-counted-builtin",
        &format!("--user={LEDGER}"),
    ]);
    kubectl(&["create", "clusterrolebinding", "own", "--clusterrole=headroom-ledger", &format!("--user={LEDGER}")]);
    kubectl(&[
        "create",
        "rolebinding",
        "own",
        "--role=headroom-ledger",
        "--namespace=headroom",
        &format!("--user={LEDGER}"),
    ]);
    let client = cluster.client().await.unwrap();
    let address = free_address().await;
    let webhook = Webhook {
        service: "headroom-ledger".to_owned(),
        url: Some(format!("https://{address}")),
        makes_certificate: true,
    };
    let options = Options { webhook: Some(webhook), drain: Duration::from_millis(100), ..Options::new("headroom") };
    let stop = CancellationToken::new();
    let replica = Replica::new(options, cluster.client_as(LEDGER).await.unwrap(), stop.clone());
    let serving = tokio::spawn(Arc::clone(&replica).serve(TcpListener::bind(address).await.unwrap(), None));
    until("it is ready", || replica.is_ready()).await;
    namespace(&client, "shop").await;
    let quota = |hard: &str| {
        json!({
            "apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": "payments"},
            "spec": {"namespaces": {"selector": {"matchLabels": {"tenant": "payments"}}}, "quota": {"hard": {"pods": hard}}},
        })
    };
    create(&client, quota("3")).await.unwrap();

    // Dry runs, until the API server asks: whatever is stored before that is counted, and not refused.
    let dry_run = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
    let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), "shop", &resource("v1", "Pod"));
    let probe: DynamicObject = serde_json::from_value(crate::objects::pod("shop", "probe", json!({}))).unwrap();
    let is_asked = || async {
        drop(pods.create(&dry_run, &probe).await);
        replica.metrics.allowed.get() > 0
    };
    eventually("the API server asks", is_asked, |asked| *asked).await;
    let at = std::sync::atomic::AtomicUsize::new(0);
    let next = || {
        let at = at.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let client = client.clone();
        async move { pod(&client, "shop", &format!("web-{at}")).await }
    };
    let is_refused =
        |outcome: &Result<(), String>| outcome.as_ref().is_err_and(|text| text.contains("exceeded quota: payments"));
    eventually("a pod too many is refused", next, is_refused).await;

    // A quota that contradicts itself is refused, and one with an unknown parent told.
    let mut wrong = quota("1");
    wrong["metadata"]["name"] = json!("wrong");
    wrong["spec"]["quota"]["scopes"] = json!(["Sometimes"]);
    let refused = create(&client, wrong).await.unwrap_err().to_string();
    assert!(refused.contains("spec.quota.scopes: unsupported scope"), "{refused}");

    // A namespace that has just come is charged at once.
    namespace(&client, "new").await;
    let outcome = pod(&client, "new", "web-0").await;
    assert!(is_refused(&outcome), "{outcome:?}");

    // Its status tells all that.
    let quotas: Api<DynamicObject> = Api::all_with(client.clone(), &resource("headroom.dev/v1alpha1", "TenantQuota"));
    let status = || async { quotas.get("payments").await.unwrap().data["status"].clone() };
    eventually("the status is written", status, |status| {
        status["used"]["pods"] == "3"
            && status["namespaceCount"] == 2
            && status["request"] == "pods: 3/3"
            && status["conditions"].as_array().is_some_and(|all| all.iter().all(|one| one["status"] == "True"))
    })
    .await;

    // Whatever is removed comes back, and nothing gets through twice.
    let configurations: Api<DynamicObject> =
        Api::all_with(client.clone(), &resource("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"));
    drop(configurations.delete("headroom-ledger", &DeleteParams::default()).await.unwrap());
    let is_there = || async { configurations.get_opt("headroom-ledger").await.unwrap().is_some() };
    eventually("the configuration is restored", is_there, |is| *is).await;
    let ledgers: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "headroom", &resource("headroom.dev/v1alpha1", "QuotaLedger"));
    drop(ledgers.delete("payments", &DeleteParams::default()).await.unwrap());
    let used = || async {
        let ledger = ledgers.get_opt("payments").await.unwrap();
        ledger.map(|ledger| ledger.data["used"][0].clone())
    };
    eventually("the ledger is restored", used, |used| *used == Some(json!("pods=3"))).await;
    let broken = json!({"used": ["nonsense"]});
    ledgers.patch("payments", &PatchParams::default(), &Patch::Merge(broken)).await.unwrap();
    eventually("an edited ledger is counted anew", used, |used| *used == Some(json!("pods=3"))).await;

    // More room, and a recount that agrees.
    let more = json!({"spec": {"quota": {"hard": {"pods": "5"}}}});
    quotas.patch("payments", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    let name = std::sync::atomic::AtomicUsize::new(0);
    let try_new = || {
        let (client, at) = (client.clone(), name.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        async move { pod(&client, "new", &format!("more-{at}")).await }
    };
    eventually("there is room again", try_new, Result::is_ok).await;
    let recount = || async { check(&api::Api::new(client.clone()), "headroom", &[]).await.unwrap() };
    eventually("a recount agrees", recount, |report| report.is_true() && report.claims == 0 && report.ledgers == 1)
        .await;
    stop.cancel();
    serving.await.unwrap().unwrap();
}
