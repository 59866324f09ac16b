//! A replica with the permissions of the Helm chart, and those to create its certificate and webhook configuration, which the chart
//! creates itself.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use headroom_api_server::api_client::ApiClient;
use headroom_e2e::cluster::{Cluster, api, api_in, create, try_create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_fixtures::tls::connect;
use headroom_quota_server::check::check;
use headroom_quota_server::objects::TENANT_QUOTAS;
use headroom_quota_server::replica::Webhook;
use headroom_quota_server::{Options, Replica};
use headroom_wasm_host::built::workspace_file;
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::scene::{LEDGER, free_address};
use super::seen::until;
use crate::guarded_namespace;
use crate::workload_forecast::number;

const ACCOUNT: &str = "system:serviceaccount:headroom:headroom-ledger";

/// Creates an object; an error is what the API server says.
async fn attempt(client: &Client, object: Value) -> Result<(), String> {
    create(client, object).await.map(drop).map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    })
}

async fn pod(client: &Client, namespace: &str, name: &str) -> Result<(), String> {
    attempt(client, crate::objects::pod(namespace, name, json!({}))).await
}

fn tenant_quota(namespaces: Value, pods: &str) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": "payments"},
        "spec": {"namespaces": namespaces, "quota": {"hard": {"pods": pods}}},
    })
}

