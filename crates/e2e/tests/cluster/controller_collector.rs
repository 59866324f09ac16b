//! From usage to requests: the collector writes profiles with its own permissions, by server-side apply, and the policy
//! estimates from them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::{ProfileName, Quarter, Repository, Root};
use headroom_admission::image::ImageName;
use headroom_admission::timestamp::Timestamp;
use headroom_api_server::api_client::ApiClient;
use headroom_api_server::clock::now;
use headroom_api_server::parts::Parts;
use headroom_collector::estimate_events::{self, ReadFrom};
use headroom_collector::publish::cluster::ProfileCluster;
use headroom_collector::publish::restrictions::Restrictions;
use headroom_collector::read_limits::Pace;
use headroom_e2e::cluster::{Cluster, api_in, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::policy_server::{Deployment, Host};
use headroom_usage::profile::{ImageHistory, Percentiles, Share};
use kube::Client;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::chart::apply;
use crate::guarded_namespace::{Guarded, ID, eventually, guard, guard_in, inject_sidecars, resources};
use crate::objects::{limit_range, pod};
use crate::policy_server_bench::histories;

const COLLECTOR: &str = "system:serviceaccount:headroom:headroom-collector";
const DEFINITION: &str = "deploy/charts/headroom/files/crd.yaml";
/// The image of [`pod`].
const IMAGE: &str = "registry.example.com/shop/web:1";

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> String {
    cluster.run_kubectl(arguments).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn the_api_server_accepts_every_manifest() {
    let cluster = Cluster::start(InTreePlugins::On, Controllers::Off).await.unwrap();
    cluster.install("tests/data/charts/crds.yaml").unwrap();
    for arguments in [
        "namespace.create=true",
        "collector.kind=CronJob",
        "collector.source.type=metrics-api",
        "ledger.enabled=true,ledger.resourceQuotas=true,resize.enabled=true",
    ] {
        assert!(apply(&cluster, &["--set", arguments], |_| true) >= 15, "{arguments}");
    }
}

/// Four hours of a container that always uses a third of a core and 200Mi. They are the first hours of yesterday: four
/// hours across midnight would be two days of history, which raise an estimate less.
fn samples(namespace: &str) -> String {
    let begin = (now() / 86_400 - 1) * 86_400;
    let mut csv = "time,namespace,pod,container,image,cpu,memory\n".to_owned();
    for minute in 0..240 {
        writeln!(csv, "{},{namespace},web-0,web,{IMAGE},0.333,200Mi", begin + minute * 60).unwrap();
    }
    csv
}

/// One round of the collector over a file, as the user of a kubeconfig. An error is what it says.
fn collect(kubeconfig: &Path, folder: &Path, csv: &str) -> Result<(), String> {
    let file = folder.join("usage.csv");
    std::fs::write(&file, csv).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_headroom-controller-under-test"));
    program.args(["collect", "files"]).arg(file).arg("--store").arg(folder.join("usage.redb"));
    let collected = program.env("KUBECONFIG", kubeconfig).output().unwrap();
    let said = String::from_utf8_lossy(&collected.stderr).into_owned();
    if collected.status.success() { Ok(()) } else { Err(said) }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn pods_get_estimates_from_collected_usage_and_reinvocation_changes_nothing() {
    let cluster = Cluster::start(InTreePlugins::On, Controllers::Off).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let estimating = json!({"estimates": {"namespace": "headroom"}});
    let deployment = Deployment { reinvoked: true, ..Deployment::mutating(estimating) };
    let collector = cluster.client_as(COLLECTOR).await.unwrap();
    let kubeconfig = cluster.kubeconfig_file_as(COLLECTOR, "system:serviceaccounts").unwrap();
    let collect = |csv: &str| collect(&kubeconfig, folder.path(), csv);

    // An error names each missing permission or kind, and what provides it.
    let csv = samples("early");
    kubectl(&cluster, &["create", "namespace", "headroom"]);
    let error = collect(&csv).unwrap_err();
    assert!(error.contains("not allowed to get namespace kube-system"), "{error}");
    assert!(error.contains("ClusterRole headroom-collector"), "{error}");
    let is_of_collector = |object: &Value| {
        let not_running = object["kind"] != "Deployment" && object["kind"] != "Service";
        object["metadata"]["name"] == "headroom-collector" && not_running
    };
    assert_eq!(apply(&cluster, &[], is_of_collector), 7);
    eventually("the role is effective", async || {
        let error = collect(&csv).unwrap_err();
        error.contains("the cluster does not know the kind UsageProfile").then_some(()).ok_or(error)
    })
    .await;
    cluster.install(DEFINITION).unwrap();

    // Its role allows it to follow labels of namespaces.
    let stop = tokio_util::sync::CancellationToken::new();
    let mut restrictions = Restrictions::follow(ApiClient::new(collector.clone()), &Parts::default(), stop.clone());
    for label in ["headroom.dev/estimates=never", "headroom.dev/estimates-"] {
        kubectl(&cluster, &["label", "namespace", "headroom", label]);
        let changed = tokio::time::timeout(Duration::from_secs(30), restrictions.changed()).await.unwrap();
        let names = changed.of_quarter(Quarter::of("headroom"));
        assert_eq!(names, if label.contains('=') { "headroom" } else { "" });
    }
    stop.cancel();

    let shop = guard(cluster, deployment).await;
    let namespace = &shop.namespace;
    let item = json!({"default": {"cpu": "500m"}, "defaultRequest": {"cpu": "50m"}});
    shop.create(limit_range(namespace, item)).await.unwrap();
    let unknown = shop.create(pod(namespace, "unknown", json!({}))).await.unwrap();
    assert_eq!(*resources(&unknown), json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "50m"}}));

    collect(&samples(namespace)).unwrap();
    let quarter = ProfileName::of(Root::of("registry.example.com/shop/web"), namespace).to_string();
    let table = kubectl(&shop.cluster, &["get", "usageprofiles", "-n", "headroom"]);
    let columns: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["NAME", "IMAGES", "HISTORIES", "PAGES", "OOM-KILLED", "COLLECTED"], "{table}");
    assert_eq!(table.lines().count(), 1 + Quarter::ALL.len() * usize::from(Root::COUNT), "{table}");
    let row: Vec<&str> = table.lines().find(|line| line.starts_with(&quarter)).unwrap().split_whitespace().collect();
    // The history of the namespace "early" was read before, and is kept.
    let histories = if Quarter::of("early") == Quarter::of(namespace) { "2" } else { "1" };
    assert_eq!(row[1..5], ["1", histories, "0", "0"], "{table}");
    let profiles = api_in(&shop.client, "headroom", "headroom.dev/v1alpha1", "UsageProfile");
    let profile = profiles.get(&quarter).await.unwrap();
    let managers: Vec<_> =
        profile.metadata.managed_fields.iter().flatten().filter_map(|field| field.manager.as_deref()).collect();
    assert_eq!(managers, ["headroom-collector"]);

    // LimitRanger has set its default before us; the estimate replaces it.
    let known = shop.create(pod(namespace, "known", json!({}))).await.unwrap();
    let (cpu, memory) = (&resources(&known)["requests"]["cpu"], &resources(&known)["requests"]["memory"]);
    let within = |found: &Value, low: &str, high: &str| {
        let [found, low, high] = [found.as_str().unwrap(), low, high].map(|text| text.parse::<Quantity>().unwrap());
        assert!(low <= found && found <= high, "{}", resources(&known));
    };
    // CPU usage plus 10m; memory usage plus 10 % and 64Mi, and another 10 % for a single day of history.
    within(cpu, "340m", "350m");
    within(memory, "310Mi", "316Mi");
    assert_eq!(resources(&known)["limits"], json!({"cpu": "500m"}));
    let own = shop.create(pod(namespace, "own", json!({"requests": {"cpu": "10m", "memory": "1Mi"}}))).await.unwrap();
    assert_eq!(resources(&own)["requests"], json!({"cpu": "10m", "memory": "1Mi"}));

    // A later webhook changes the pod, so that LimitRanger and our policy are called again.
    let proxy = |_: &Value| Some(json!({"name": "proxy", "image": "registry.example.com/mesh/proxy:1"}));
    let _sidecars = inject_sidecars(&shop, pod(namespace, "twice", json!({})), proxy).await;
    let before = shop.server.calls(ID, namespace);
    let twice = shop.create(pod(namespace, "twice", json!({}))).await.unwrap();
    assert!(shop.server.calls(ID, namespace) >= before + 2, "the policy was not called again");
    assert_eq!(resources(&twice), resources(&known));
    let sidecar = &twice.data["spec"]["containers"][1]["resources"];
    assert_eq!(*sidecar, json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "50m"}}));
    let annotation = |pod: &DynamicObject| -> Value {
        serde_json::from_str(&pod.metadata.annotations.as_ref().unwrap()["headroom.dev/resources"]).unwrap()
    };
    assert_eq!(annotation(&twice)["web"], annotation(&known)["web"]);

    // The Deployment gets one Event, written with the rights of the collector.
    let (described, _) = with_event(&shop, namespace, collector.clone(), ReadFrom::Annotations).await;
    assert_eq!(described.matches("RequestsEstimated").count(), 1, "{described}");
    let text = "estimated for its pods: web cpu request 34";
    assert!(
        described.contains(text) && described.contains("of recent registry.example.com/shop/web:1 in this namespace"),
        "{described}"
    );

    // Where pods are not marked, the Event comes from comparing a pod with its template.
    assert_eq!(apply(&shop.cluster, &["--set", "policies.settings.annotate=false"], is_of_collector), 7);
    let settings = json!({"annotate": false, "estimates": {"namespace": "headroom"}});
    let deployments = BTreeMap::from([(ID.to_owned(), Deployment::mutating(settings))]);
    let (_server, namespace) = guard_in(&shop.cluster, deployments, Host::Kubewarden).await;
    collect(&samples(&namespace)).unwrap();
    let (described, pod) = with_event(&shop, &namespace, collector, ReadFrom::Templates).await;
    assert_eq!(pod.metadata.annotations, None);
    within(&resources(&pod)["requests"]["cpu"], "340m", "350m");
    assert_eq!(described.matches("ResourcesSet").count(), 1, "{described}");
    let text =
        "its pods have what its template does not (from an estimate, a LimitRange or a webhook): web cpu request 34";
    assert!(described.contains(text) && !described.contains("RequestsEstimated"), "{described}");
}

