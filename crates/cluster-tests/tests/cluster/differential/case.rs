//! A random namespace and one request in it.
//!
//! Whatever is made here is valid to the API server, so that what refuses a request is a plugin or our policy. Amounts
//! come from short tables in rising order: values meet their bounds exactly often enough, and in many spellings. Left out
//! is what makes the plugins' own answer a matter of chance: two LimitRanges with defaults for the same resource.

use std::collections::BTreeSet;

use fastrand::Rng;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What may be set of containers, with amounts in rising order.
const RESOURCES: [(&str, &[&str]); 3] =
    [("cpu", CPU), ("memory", MEMORY), ("ephemeral-storage", &["0", "100M", "512Mi", "1G", "1Gi", "2Gi", "1e10"])];
const CPU: &[&str] = &[
    "0", "1m", "1500u", "5m", "50m", "0.1", "150m", "200m", "250m", "0.3", "500m", "0.7", "0.75", "1", "1.5", "2000m",
    "3", "4", "2e1",
];
const MEMORY: &[&str] = &[
    "0",
    "1",
    PARTS_OF_A_BYTE[0],
    PARTS_OF_A_BYTE[1],
    "32Mi",
    "64M",
    "64Mi",
    "100M",
    "128M",
    "128Mi",
    "0.25Gi",
    "300Mi",
    "500M",
    "500Mi",
    "512Mi",
    "1e9",
    "1Gi",
    "1536Mi",
    "2Gi",
    "4G",
];
const PARTS_OF_A_BYTE: [&str; 2] = ["1500m", "0.1Mi"];
const STORAGE: &[&str] = &["1M", "500Mi", "1G", "1Gi", "1.5Gi", "5Gi", "10G", "10Gi", "1e11"];
const RATIOS: [&str; 6] = ["1", "1.5", "2", "4", "7.5", "100"];
const SCOPES: [&str; 4] = ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort"];
const PRIORITIES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// A RuntimeClass with overhead, which the API server adds to pods of that class.
pub const RUNTIME_CLASS: &str = "sandboxed";

/// All that a case is made of. Nothing names its namespace yet.
pub struct Case {
    /// Makes the case again.
    pub seed: u64,
    /// LimitRanges and ResourceQuotas, the latter with their status.
    pub rules: Vec<Value>,
    /// What is stored, before there are rules, of the object that the request updates.
    pub before: Option<Value>,
    /// The object of the request: created, or stored over the one before.
    pub object: Value,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let random = &mut Random(Rng::with_seed(seed));
        let (before, object) = request(random);
        Self { seed, rules: rules(random, &object), before, object }
    }

    /// Whether LimitRanger's annotation describes all that it did: it tells of the last LimitRange only.
    pub fn has_one_range(&self) -> bool {
        self.rules.iter().filter(|rule| rule["kind"] == "LimitRange").count() == 1
    }
}

/// What of a request a departure may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trait {
    /// The pod's containers do not all set the same resources.
    ContainersDiffer,
    /// The pod's RuntimeClass has overhead.
    HasOverhead,
    /// The pod or its LimitRanges name parts of a byte.
    HasPartsOfAByte,
    /// The object is an update that leaves its amounts as they are.
    KeepsItsAmounts,
    /// The pod gets a deadline that it did not have.
    GetsADeadline,
}

