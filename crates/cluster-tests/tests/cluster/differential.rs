//! The same namespaces and requests to three API servers: one with the in-tree LimitRanger and ResourceQuota, one with only
//! our policy, one with both. All must come to the same verdicts and the same values, and we must give every reason that
//! the plugins give.
//!
//! No controller runs: every quota's status is written by the test, the same at both, and every case has a namespace of
//! its own with one request in it. So it does not matter that the plugin charges quotas and a policy cannot.
//!
//! `HEADROOM_DIFFERENTIAL_CASES` says how many cases (3,000 unless set), `HEADROOM_DIFFERENTIAL_SEED` the seed of the
//! first; the others count up from there, so that one case is replayed by its seed and a number of 1.

mod case;
mod departures;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use headroom_cluster_tests::cluster::{Cluster, LABEL, create, resource};
use headroom_cluster_tests::control_plane::{Controllers, InTreePlugins};
use headroom_cluster_tests::policy_server::Deployment;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::case::{Case, RUNTIME_CLASS};
use self::departures::Departure;
use self::outcome::{Outcome, differences, values};
use crate::guarded::{Guarded, guard};
use crate::objects::{limit_range, pod, quota};

/// Requests that are on their way to one API server at a time.
const AT_ONCE: usize = 12;

/// One of the API servers.
struct Plane {
    client: Client,
    /// The labels of the namespaces that cases get.
    labels: Value,
}

impl Plane {
    /// Brings `namespace` and what is needed of it into being.
    async fn prepare(&self, case: &Case, namespace: &str) -> kube::Result<()> {
        let metadata = json!({"name": namespace, "labels": self.labels});
        create(&self.client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await?;
        if let Some(before) = &case.before {
            create(&self.client, within(before, namespace)).await?;
        }
        for rule in &case.rules {
            create(&self.client, within(rule, namespace)).await?;
            if let Some(status) = rule.get("status") {
                self.set_status(namespace, rule["metadata"]["name"].as_str().unwrap(), status).await?;
            }
        }
        Ok(())
    }

    async fn set_status(&self, namespace: &str, quota: &str, status: &Value) -> kube::Result<()> {
        let quotas = self.api("v1", "ResourceQuota", namespace);
        let patch = Patch::Merge(json!({"status": status}));
        quotas.patch_status(quota, &PatchParams::default(), &patch).await.map(drop)
    }

    fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(api_version, kind))
    }

    /// Sends the request of a case.
    async fn ask(&self, case: &Case, namespace: &str) -> kube::Result<Outcome> {
        let object = within(&case.object, namespace);
        let done = match &case.before {
            None => create(&self.client, object.clone()).await,
            Some(_) => {
                let api = self.api(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap(), namespace);
                let name = object["metadata"]["name"].as_str().unwrap();
                api.patch(name, &PatchParams::default(), &Patch::Merge(&object)).await
            }
        };
        match done {
            Ok(stored) => Ok(Outcome::Admitted(values(&stored, case.has_one_range()))),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                Ok(Outcome::Refused { message: status.message })
            }
            Err(error) => Err(error),
        }
    }

    /// Asks about a pod that is never stored; says why it would be refused.
    async fn probe(&self, namespace: &str, resources: Value) -> String {
        let pod = serde_json::from_value(pod(namespace, "probe", resources)).unwrap();
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        match self.api("v1", "Pod", namespace).create(&dry_run, &pod).await {
            Ok(_) => "admitted".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

/// What the plugins look at is a copy that follows what is stored. These two objects are changed after all others, and
/// when the plugins heed the change, they have seen everything before it.
struct Latest;

impl Latest {
    const RANGES: &str = "latest-ranges";
    const QUOTAS: &str = "latest-quotas";

    async fn prepare(plane: &Plane) -> kube::Result<()> {
        for namespace in [Self::RANGES, Self::QUOTAS] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            create(&plane.client, namespace).await?;
        }
        create(&plane.client, limit_range(Self::RANGES, json!({"max": {"cpu": "1"}}))).await?;
        create(&plane.client, quota(Self::QUOTAS, json!({"pods": "0"}))).await?;
        plane.set_status(Self::QUOTAS, "team", &json!({"hard": {"pods": "0"}, "used": {"pods": "0"}})).await
    }

    async fn wait_for(plane: &Plane) -> kube::Result<()> {
        let ranges = plane.api("v1", "LimitRange", Self::RANGES);
        let max = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}});
        ranges.patch("limits", &PatchParams::default(), &Patch::Merge(max)).await?;
        plane.set_status(Self::QUOTAS, "team", &json!({"used": {"pods": "7"}})).await?;
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let limited = plane.probe(Self::RANGES, json!({"limits": {"cpu": "3"}})).await;
            let exceeded = plane.probe(Self::QUOTAS, json!({})).await;
            if limited.contains("maximum cpu usage per Container is 2") && exceeded.contains("used: pods=7") {
                return Ok(());
            }
            assert!(Instant::now() < deadline, "the plugins do not follow: {limited}; {exceeded}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn within(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn namespace_of(case: &Case) -> String {
    format!("case-{}", case.seed)
}

async fn prepare_all(plane: &Plane, cases: &[Case]) {
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": RUNTIME_CLASS},
        "handler": RUNTIME_CLASS, "overhead": {"podFixed": {"cpu": "100m", "memory": "64Mi"}},
    });
    // Its plural is not its name with an `s`.
    let classes = kube::core::GroupVersionKind::gvk("node.k8s.io", "v1", "RuntimeClass");
    let classes = kube::api::ApiResource::from_gvk_with_plural(&classes, "runtimeclasses");
    let classes: Api<DynamicObject> = Api::all_with(plane.client.clone(), &classes);
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    stream::iter(cases)
        .map(|case| async move {
            if let Err(error) = plane.prepare(case, &namespace_of(case)).await {
                panic!("seed {}: the case cannot be set up: {error}\n{}", case.seed, told(case));
            }
        })
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;
}

