//! The forecast for workloads against the controllers of a real control plane: random updates under random quotas.
//!
//! There are no nodes, so the test itself reports that pods run. `HEADROOM_FORECAST_SECONDS` (25) is when the last update begins,
//! `HEADROOM_FORECAST_SEED` (1) chooses the updates. A workload that has not changed for `HEADROOM_FORECAST_REST` (15) seconds has come
//! to rest: the controllers wait longer after each refusal, so a run of minutes needs more.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use headroom_admission::cluster::lookup::Lookup;
use headroom_admission::json::Document;
use headroom_admission::{FetchedObjects, Request, Settings, evaluate};
use headroom_e2e::cluster::{Cluster, api, api_in, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::guarded_namespace::wait_for;
use crate::objects::{deployment, quota};

/// This many workloads are updated at the same time.
const AT_ONCE: usize = 30;

/// A number that the environment may set.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn rollouts_stop_and_end_as_forecast() {
    crate::skip_without!("kube-controller-manager");
    let time = Duration::from_secs(number("HEADROOM_FORECAST_SECONDS", 25));
    let seed = number("HEADROOM_FORECAST_SEED", 1);
    let cluster = Cluster::start(InTreePlugins::On, Controllers::On).await.unwrap();
    let client = cluster.client().await.unwrap();
    let started = Instant::now();
    let numbers = stream::iter(0..).take_while(|_| futures::future::ready(started.elapsed() < time));
    let compared = numbers.map(|number| compare(&cluster, &client, seed * 1_000_000 + number));
    let all: Vec<Compared> = with_running_pods(&client, compared.buffer_unordered(AT_ONCE).collect()).await;
    let count = |is: fn(&Compared) -> bool| all.iter().filter(|compared| is(compared)).count();
    let (ended, stopped) = (count(|compared| compared.ends), count(|compared| !compared.ends));
    eprintln!("{} updates in {:?}: {ended} ended, {stopped} stopped", all.len(), started.elapsed());
    let wrong: Vec<&str> = all.iter().filter_map(|compared| compared.difference.as_deref()).collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    assert!(ended > 0 && stopped > 0, "nothing was compared");
}

struct Compared {
    ends: bool,
    difference: Option<String>,
}

/// Reports each pod as ready, as its node would, until something is done.
pub async fn with_running_pods<T>(client: &Client, until: impl Future<Output = T>) -> T {
    tokio::select! {
        done = until => done,
        () = run_pods(client) => panic!("pods run until the end"),
    }
}