impl Case {
    pub fn has(&self, of: Trait) -> bool {
        let spec = &self.object["spec"];
        match of {
            Trait::ContainersDiffer => {
                let names = |container: &Value| -> Vec<BTreeSet<String>> {
                    let keys = |list| container["resources"][list].as_object().into_iter().flat_map(Map::keys).cloned();
                    ["requests", "limits"].map(|list| keys(list).collect()).to_vec()
                };
                let mut containers = spec["containers"].as_array().into_iter().flatten().map(names);
                let first = containers.next();
                containers.any(|other| Some(other) != first)
            }
            Trait::HasOverhead => spec.get("runtimeClassName").is_some(),
            Trait::HasPartsOfAByte => {
                let text = json!([self.rules, self.object]).to_string();
                PARTS_OF_A_BYTE.iter().any(|amount| text.contains(&format!(r#""memory":"{amount}""#)))
            }
            Trait::KeepsItsAmounts => {
                self.before.as_ref().is_some_and(|before| before["spec"]["resources"] == spec["resources"])
            }
            Trait::GetsADeadline => {
                let deadline = |object: &Value| object["spec"].get("activeDeadlineSeconds").is_some();
                deadline(&self.object) && self.before.as_ref().is_some_and(|before| !deadline(before))
            }
        }
    }
}

struct Random(Rng);

impl Random {
    fn chance(&mut self, percent: u8) -> bool {
        self.0.u8(..100) < percent
    }

    fn count(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        self.0.usize(range)
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.0.usize(..of.len())]
    }

    /// So many amounts of a table, in rising order.
    fn rising<'a, const N: usize>(&mut self, table: &[&'a str]) -> [&'a str; N] {
        let mut places: [usize; N] = std::array::from_fn(|_| self.0.usize(..table.len()));
        places.sort_unstable();
        places.map(|place| table[place])
    }
}

fn request(random: &mut Random) -> (Option<Value>, Value) {
    match random.count(0..=99) {
        0..68 => (None, pod(random)),
        68..73 => {
            let before = pod(random);
            let mut after = before.clone();
            after["metadata"]["labels"] = json!({"touched": "yes"});
            // A deadline can be set but not taken back; since 1.33 quotas look at that.
            if random.chance(30) && before["spec"].get("activeDeadlineSeconds").is_none() {
                after["spec"]["activeDeadlineSeconds"] = json!(30);
            }
            (Some(before), after)
        }
        73..82 => (None, claim(random)),
        82..85 => {
            let before = claim(random);
            let mut after = before.clone();
            after["metadata"]["labels"] = json!({"touched": "yes"});
            (Some(before), after)
        }
        85..91 => (None, service(random)),
        91..95 => (Some(service(random)), service(random)),
        95..97 => (None, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})),
        _ => (None, workload(random)),
    }
}

fn pod(random: &mut Random) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": pod_spec(random)});
    if random.chance(10) {
        pod["metadata"]["annotations"] = json!({"team": "shop"});
    }
    pod
}

fn pod_spec(random: &mut Random) -> Value {
    let containers: Vec<Value> = ["web", "log", "cache"][..random.count(1..=3)]
        .iter()
        .map(|name| json!({"name": name, "image": "nginx", "resources": resources(random)}))
        .collect();
    let mut spec = json!({"containers": containers});
    if random.chance(30) {
        let init: Vec<Value> = ["prepare", "migrate"][..random.count(1..=2)]
            .iter()
            .map(|name| json!({"name": name, "image": "nginx", "resources": resources(random)}))
            .collect();
        spec["initContainers"] = json!(init);
    }
    if random.chance(15) {
        spec["activeDeadlineSeconds"] = json!(60);
    }
    if random.chance(10) {
        spec["priorityClassName"] = json!(random.pick(&PRIORITIES));
    }
    if random.chance(7) {
        spec["runtimeClassName"] = json!(RUNTIME_CLASS);
    }
    spec
}