async fn namespace(client: &Client, name: &str) {
    let metadata = json!({"name": name, "labels": {"tenant": "payments"}});
    create(client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await.unwrap();
}

/// Retries until the outcome is as expected, because the API server sees webhooks by a watch.
async fn eventually<T: Debug>(what: &str, attempt: impl AsyncFn() -> T, is_it: impl Fn(&T) -> bool) {
    guarded_namespace::eventually(what, async || {
        let outcome = attempt().await;
        is_it(&outcome).then_some(()).ok_or_else(|| format!("{outcome:?}"))
    })
    .await;
}

/// A replica that answers an API server, as the Helm chart runs it.
struct Configured {
    cluster: Cluster,
    client: Client,
    replica: Arc<Replica>,
    address: SocketAddr,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Configured {
    async fn start(plugins: InTreePlugins, controllers: Controllers, choose: impl FnOnce(&mut Options)) -> Self {
        let cluster = Cluster::start(plugins, controllers).await.unwrap();
        cluster.run_kubectl(&["create", "namespace", "headroom"]).unwrap();
        let of_chart = |name: &str| format!("deploy/charts/headroom/files/ledger/{name}.yaml");
        let create = "crates/e2e/tests/cluster/ledger/create.yaml".to_owned();
        for manifest in ["crds", "rbac", "resource-quotas"].map(of_chart).into_iter().chain([create]) {
            let path = workspace_file(&manifest);
            cluster.run_kubectl(&["apply", "--namespace=headroom", "-f", path.to_str().unwrap()]).unwrap();
        }
        cluster.install(&of_chart("events")).unwrap();
        let client = cluster.client().await.unwrap();
        let address = free_address();
        let webhook = Webhook {
            service: "headroom-ledger".to_owned(),
            url: Some(format!("https://{address}")),
            makes_certificate: true,
        };
        let mut options =
            Options { webhook: Some(webhook), drain: Duration::from_millis(100), ..Options::new("headroom") };
        choose(&mut options);
        let stop = CancellationToken::new();
        let replica = Replica::new(options, cluster.client_as(ACCOUNT).await.unwrap(), stop.clone());
        let serving = tokio::spawn(Arc::clone(&replica).serve(TcpListener::bind(address).await.unwrap(), None));
        until("it is ready", || replica.problem().is_none()).await;
        Self { cluster, client, replica, address, stop, serving }
    }

    /// Sends dry runs until the API server calls the webhook: objects stored before that are counted but not refused.
    async fn is_asked(&self, namespace: &str) {
        let is_asked = async || {
            drop(try_create(&self.client, crate::objects::pod(namespace, "probe", json!({}))).await);
            self.replica.metrics.reviews("allowed") > 0
        };
        eventually("the API server asks", is_asked, |asked| *asked).await;
    }

    /// The reasons of the events on an object.
    async fn events(&self, namespace: &str, name: &str) -> Vec<String> {
        let events = api_in(&self.client, namespace, "v1", "Event");
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let about = events.into_iter().filter(|event| event.data["involvedObject"]["name"] == name);
        about.map(|event| event.data["reason"].as_str().unwrap().to_owned()).collect()
    }

    async fn end(self) {
        self.stop.cancel();
        self.serving.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn a_replica_configures_itself_and_restores_removed_objects() {
    let configured = Configured::start(InTreePlugins::Off, Controllers::Off, |options| {
        options.exempt_groups = vec!["operators".to_owned()];
    })
    .await;
    let client = configured.client.clone();
    namespace(&client, "shop").await;
    let quota = |pods: &str| tenant_quota(json!({"selector": {"matchLabels": {"tenant": "payments"}}}), pods);
    create(&client, quota("3")).await.unwrap();

    configured.is_asked("shop").await;
    let number = AtomicUsize::new(0);
    let try_in = async |namespace: &str| {
        let name = format!("web-{}", number.fetch_add(1, Ordering::Relaxed));
        pod(&client, namespace, &name).await
    };
    let is_refused =
        |outcome: &Result<(), String>| outcome.as_ref().is_err_and(|text| text.contains("exceeded quota: payments"));
    eventually("a pod beyond the bound is refused", || try_in("shop"), is_refused).await;

    // An invalid quota is refused, and an unknown parent is reported.
    let mut wrong = quota("1");
    wrong["metadata"]["name"] = json!("wrong");
    wrong["spec"]["quota"]["scopes"] = json!(["Sometimes"]);
    let refused = attempt(&client, wrong).await.unwrap_err();
    assert!(refused.contains("spec.quota.scopes: unsupported scope"), "{refused}");

    // A new namespace is charged at once.
    namespace(&client, "new").await;
    let outcome = try_in("new").await;
    assert!(is_refused(&outcome), "{outcome:?}");

    // The quota's status reports all that.
    let quotas = api(&client, "headroom.dev/v1alpha1", "TenantQuota");
    let status = || async { quotas.get("payments").await.unwrap().data["status"].clone() };
    eventually("the status is written", status, |status| {
        status["used"]["pods"] == "3"
            && status["namespaceCount"] == 2
            && status["request"] == "pods: 3/3"
            && status["conditions"].as_array().is_some_and(|all| all.iter().all(|one| one["status"] == "True"))
    })
    .await;

    // Removed objects are restored, and no pod is admitted beyond the bound.
    let configurations = api(&client, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
    drop(configurations.delete("headroom-ledger", &DeleteParams::default()).await.unwrap());
    let is_there = || async { configurations.get_opt("headroom-ledger").await.unwrap().is_some() };
    eventually("the configuration is restored", is_there, |is| *is).await;
    let ledgers = api_in(&client, "headroom", "headroom.dev/v1alpha1", "QuotaLedger");
    drop(ledgers.delete(LEDGER, &DeleteParams::default()).await.unwrap());
    let used = || async {
        let ledger = ledgers.get_opt(LEDGER).await.unwrap();
        ledger.map(|ledger| ledger.data["used"][0].clone())
    };
    eventually("the ledger is restored", used, |used| *used == Some(json!("pods=3"))).await;
    let broken = json!({"used": ["nonsense"]});
    ledgers.patch(LEDGER, &PatchParams::default(), &Patch::Merge(broken)).await.unwrap();
    eventually("an edited ledger is recounted", used, |used| *used == Some(json!("pods=3"))).await;

    // More room, and a recount that agrees.
    let more = json!({"spec": {"quota": {"hard": {"pods": "5"}}}});
    quotas.patch("payments", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    let try_new = || try_in("new");
    eventually("there is room again", try_new, Result::is_ok).await;
    let recount = || async { check(&ApiClient::new(client.clone()), "headroom", &[]).await.unwrap() };
    eventually("a recount agrees", recount, |report| report.is_true() && report.claims == 0 && report.ledgers == 1)
        .await;

    // Members of exempt groups are charged but never refused.
    let mut full = Ok(());
    while full.is_ok() {
        full = try_new().await;
    }
    assert!(is_refused(&full), "{full:?}");
    let create_as = |arguments: &[&str], name: &str| {
        let mut kubectl = configured.cluster.kubectl().unwrap();
        let image = "--image=registry.example.com/shop/web:1";
        let output = kubectl.args(["run", name, image, "--namespace=new"]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let masters = ["--as=ann", "--as-group=system:masters"];
    let said = create_as(&masters, "master");
    assert!(said.contains("exceeded quota: payments"), "{said}");
    let said = create_as(&[&masters[..], &["--as-group=operators"]].concat(), "operator");
    assert!(said.contains("pod/operator created"), "{said}");
    eventually("it is charged", status, |status| status["used"]["pods"] == "6").await;
    let above = || async { configured.events("default", "payments").await };
    eventually("there is an event", above, |events| events.iter().any(|reason| reason == "AboveBounds")).await;

    // A suspended quota is counted, and refuses nothing until it is resumed.
    let suspend = async |is: bool| {
        let path = TENANT_QUOTAS.at("payments");
        ApiClient::new(client.clone()).merge(&path, &json!({"spec": {"suspend": is}})).await.unwrap();
    };
    suspend(true).await;
    eventually("nothing is refused", try_new, Result::is_ok).await;
    eventually("it is counted", status, |status| {
        status["used"]["pods"].as_str().and_then(|used| used.parse::<u32>().ok()) >= Some(7)
            && status["conditions"][0]["reason"] == "Suspended"
    })
    .await;
    suspend(false).await;
    eventually("it refuses again", try_new, is_refused).await;
    eventually("there are events", above, |events| {
        ["Suspended", "InForce"].iter().all(|reason| events.iter().any(|event| event == reason))
    })
    .await;
    configured.end().await;
}

/// The leader renews its certificate under load: no request fails.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn a_certificate_is_renewed_under_load() {
    let configured = Configured::start(InTreePlugins::Off, Controllers::Off, |_| ()).await;
    let client = configured.client.clone();
    namespace(&client, "shop").await;
    create(&client, tenant_quota(json!({"names": ["shop"]}), "100000")).await.unwrap();
    configured.is_asked("shop").await;
    let secrets = api_in(&client, "headroom", "v1", "Secret");
    let secret = || async { secrets.get("headroom-ledger-tls").await.unwrap() };
    let before = secret().await;

    let end = CancellationToken::new();
    let load = |writer: usize| {
        let (client, end) = (client.clone(), end.clone());
        tokio::spawn(async move {
            let mut outcomes = Vec::new();
            while !end.is_cancelled() {
                outcomes.push(pod(&client, "shop", &format!("web-{writer}-{}", outcomes.len())).await);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            outcomes
        })
    };
    let load: Vec<_> = (0..4).map(load).collect();
    // Simulates a certificate made 61 days ago, and then a successor made a minute ago.
    let made_at = |annotation: &str, seconds: i64| {
        let made_at = (headroom_api_server::clock::now() - seconds).to_string();
        let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation: made_at}}}));
        let secrets = secrets.clone();
        async move { drop(secrets.patch("headroom-ledger-tls", &PatchParams::default(), &patch).await.unwrap()) }
    };
    made_at("headroom.dev/made-at", 61 * 86_400).await;
    eventually("there is a successor", secret, |secret| secret.data["data"]["next.crt"].is_string()).await;
    let authorities = secret().await.data["data"]["ca.crt"].clone();
    assert_ne!(authorities, before.data["data"]["ca.crt"]);
    let configurations = api(&client, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
    let trusted = || async {
        let configuration = configurations.get("headroom-ledger").await.unwrap();
        configuration.data["webhooks"][0]["clientConfig"]["caBundle"].clone()
    };
    eventually("API servers trust both authorities", trusted, |trusted| *trusted == authorities).await;
    made_at("headroom.dev/next-made-at", 61).await;
    let is_new = |secret: &DynamicObject| secret.data["data"]["tls.crt"] != before.data["data"]["tls.crt"];
    eventually("the successor is in the Secret", secret, is_new).await;
    let both = String::from_utf8(STANDARD.decode(authorities.as_str().unwrap()).unwrap()).unwrap();
    let authority = &both[both.rfind("-----BEGIN").unwrap()..];
    let is_shown = async || connect(configured.address, authority, None).await.is_ok();
    eventually("the successor is served", is_shown, |is_shown| *is_shown).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    end.cancel();
    let outcomes: Vec<_> = futures::future::join_all(load).await.into_iter().flat_map(Result::unwrap).collect();
    println!("{} requests", outcomes.len());
    assert!(outcomes.len() > 100, "only {} requests", outcomes.len());
    let failed: Vec<_> = outcomes.iter().filter(|outcome| outcome.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    configured.end().await;
}

/// The same requests, one after the other, to an API server with the plugin and to one with the ledger: verdicts are
/// equal, and the ledger's refusals contain the plugin's text. `HEADROOM_LEDGER_SEED` sets another seed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn resource_quotas_are_enforced_as_by_the_plugin() {
    let configured =
        Configured::start(InTreePlugins::Off, Controllers::Off, |options| options.resource_quotas = true).await;
    // Without the quota controller, which sometimes overwrites the plugin's count with an older one.
    let plugin = Cluster::start(InTreePlugins::On, Controllers::Off).await.unwrap();
    let clients = [configured.client.clone(), plugin.client().await.unwrap()];
    let bounding = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "shop"}, "spec": spec});
    let quotas = [
        bounding("best-effort", json!({"hard": {"pods": "3"}, "scopes": ["BestEffort"]})),
        bounding(
            "high",
            json!({"hard": {"pods": "2", "requests.cpu": "500m"}, "scopeSelector": {"matchExpressions":
            [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}),
        ),
        bounding("ports", json!({"hard": {"services": "9", "services.nodeports": "3"}})),
        bounding("short", json!({"hard": {"limits.cpu": "1", "count/pods": "4"}, "scopes": ["Terminating"]})),
        bounding("sum", json!({"hard": {"pods": "16", "requests.memory": "2Gi"}})),
        bounding("volumes", json!({"hard": {"persistentvolumeclaims": "5", "requests.storage": "8Gi"}})),
    ];
    let used = async |client: &Client| {
        let api = api_in(client, "shop", "v1", "ResourceQuota");
        let list = api.list(&ListParams::default()).await.unwrap().items;
        list.iter().map(|quota| quota.data["status"].clone()).collect::<Vec<_>>()
    };
    for client in &clients {
        namespace(client, "shop").await;
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"},
            "value": 10});
        create(client, class).await.unwrap();
        for quota in &quotas {
            create(client, quota.clone()).await.unwrap();
        }
        if std::ptr::eq(client, &clients[1]) {
            let api = api_in(client, "shop", "v1", "ResourceQuota");
            for quota in &quotas {
                let hard = &quota["spec"]["hard"];
                let used: BTreeMap<_, _> = hard.as_object().unwrap().keys().map(|name| (name, "0")).collect();
                let status = Patch::Merge(json!({"status": {"hard": hard, "used": used}}));
                let name = quota["metadata"]["name"].as_str().unwrap();
                api.patch_status(name, &PatchParams::default(), &status).await.unwrap();
            }
        }
        let are_counted = |all: &Vec<Value>| all.iter().all(|status| status["used"].is_object());
        eventually("the quotas are counted", || used(client), are_counted).await;
    }
    let silent = || async { pod(&configured.client, "shop", "silent").await };
    let is_asked = |outcome: &Result<(), String>| outcome.as_ref().is_err_and(|said| said.contains("must specify"));
    eventually("the API server asks", silent, is_asked).await;

    let seed = number("HEADROOM_LEDGER_SEED", 1);
    let mut chance = fastrand::Rng::with_seed(seed);
    let (mut admitted, mut refused) = (0, 0);
    for number in 0..120 {
        let name = format!("n-{number}");
        let object = match chance.u8(..4) {
            0 => json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"},
                "spec": {"type": if chance.bool() { "NodePort" } else { "ClusterIP" }, "ports": [{"port": 80}]}}),
            1 => {
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "shop"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": format!("{}Gi", chance.u8(1..4))}}}})
            }
            _ => {
                let memory = json!({"memory": format!("{}Mi", 64 * chance.u32(1..4))});
                let mut resources = json!({"requests": memory});
                if chance.bool() {
                    resources["limits"] = json!({"cpu": format!("{}m", 100 * chance.u32(1..4)), "memory": "1Gi"});
                }
                let mut pod =
                    crate::objects::pod("shop", &name, if chance.u8(..8) == 0 { json!({}) } else { resources });
                if chance.u8(..3) == 0 {
                    pod["spec"]["activeDeadlineSeconds"] = json!(60);
                }
                if chance.u8(..4) == 0 {
                    pod["spec"]["priorityClassName"] = json!("high");
                }
                pod
            }
        };
        let [ours, theirs] = [attempt(&clients[0], object.clone()).await, attempt(&clients[1], object.clone()).await];
        match (&ours, &theirs) {
            (Ok(()), Ok(())) => admitted += 1,
            (Err(ours), Err(theirs)) => {
                let text = theirs.split(" is forbidden: ").nth(1);
                assert!(
                    text.is_some_and(|text| ours.contains(text)),
                    "seed {seed}, {object}\nours: {ours}\ntheirs: {theirs}"
                );
                refused += 1;
            }
            _ => panic!("seed {seed}, {object}\nours: {ours:?}\ntheirs: {theirs:?}"),
        }
    }
    println!("{admitted} admitted, {refused} refused");
    assert!(admitted > 15 && refused > 15, "{admitted} admitted, {refused} refused");
    let theirs = used(&clients[1]).await;
    eventually("both counts are equal", || used(&clients[0]), |ours| *ours == theirs).await;
    // The ledger overwrites a status that another client wrote, and credits a deletion.
    let quotas = api_in(&clients[0], "shop", "v1", "ResourceQuota");
    let nothing = json!({"status": {"used": {"pods": "0"}}});
    quotas.patch_status("sum", &PatchParams::default(), &Patch::Merge(nothing)).await.unwrap();
    eventually("it is published again", || used(&clients[0]), |ours| *ours == theirs).await;
    let events = || async { configured.events("shop", "sum").await };
    eventually("there is an event", events, |events| *events == ["StatusDrift"]).await;
    assert_eq!(configured.replica.metrics.foreign_statuses.get(), 1);
    let now = DeleteParams::default().grace_period(0);
    drop(api_in(&clients[0], "shop", "v1", "Pod").delete_collection(&now, &ListParams::default()).await.unwrap());
    let pods = || async { quotas.get("sum").await.unwrap().data["status"]["used"]["pods"].clone() };
    eventually("it is credited", pods, |pods| *pods == "0").await;
    let recount = || async { check(&ApiClient::new(clients[0].clone()), "headroom", &[]).await.unwrap() };
    eventually("a recount agrees", recount, |report| report.is_true() && report.claims == 0 && report.ledgers == 1)
        .await;
    configured.end().await;
}

/// If the API server's own plugin is on, nothing is enforced twice, and no status has two writers.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn resource_quotas_are_left_to_the_plugin_if_it_is_on() {
    crate::skip_without!("kube-controller-manager");
    let configured =
        Configured::start(InTreePlugins::On, Controllers::On, |options| options.resource_quotas = true).await;
    namespace(&configured.client, "shop").await;
    create(&configured.client, crate::objects::quota("shop", json!({"pods": "3"}))).await.unwrap();
    until("the API server was probed", || configured.replica.enforces_resource_quotas().is_some()).await;
    assert_eq!(configured.replica.enforces_resource_quotas(), Some(false));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(configured.replica.ledgers.views().len(), 0);
    let configuration = api(&configured.client, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
    let entries = configuration.get("headroom-ledger").await.unwrap().data["webhooks"].as_array().unwrap().len();
    assert_eq!(entries, 1, "expected only the webhook for TenantQuotas");
    configured.end().await;
}
