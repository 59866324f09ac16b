//! The LimitRanges and ResourceQuotas of a namespace, chosen to match the request.

use serde_json::{Map, Value, json};

use super::PRIORITIES;
use super::amounts::{COUNTS, CPU, MEMORY, RATIOS, RESOURCES, Random, STORAGE};

const SCOPES: [&str; 4] = ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort"];

pub fn rules(random: &mut Random, object: &Value) -> Vec<Value> {
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
        // In this order they are valid together, whichever of them are omitted.
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
        // A ratio must not exceed the ratio of the bounds.
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
        "Pod" => NAMES_OF_PODS,
        "PersistentVolumeClaim" => NAMES_OF_CLAIMS,
        "Service" => NAMES_OF_SERVICES,
        _ => NAMES_OF_OTHERS,
    };
    let most = if is_best_effort { 1 } else { 7 };
    let names: Vec<&str> = names.split(' ').take(if is_scoped { most } else { usize::MAX }).collect();
    let (mut hard, mut used) = (Map::new(), Map::new());
    for _ in 0..random.count(1..=4) {
        let name = *random.pick(&names);
        if hard.contains_key(name) {
            continue;
        }
        let [less, more] = random.rising(amounts_of(name));
        let is_over_full = random.chance(7);
        hard.insert(name.to_owned(), json!(if is_over_full { less } else { more }));
        if !random.chance(3) {
            used.insert(name.to_owned(), json!(if is_over_full { more } else { less }));
        }
    }
    spec["hard"] = json!(hard);
    // A new quota has no status until its controller has counted it.
    let status = if random.chance(4) { json!({}) } else { json!({"hard": hard, "used": used}) };
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec, "status": status,
    })
}

/// Names that a quota with scope BestEffort may bound come first, then names for any scope.
const NAMES_OF_PODS: &str = "pods cpu memory requests.cpu requests.memory limits.cpu limits.memory count/pods \
                             requests.ephemeral-storage limits.ephemeral-storage requests.example.com/gpu \
                             hugepages-2Mi services";
const NAMES_OF_CLAIMS: &str = "persistentvolumeclaims count/persistentvolumeclaims requests.storage \
                               gold.storageclass.storage.k8s.io/requests.storage \
                               gold.storageclass.storage.k8s.io/persistentvolumeclaims pods";
const NAMES_OF_SERVICES: &str = "services count/services services.nodeports services.loadbalancers";
/// Includes the names of pods, about which workloads get warnings.
const NAMES_OF_OTHERS: &str = "configmaps count/configmaps count/deployments.apps count/replicasets.apps \
                               count/jobs.batch count/statefulsets.apps count/daemonsets.apps \
                               replicationcontrollers count/replicationcontrollers pods requests.cpu limits.memory";

/// The amounts that a quota may have under a name.
fn amounts_of(name: &str) -> &'static [&'static str] {
    match name.rsplit_once('.').map_or(name, |(_, resource)| resource) {
        "cpu" => CPU,
        "memory" => MEMORY,
        "storage" => STORAGE,
        "ephemeral-storage" => &["1G", "1Gi", "2Gi", "1e10"],
        "hugepages-2Mi" => &["0", "2Mi", "4Mi", "8Mi"],
        _ => COUNTS,
    }
}