/// Creates two pods of a Deployment. Returns the Deployment as kubectl describes it once the collector has told it of them, and a pod.
async fn with_event(
    shop: &Guarded,
    namespace: &str,
    collector: Client,
    read_from: ReadFrom,
) -> (String, DynamicObject) {
    let web = shop.create(crate::objects::deployment(namespace, 2, json!({}))).await.unwrap();
    let owned_by = |owner: &DynamicObject, kind: &str| {
        let (name, uid) = (&owner.metadata.name, &owner.metadata.uid);
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}])
    };
    let mut set =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-5d", "namespace": namespace}});
    set["spec"] = json!({"selector": {"matchLabels": {"app": "web"}}, "template": web.data["spec"]["template"]});
    set["metadata"]["ownerReferences"] = owned_by(&web, "Deployment");
    let set = shop.create(set).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let telling = tokio::spawn(estimate_events::report(ApiClient::new(collector), read_from, stop.clone()));
    let of_set = |name: &str| {
        let mut pod = pod(namespace, name, json!({}));
        pod["metadata"]["ownerReferences"] = owned_by(&set, "ReplicaSet");
        pod["metadata"]["labels"] = json!({"pod-template-hash": "5d"});
        pod
    };
    shop.create(of_set("web-5d-1")).await.unwrap();
    let pod = shop.create(of_set("web-5d-2")).await.unwrap();
    let described = || kubectl(&shop.cluster, &["describe", "deployment", "web", "-n", namespace]);
    eventually("an Event", async || {
        let text = described();
        if text.contains("headroom-collector") { Ok(()) } else { Err(text) }
    })
    .await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    stop.cancel();
    telling.await.unwrap();
    (described(), pod)
}