/// In the order of the cases.
async fn ask_all(plane: &Plane, cases: &[Case]) -> Vec<Outcome> {
    stream::iter(cases)
        .map(|case| async move {
            let asked = plane.ask(case, &namespace_of(case)).await;
            asked.unwrap_or_else(|error| panic!("seed {}: no verdict: {error}\n{}", case.seed, told(case)))
        })
        .buffered(AT_ONCE)
        .collect()
        .await
}

/// A case in full.
fn told(case: &Case) -> String {
    let mut text = String::new();
    let before = case.before.iter().map(|before| ("before", before));
    let rules = case.rules.iter().map(|rule| ("rule", rule));
    for (what, object) in rules.chain(before).chain([("request", &case.object)]) {
        text.push_str(&format!("# {what}\n{}", serde_yaml::to_string(object).unwrap()));
    }
    text
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// What the cases came to at one of our API servers, held against what they came to where only the plugins speak.
struct Comparison<'a> {
    departures: &'a [Departure],
    /// How often each departure was met.
    met: BTreeMap<&'a str, usize>,
    /// The seeds of the cases that no departure explains.
    unlisted: BTreeSet<u64>,
}

impl<'a> Comparison<'a> {
    fn new(departures: &'a [Departure]) -> Self {
        Self { departures, met: BTreeMap::new(), unlisted: BTreeSet::new() }
    }

    fn compare(&mut self, place: &str, case: &Case, theirs: &Outcome, ours: &Outcome) {
        for difference in differences(theirs, ours) {
            match self.departures.iter().find(|departure| departure.allows(case, &difference)) {
                Some(departure) => *self.met.entry(&departure.reason).or_default() += 1,
                None if self.unlisted.insert(case.seed) => println!(
                    "--- {:?}\nkubernetes {theirs}\nheadroom, {place} {ours}\n{}replay with HEADROOM_DIFFERENTIAL_SEED={} HEADROOM_DIFFERENTIAL_CASES=1\n",
                    difference.kind,
                    told(case),
                    case.seed,
                ),
                None => {}
            }
        }
    }
}

/// An API server whose cases' namespaces our policy guards.
async fn guarded_plane(plugins: InTreePlugins) -> (Guarded, Plane) {
    // The README says to add rules for what else is to be counted.
    let rules = json!([{
        "apiGroups": ["", "apps", "batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "persistentvolumeclaims", "services", "configmaps", "deployments", "jobs"],
    }]);
    let deployment = Deployment { rules: Some(rules), ..Deployment::mutating(json!({"estimates": {"mode": "never"}})) };
    let guarded = guard(Cluster::start(plugins, Controllers::Off).await.unwrap(), deployment).await;
    let plane = Plane { client: guarded.client.clone(), labels: json!({LABEL: guarded.namespace}) };
    (guarded, plane)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts three control planes: make e2e-cluster"]
async fn headroom_decides_as_the_plugins_do() {
    let first = setting("HEADROOM_DIFFERENTIAL_SEED", 20_261_121);
    let cases: Vec<Case> = (0..setting("HEADROOM_DIFFERENTIAL_CASES", 3_000)).map(|n| Case::new(first + n)).collect();
    let (cluster, (_alone, alone), (_beside, beside)) = tokio::join!(
        Cluster::start(InTreePlugins::On, Controllers::Off),
        guarded_plane(InTreePlugins::Off),
        guarded_plane(InTreePlugins::On)
    );
    let cluster = cluster.unwrap();
    let kubernetes = Plane { client: cluster.client().await.unwrap(), labels: json!({}) };

    let began = Instant::now();
    for plane in [&kubernetes, &beside] {
        Latest::prepare(plane).await.unwrap();
    }
    tokio::join!(prepare_all(&kubernetes, &cases), prepare_all(&alone, &cases), prepare_all(&beside, &cases));
    for plane in [&kubernetes, &beside] {
        Latest::wait_for(plane).await.unwrap();
    }
    println!("{} cases are set up after {:?}", cases.len(), began.elapsed());
    let (theirs, alone, beside) =
        tokio::join!(ask_all(&kubernetes, &cases), ask_all(&alone, &cases), ask_all(&beside, &cases));
    println!("and judged after {:?}", began.elapsed());

    let departures = Departure::all();
    let mut comparison = Comparison::new(&departures);
    for (place, ours) in [("alone", &alone), ("beside the plugins", &beside)] {
        for ((case, theirs), ours) in cases.iter().zip(&theirs).zip(ours) {
            comparison.compare(place, case, theirs, ours);
        }
    }
    let refused = theirs.iter().filter(|outcome| matches!(outcome, Outcome::Refused { .. })).count();
    let admitted = cases.len() - refused;
    println!("Kubernetes admitted {admitted} and refused {refused}; departures that are listed: {:#?}", comparison.met);
    // A test of requests that are nearly all admitted, or all refused, would be none.
    assert!(cases.len() < 100 || admitted.min(refused) > cases.len() / 5, "{admitted} admitted, {refused} refused");
    let unlisted = comparison.unlisted;
    assert!(
        unlisted.is_empty(),
        "{} cases differ in a way that no departure lists: seeds {unlisted:?}",
        unlisted.len()
    );
}