fn resources(random: &mut Random) -> Value {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for (name, table) in RESOURCES {
        let rarely = if name == "ephemeral-storage" { 4 } else { 1 };
        let [request, limit] = random.rising(table);
        if random.chance(55 / rarely) {
            requests.insert(name.to_owned(), json!(request));
        }
        if random.chance(50 / rarely) {
            limits.insert(name.to_owned(), json!(limit));
        }
    }
    if random.chance(5) {
        let amount = json!(random.pick(&["1", "2"]));
        requests.insert("example.com/gpu".to_owned(), amount.clone());
        limits.insert("example.com/gpu".to_owned(), amount);
    }
    // Huge pages need something of cpu or memory beside them.
    if random.chance(5) && requests.contains_key("memory") {
        let amount = json!(random.pick(&["2Mi", "4Mi"]));
        requests.insert("hugepages-2Mi".to_owned(), amount.clone());
        limits.insert("hugepages-2Mi".to_owned(), amount);
    }
    let mut resources = Map::new();
    for (kind, list) in [("requests", requests), ("limits", limits)] {
        if !list.is_empty() {
            resources.insert(kind.to_owned(), Value::Object(list));
        }
    }
    Value::Object(resources)
}

fn claim(random: &mut Random) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": random.pick(STORAGE)}}},
    });
    match random.count(0..=9) {
        0..4 => claim["spec"]["storageClassName"] = json!("gold"),
        4 => claim["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "gold"}),
        _ => {}
    }
    claim
}

fn service(random: &mut Random) -> Value {
    let ports: Vec<Value> = (0..random.count(1..=3))
        .map(|number| json!({"name": format!("port-{number}"), "port": 8000 + number}))
        .collect();
    let of_type = random.pick(&["ClusterIP", "NodePort", "LoadBalancer"]);
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": of_type, "ports": ports},
    })
}

/// Counted, while its pods are not its own concern.
fn workload(random: &mut Random) -> Value {
    let mut spec = pod_spec(random);
    let labels = json!({"app": "web"});
    if random.chance(50) {
        spec.as_object_mut().unwrap().remove("activeDeadlineSeconds");
        return json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        });
    }
    spec["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": spec}},
    })
}

fn rules(random: &mut Random, object: &Value) -> Vec<Value> {
    let mut rules = Vec::new();
    if random.chance(75) {
        rules.push(limit_range(random, "limits", &RESOURCES[..2]));
    }
    if random.chance(20) {
        rules.push(limit_range(random, "more", &RESOURCES[2..]));
    }
    let quotas = [0, 0, 1, 1, 1, 2][random.count(0..=5)];
    rules.extend(["team", "other"][..quotas].iter().map(|name| quota(random, name, object)));
    rules
}

fn limit_range(random: &mut Random, name: &str, resources: &[(&str, &[&str])]) -> Value {
    let mut items = Vec::new();
    if random.chance(80) {
        items.push(range_item(random, "Container", resources));
    }
    if random.chance(40) {
        items.push(range_item(random, "Pod", resources));
    }
    if random.chance(40) {
        let [min, max] = random.rising(STORAGE);
        let bounds = [
            json!({"min": {"storage": min}}),
            json!({"max": {"storage": max}}),
            json!({"min": {"storage": min}, "max": {"storage": max}}),
        ];
        let mut item = random.pick(&bounds).clone();
        item["type"] = json!("PersistentVolumeClaim");
        items.push(item);
    }
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": items}})
}

fn range_item(random: &mut Random, of_type: &str, resources: &[(&str, &[&str])]) -> Value {
    let mut item = json!({"type": of_type});
    for &(name, table) in resources {
        // In this order they may stand together, whichever of them are left out.
        let [min, request, limit, max] = random.rising(table);
        let mut bound = |list: &str, amount: &str, percent: u8| {
            let is_set = random.chance(percent);
            if is_set {
                item[list][name] = json!(amount);
            }
            is_set
        };
        let bounded = [bound("min", min, 25), bound("max", max, 30)];
        if of_type == "Container" {
            bound("defaultRequest", request, 45);
            bound("default", limit, 45);
        }
        // A ratio must not exceed that of the bounds.
        if bounded != [true, true] {
            let ratio = *random.pick(&RATIOS);
            if random.chance(20) {
                item["maxLimitRequestRatio"][name] = json!(ratio);
            }
        }
    }
    item
}

