//! Objects that grow and shrink, quotas that change under load, and the absence of all replicas.

use std::time::Duration;

use headroom_e2e::cluster::{api, api_in, create, resource};
use headroom_quota_server::review;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::replicas::{Ledger, NAMESPACES, Tally, until};
use headroom_quota_server::ledger_cache::View;

const SERVICES: usize = 24;

async fn change(ledger: &Ledger, name: &str, spec: Value) {
    let quotas = api(&ledger.client, "headroom.dev/v1alpha1", "TenantQuota");
    quotas.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
}

/// Waits until both replicas enforce a bound.
async fn is_in_force(ledger: &Ledger, quota: &str, hard: &str) {
    let is = |which: usize| {
        let views = ledger.replica(which).unwrap().ledgers.views();
        let mut nodes = views.iter().flat_map(|view| &view.plan.nodes);
        nodes.any(|node| node.quota == quota && node.hard.get("pods").is_some_and(|pods| pods.to_string() == hard))
    };
    until("the bound is in force", || is(0) && is(1)).await;
}

/// Many services switch to NodePort and back concurrently, several times each: never more than there is room for, and
/// no usage remains.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn updates_that_grow_and_shrink_are_exact() {
    let ledger =
        Ledger::start(json!({"pods": "50", "services": SERVICES.to_string(), "services.nodeports": "7"})).await;
    let services = |namespace: &str| -> Api<DynamicObject> { api_in(&ledger.client, namespace, "v1", "Service") };
    let name = |at: usize| format!("web-{at}");
    for at in 0..SERVICES {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name(at)},
            "spec": {"ports": [{"port": 80}]}});
        let service = serde_json::from_value(service).unwrap();
        services(NAMESPACES[at % 2]).create(&kube::api::PostParams::default(), &service).await.unwrap();
    }
    let patch = |at: usize, kind: &'static str| {
        let api = services(NAMESPACES[at % 2]);
        async move {
            let patch = match kind {
                "NodePort" => json!({"spec": {"type": kind}}),
                _ => json!({"spec": {"type": kind, "ports": [{"port": 80, "nodePort": null}]}}),
            };
            api.patch(&name(at), &PatchParams::default(), &Patch::Merge(patch)).await
        }
    };
    let node_ports = async || {
        let mut count = 0;
        for namespace in NAMESPACES {
            let list = services(namespace).list(&kube::api::ListParams::default()).await.unwrap().items;
            count += list.iter().filter(|service| service.data["spec"]["type"] == "NodePort").count();
        }
        count
    };
    for round in 0..3 {
        // Each service is changed twice concurrently, so some updates conflict.
        let growing = (0..SERVICES * 2).map(|at| patch(at % SERVICES, "NodePort"));
        let mut tally = Tally::of(futures::future::join_all(growing).await);
        // Two patches of one service that allocates ports conflict in the API server itself.
        tally.wrong.retain(|wrong| !wrong.contains("please apply your changes to the latest version"));
        let stored = node_ports().await;
        assert_eq!((stored, &tally.wrong), (7, &Vec::new()), "round {round}: {tally:?}");
        let shrinking = (0..SERVICES).map(|at| patch(at, "ClusterIP"));
        let tally = Tally::of(futures::future::join_all(shrinking).await);
        assert_eq!((tally.stored, node_ports().await), (SERVICES, 0), "{tally:?}");
        // Shrinking is credited when the leader sees it.
        let is_credited = || {
            let views = ledger.replica(0).unwrap().ledgers.views();
            let ports = views[0].state.used[0].get("services.nodeports");
            ports.is_some_and(headroom_admission::amount::Quantity::is_zero) && views[0].state.claims.is_empty()
        };
        until("it is credited", is_credited).await;
    }
}

/// Claims grow and pods get deadlines concurrently: exactly as many as there is room for.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn claims_that_grow_and_deadlines_that_are_added_are_exact() {
    const COUNT: usize = 12;
    let ledger = Ledger::start(json!({"pods": "50", "requests.storage": "24Gi"})).await;
    let short = json!({"namespaces": {"selector": {"matchLabels": {"tenant": "payments"}}}});
    ledger.scoped_quota("short", short, json!({"hard": {"pods": "5"}, "scopes": ["Terminating"]})).await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "growing"},
        "provisioner": "example.com/none", "allowVolumeExpansion": true});
    create(&ledger.client, class).await.unwrap();
    let claims = |at: usize| -> Api<DynamicObject> {
        let kind = resource("v1", "PersistentVolumeClaim");
        Api::namespaced_with(ledger.client.clone(), NAMESPACES[at % 2], &kind)
    };
    let (claim, pod) = (|at: usize| format!("data-{at}"), |at: usize| format!("pod-{at}"));
    for at in 0..COUNT {
        // Only a bound claim may grow.
        let object = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim(at), "namespace": NAMESPACES[at % 2]},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "growing", "volumeName": claim(at),
                "resources": {"requests": {"storage": "1Gi"}}}});
        create(&ledger.client, object).await.unwrap();
        let bound = Patch::Merge(json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}));
        claims(at).patch_status(&claim(at), &PatchParams::default(), &bound).await.unwrap();
        ledger.create_pod(NAMESPACES[at % 2], json!({"name": pod(at)}), false).await.unwrap();
    }
    let patch = async |api: Api<DynamicObject>, name: String, spec: Value| {
        api.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await
    };
    let grow = |at| patch(claims(at), claim(at), json!({"resources": {"requests": {"storage": "3Gi"}}}));
    let end = |at| patch(ledger.pods(NAMESPACES[at % 2]), pod(at), json!({"activeDeadlineSeconds": 3600}));
    let (grown, ended) =
        tokio::join!(futures::future::join_all((0..COUNT).map(grow)), futures::future::join_all((0..COUNT).map(end)));
    // 12 of 24Gi are used, and each claim that grows needs 2 more.
    assert_eq!(Tally::of(grown), Tally { stored: 6, refused: 6, ..Tally::default() });
    assert_eq!(Tally::of(ended), Tally { stored: 5, refused: 7, ..Tally::default() });
    ledger.clean(Duration::from_secs(2)).await;
}