/// A share with this many images, one of them in this many namespaces, all at one root.
fn share(images: usize, namespaces: usize, of: &str) -> Share {
    let collected_at = Timestamp::from_unix_seconds(now() / 60 * 60).unwrap();
    let name = ImageName::parse(IMAGE).unwrap();
    let histories = |number: i64| histories(&name, number, collected_at);
    let everywhere = (1..namespaces).map(|number| format!("team-{number}")).chain([of.to_owned()]);
    let own = everywhere.map(|namespace| (namespace, histories(300))).collect();
    let mut pool = histories(500);
    // Namespaces do not agree on each figure.
    for usage in pool.all.windows.values_mut().filter_map(|window| window.cpu.as_mut()) {
        usage.percentiles = Percentiles::agreed(|at| (at.permille() > 700).then(|| Quantity::from_milli(700)));
    }
    let mut of_images = BTreeMap::from([(Repository::of(&name), ImageHistory { pool: Some(pool), own })]);
    for number in 1..images {
        let other = format!("registry.example.com/team/service-{number}");
        let own = BTreeMap::from([(of.to_owned(), histories(number as i64))]);
        of_images.insert(Repository::of(&ImageName::parse(&other).unwrap()), ImageHistory { pool: None, own });
    }
    let empty = Share::empty("headroom", Root::of(name.repository()), collected_at, "0123456789abcdef");
    let mut share = Share { quorum: Some(3), images: of_images, ..empty };
    share.bound();
    share
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn pages_are_accepted_and_read_at_once_and_larger_objects_are_refused() {
    let cluster = Cluster::start(InTreePlugins::Off, Controllers::Off).await.unwrap();
    cluster.install(DEFINITION).unwrap();
    kubectl(&cluster, &["create", "namespace", "headroom"]);
    let shop = guard(cluster, Deployment::mutating(json!({"estimates": {"namespace": "headroom"}}))).await;
    let empty = create(&shop.client, pod(&shop.namespace, "early", json!({}))).await.unwrap();
    assert!(resources(&empty)["requests"]["cpu"].is_null(), "{}", empty.data);

    let writer = ProfileCluster::new(shop.client.clone(), false, &Pace::default());
    let objects = share(50, 200, &shop.namespace).lay_out();
    assert!(objects.len() > 20, "{}", objects.len());
    for object in &objects {
        let name = object.metadata.name.clone().unwrap();
        let object = object.to_value();
        writer.apply("headroom", &name, &object).await.unwrap();
        let profiles = api_in(&shop.client, "headroom", "headroom.dev/v1alpha1", "UsageProfile");
        let stored = profiles.get(&name).await.unwrap();
        assert_eq!(stored.data["spec"], object["spec"], "the API server dropped something");
        assert!(json!(stored).to_string().len() < 16_384, "{name}");
        // Field ownership of each figure would take as much room as the figures.
        assert!(json!(stored.metadata.managed_fields).to_string().len() < 1_000);
    }
    let pod = create(&shop.client, pod(&shop.namespace, "web", json!({}))).await.unwrap();
    assert!(resources(&pod)["requests"]["cpu"].is_string(), "{}", pod.data);

    let mut large = objects[0].to_value();
    let images = large["spec"]["images"].as_object_mut().unwrap();
    let entry = images.values().next().unwrap().clone();
    images.extend((0..100).map(|number| (format!("registry.example.com/other-{number}"), entry.clone())));
    let error = writer.apply("headroom", "usage-00.a", &large).await.unwrap_err().to_string();
    assert!(error.contains("usageprofile `headroom/usage-00.a` is invalid"), "{error}");
}