fn quota(random: &mut Random, name: &str, object: &Value) -> Value {
    let kind = object["kind"].as_str().unwrap();
    let mut spec = json!({});
    let is_scoped = kind == "Pod" && random.chance(30);
    let mut is_best_effort = false;
    if is_scoped && random.chance(50) {
        let scope = *random.pick(&SCOPES);
        is_best_effort = scope == "BestEffort";
        spec["scopes"] = json!([scope]);
    } else if is_scoped {
        let priority = random.pick(&PRIORITIES);
        let selectors = [
            json!({"scopeName": "PriorityClass", "operator": "In", "values": [priority]}),
            json!({"scopeName": "PriorityClass", "operator": "NotIn", "values": [priority]}),
            json!({"scopeName": "PriorityClass", "operator": "Exists"}),
            json!({"scopeName": "PriorityClass", "operator": "DoesNotExist"}),
        ];
        spec["scopeSelector"] = json!({"matchExpressions": [random.pick(&selectors)]});
    }
    let names = match kind {
        "Pod" if is_best_effort => &NAMES_OF_PODS[..1],
        "Pod" if is_scoped => &NAMES_OF_PODS[..7],
        "Pod" => NAMES_OF_PODS,
        "PersistentVolumeClaim" => NAMES_OF_CLAIMS,
        "Service" => NAMES_OF_SERVICES,
        _ => NAMES_OF_OTHERS,
    };
    let (mut hard, mut used) = (Map::new(), Map::new());
    for _ in 0..random.count(1..=4) {
        let (name, table) = *random.pick(names);
        if hard.contains_key(name) {
            continue;
        }
        let [less, more] = random.rising(table);
        let is_over_full = random.chance(7);
        hard.insert(name.to_owned(), json!(if is_over_full { less } else { more }));
        if !random.chance(3) {
            used.insert(name.to_owned(), json!(if is_over_full { more } else { less }));
        }
    }
    spec["hard"] = json!(hard);
    // A new quota has no status until its controller comes by.
    let status = if random.chance(4) { json!({}) } else { json!({"hard": hard, "used": used}) };
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec, "status": status,
    })
}

const COUNTS: &[&str] = &["0", "1", "2", "3", "5", "100"];

/// Those that a quota for best effort takes come first, then those that any scope takes.
const NAMES_OF_PODS: &[(&str, &[&str])] = &[
    ("pods", COUNTS),
    ("cpu", CPU),
    ("memory", MEMORY),
    ("requests.cpu", CPU),
    ("requests.memory", MEMORY),
    ("limits.cpu", CPU),
    ("limits.memory", MEMORY),
    ("count/pods", COUNTS),
    ("requests.ephemeral-storage", &["1G", "1Gi", "2Gi", "1e10"]),
    ("limits.ephemeral-storage", &["1G", "1Gi", "2Gi", "1e10"]),
    ("requests.example.com/gpu", COUNTS),
    ("hugepages-2Mi", &["0", "2Mi", "4Mi", "8Mi"]),
    ("services", COUNTS),
];
const NAMES_OF_CLAIMS: &[(&str, &[&str])] = &[
    ("persistentvolumeclaims", COUNTS),
    ("count/persistentvolumeclaims", COUNTS),
    ("requests.storage", STORAGE),
    ("gold.storageclass.storage.k8s.io/requests.storage", STORAGE),
    ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", COUNTS),
    ("pods", COUNTS),
];
const NAMES_OF_SERVICES: &[(&str, &[&str])] = &[
    ("services", COUNTS),
    ("count/services", COUNTS),
    ("services.nodeports", COUNTS),
    ("services.loadbalancers", COUNTS),
];
const NAMES_OF_OTHERS: &[(&str, &[&str])] = &[
    ("configmaps", COUNTS),
    ("count/configmaps", COUNTS),
    ("count/deployments.apps", COUNTS),
    ("count/jobs.batch", COUNTS),
];