/// A bound is raised and lowered, a parent and an overlapping quota are added, a namespace leaves and joins again, all
/// while pods are created and deleted: once the changes are active, no bound is exceeded.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn quotas_that_change_under_load_hold_once_they_are_in_force() {
    let ledger = Ledger::start(json!({"pods": "20"})).await;
    let end = tokio_util::sync::CancellationToken::new();
    let churn = |writer: usize| ledger.churn(writer, || end.is_cancelled());
    let changes = async {
        let pause = || tokio::time::sleep(Duration::from_millis(700));
        for hard in ["30", "12", "25"] {
            change(&ledger, "payments", json!({"quota": {"hard": {"pods": hard}}})).await;
            is_in_force(&ledger, "payments", hard).await;
            pause().await;
        }
        ledger.quota("acme", json!({}), json!({"pods": "15"})).await;
        change(&ledger, "payments", json!({"parent": "acme"})).await;
        let is_below =
            |view: View| view.plan.nodes.iter().any(|node| node.quota == "payments" && node.parent.is_some());
        until("it is below the other", || {
            (0..2).all(|which| ledger.replica(which).unwrap().ledgers.views().into_iter().any(is_below))
        })
        .await;
        ledger.quota("beside", json!({"namespaces": {"names": ["web"]}}), json!({"pods": "6"})).await;
        let namespaces = api(&ledger.client, "v1", "Namespace");
        for tenant in ["nobody", "payments"] {
            let labels = json!({"metadata": {"labels": {"tenant": tenant}}});
            namespaces.patch("shop", &PatchParams::default(), &Patch::Merge(labels)).await.unwrap();
            pause().await;
        }
        // Pods beyond the new bounds disappear when their writers delete them; earlier requests have ended.
        let count =
            async |namespace| ledger.pods(namespace).list(&kube::api::ListParams::default()).await.unwrap().items.len();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while count("shop").await + count("web").await > 15 || count("web").await > 6 {
            assert!(tokio::time::Instant::now() < deadline, "usage does not fall to the bound");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let watched = ledger.watch().await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        let (most, states) = watched.end();
        assert!(most <= 15 && states > 50, "{most} of 15 in {states} states");
        end.cancel();
    };
    let (outcomes, ()) = tokio::join!(futures::future::join_all((0..12).map(churn)), changes);
    let tally = Tally::of(outcomes.into_iter().flatten());
    println!("{} stored, {} refused, {} asked to retry", tally.stored, tally.refused, tally.busy);
    assert_eq!(tally.wrong, Vec::<String>::new());
}

/// Without replicas, only charged requests are refused; afterwards everything is as before. A caller that is not an API
/// server gets no room.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn without_replicas_only_charged_requests_are_refused() {
    let ledger = Ledger::start(json!({"pods": "5"})).await;
    let asks = json!({"request": {"uid": "a", "operation": "CREATE", "namespace": "shop", "name": "forged",
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "kind": {"kind": "Pod"},
        "object": {"metadata": {"name": "forged", "uid": "b"}, "spec": {"containers": [{"name": "a"}]}}}});
    let answer = review::answer(&ledger.replica(0).unwrap(), asks.to_string().as_bytes()).await.unwrap();
    assert_eq!(answer["response"]["status"]["code"], 400, "{answer}");
    ledger.kill(0);
    ledger.kill(1);
    for namespace in NAMESPACES {
        let refused = ledger.create_pod(namespace, json!({"name": "web"}), false).await.unwrap_err().to_string();
        assert!(refused.contains("failed calling webhook"), "{refused}");
    }
    ledger.create_pod("default", json!({"name": "web"}), false).await.unwrap();
    let claims = ledger.pods("shop").list(&kube::api::ListParams::default()).await.unwrap().items.len();
    assert_eq!(claims, 0);
    ledger.run(0).await;
    ledger.run(1).await;
    let tally = ledger.create_pods("after", 12, 12).await;
    assert_eq!((tally.stored, tally.refused), (5, 7), "{tally:?}");
    ledger.clean(Duration::from_secs(20)).await;
}