async fn run_pods(client: &Client) {
    let pods = api(client, "v1", "Pod");
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    loop {
        let waiting = ListParams::default().fields("status.phase=Pending");
        let waiting = pods.list(&waiting).await.map(|list| list.items).unwrap_or_default();
        let reports =
            waiting.iter().filter_map(|pod| {
                let namespaced = api_in(client, pod.metadata.namespace.as_deref()?, "v1", "Pod");
                let (name, ready) = (pod.metadata.name.clone()?, &ready);
                // A pod that is gone by now needs no report.
                Some(async move {
                    namespaced.patch_status(&name, &PatchParams::default(), &Patch::Merge(ready)).await.is_ok()
                })
            });
        futures::future::join_all(reports).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Random numbers that follow from a case's seed.
struct Update {
    kind: &'static str,
    /// The replicas and the cpu of a pod, before and after.
    replicas: [u64; 2],
    cpu: [u64; 2],
    /// Beside what the workload uses once it runs.
    room: i64,
    strategy: Value,
}

impl Update {
    fn random(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let before = random.u64(1..6);
        let after = if random.u8(0..10) < 7 { before } else { random.u64(1..6) };
        let kind = if random.u8(0..10) < 7 { "Deployment" } else { "StatefulSet" };
        let strategy = match (kind, random.u8(0..4)) {
            ("Deployment", 0) => json!({"strategy": {"type": "Recreate"}}),
            ("Deployment", _) => {
                let surge = random.u64(0..3);
                let bounds = json!({"maxSurge": surge, "maxUnavailable": random.u64(u64::from(surge == 0)..3)});
                json!({"strategy": {"rollingUpdate": bounds}})
            }
            (_, 0) => json!({"updateStrategy": {"rollingUpdate": {"partition": random.u64(0..4)}}}),
            (_, 1) => json!({"podManagementPolicy": "Parallel"}),
            _ => json!({}),
        };
        Self {
            kind,
            replicas: [before, after],
            cpu: [random.u64(1..5), random.u64(1..5)],
            room: random.i64(-2..6),
            strategy,
        }
    }

    fn object(&self, namespace: &str, at: usize) -> Value {
        let resources = json!({"requests": {"cpu": self.cpu[at].to_string()}});
        let mut object = deployment(namespace, self.replicas[at], resources);
        object["kind"] = json!(self.kind);
        if self.kind == "StatefulSet" {
            object["spec"]["serviceName"] = json!("web");
        }
        object["spec"].as_object_mut().unwrap().extend(self.strategy.as_object().unwrap().clone());
        object
    }

    /// The cpu that each pod has at the end, if all are replaced.
    fn least_at_end(&self) -> u64 {
        if self.strategy["updateStrategy"].is_null() { self.cpu[1] } else { 0 }
    }

    /// True if two ReplicaSets create pods at the same time, so that the order decides.
    fn races(&self) -> bool {
        self.kind == "Deployment" && self.replicas[1] > self.replicas[0] && self.cpu[0] != self.cpu[1]
    }
}

async fn compare(cluster: &Cluster, client: &Client, seed: u64) -> Compared {
    let update = Update::random(seed);
    let namespace = cluster.new_namespace("rollout").await.unwrap();
    let quotas = api_in(client, &namespace, "v1", "ResourceQuota");
    let workloads = api_in(client, &namespace, "apps/v1", update.kind);
    let used = update.replicas[0] * update.cpu[0];
    let quota = |cpu: u64| quota(&namespace, json!({"requests.cpu": cpu.to_string()}));
    create(client, quota(used)).await.unwrap();
    let status = |hard: u64, used: u64| {
        move |quota: &Value| {
            let level = |field: &str| quota["status"][field]["requests.cpu"].as_str().map(str::to_owned);
            level("hard") == Some(hard.to_string()) && level("used") == Some(used.to_string())
        }
    };
    wait_for(&quotas, "team", "the quota is observed", status(used, 0)).await;
    create(client, update.object(&namespace, 0)).await.unwrap();
    let replicas = update.replicas[0];
    let runs = move |object: &Value| {
        // A Deployment also says how many are of its template; a StatefulSet only while it rolls.
        object["status"]["readyReplicas"] == replicas && object["status"]["replicas"] == replicas
    };
    wait_for(&workloads, "web", "the pods run", runs).await;
    let hard = used.saturating_add_signed(update.room);
    quotas.patch("team", &PatchParams::default(), &Patch::Merge(&quota(hard))).await.unwrap();
    wait_for(&quotas, "team", "the pods are counted", status(hard, used)).await;

    let old = workloads.get("web").await.unwrap();
    let patch = Patch::Merge(update.object(&namespace, 1));
    let new = workloads.patch("web", &PatchParams { dry_run: true, ..PatchParams::default() }, &patch).await.unwrap();
    let warnings = forecast(&update, &new, &old, &quotas.list(&ListParams::default()).await.unwrap().items);
    workloads.patch("web", &PatchParams::default(), &patch).await.unwrap();
    let ends = ends(&workloads, &update).await;
    let is_right = ends == warnings.iter().all(|warning| warning.contains("the rollout will be slower"));
    // Kubernetes admits a pod too many if the quota is recounted in the same moment.
    let is_overrun = ends && hard < update.replicas[1] * update.least_at_end();
    let difference = (!is_right && !update.races() && !is_overrun).then(|| {
        let spec = update.object("", 1)["spec"].to_string();
        format!(
            "{seed}: ends: {ends}, forecast {warnings:?}: {:?} of {:?}, hard {hard}, {spec}",
            update.replicas, update.cpu
        )
    });
    Compared { ends, difference }
}

/// The policy's warnings about an update.
fn forecast(update: &Update, new: &DynamicObject, old: &DynamicObject, quotas: &[DynamicObject]) -> Vec<String> {
    let resource = if update.kind == "Deployment" { "deployments" } else { "statefulsets" };
    let request = json!({
        "operation": "UPDATE", "namespace": new.metadata.namespace, "name": "web",
        "resource": {"group": "apps", "resource": resource}, "object": new, "oldObject": old,
    });
    let request = Document::own(request.to_string().into_bytes()).unwrap();
    let settings = Document::read(r#"{"estimates": {"mode": "never"}}"#).unwrap();
    let request = Request::read(request.root()).unwrap();
    let settings = Settings::read(Some(settings.root())).unwrap();
    let fetched = FetchedObjects::default();
    let read = |lookups: &[Lookup<'_>]| {
        let answer = |lookup: &Lookup<'_>| match lookup {
            Lookup::Quotas { .. } => json!({"items": quotas}),
            _ => json!({"items": []}),
        };
        lookups.iter().map(|lookup| Ok(answer(lookup).to_string().into_bytes())).collect()
    };
    let (decision, _) = evaluate(&request, &settings, &fetched, read, || None);
    decision.warnings.iter().map(|warning| warning.text.clone()).collect()
}

/// Waits until all pods are of the new template, or nothing changes any more.
async fn ends(workloads: &Api<DynamicObject>, update: &Update) -> bool {
    let [_, wanted] = update.replicas;
    let partition = update.strategy["updateStrategy"]["rollingUpdate"]["partition"].as_u64().unwrap_or(0);
    let is_renewed = update.cpu[0] != update.cpu[1];
    let at_rest = Duration::from_secs(number("HEADROOM_FORECAST_REST", 15));
    let (mut last, mut changed) = (Value::Null, Instant::now());
    loop {
        let object = workloads.get("web").await.unwrap();
        let status = &object.data["status"];
        let count = |field: &str| status[field].as_u64().unwrap_or(0);
        let updated = if is_renewed { count("updatedReplicas") } else { wanted };
        let is_observed =
            status["observedGeneration"].as_i64() == object.metadata.generation && count("replicas") == wanted;
        if is_observed && count("readyReplicas") == wanted && updated + partition.min(wanted) >= wanted {
            return true;
        }
        if *status != last {
            (last, changed) = (status.clone(), Instant::now());
        }
        if changed.elapsed() > at_rest {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
