//! Whatever is resized in whatever order: what nodes allocate stays within the quota.

use headroom_core::cluster::resource_quota::ResourceQuota;
use headroom_core::json::Document;
use headroom_core::quota::stored::Stored;
use headroom_core::quota::{Kind, recount};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{answer, to_json};

/// A step of a tenant, of the node, or of the controller that counts.
#[derive(Debug, Clone)]
enum Step {
    Resize {
        pod: usize,
        cpu: u32,
        memory: u32,
    },
    /// A new image raises the generation without a review.
    ChangeImage {
        pod: usize,
    },
    Sync {
        pod: usize,
    },
    Recount,
}

/// The cpus that the quota allows, and the memory that a node has.
const HARD: u32 = 4;
const NODE_MEMORY: u32 = 4;

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..2_usize;
    prop_oneof![
        3 => (pod.clone(), 0..6_u32, prop::sample::select(vec![1, 9])).prop_map(|(pod, cpu, memory)| Step::Resize { pod, cpu, memory }),
        1 => pod.clone().prop_map(|pod| Step::ChangeImage { pod }),
        3 => pod.prop_map(|pod| Step::Sync { pod }),
        2 => Just(Step::Recount),
    ]
}

fn pod(name: usize) -> Value {
    let one = json!({"cpu": "1", "memory": "1"});
    json!({"metadata": {"name": format!("p{name}"), "generation": 1, "resourceVersion": "1"},
        "spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": one}}]},
        "status": {"phase": "Running", "qosClass": "Burstable", "containerStatuses": [
            {"name": "a", "allocatedResources": one, "resources": {"requests": one}}]}})
}

fn requests(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]["requests"]
}

fn quota(used: &Value) -> Value {
    let hard = json!({"requests.cpu": HARD.to_string()});
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

/// The node allocates what it has room for, and reports the rest as infeasible.
fn sync(pod: &mut Value) {
    let wanted = requests(pod).clone();
    let generation = pod["metadata"]["generation"].clone();
    let is_feasible = wanted["memory"].as_str().unwrap().parse::<u32>().unwrap() <= NODE_MEMORY;
    let status = &mut pod["status"];
    if is_feasible {
        status["conditions"] = json!([]);
        status["containerStatuses"][0]["allocatedResources"] = wanted.clone();
        status["containerStatuses"][0]["resources"]["requests"] = wanted;
    } else {
        status["conditions"] =
            json!([{"type": "PodResizePending", "reason": "Infeasible", "observedGeneration": generation}]);
    }
}

fn count(pods: &[Value], used: &Value) -> Value {
    let texts: Vec<String> = pods.iter().map(Value::to_string).collect();
    let documents: Vec<Document<'_>> = texts.iter().map(|text| Document::read(text).unwrap()).collect();
    let stored: Vec<Stored<'_>> =
        documents.iter().map(|document| Stored::read(Kind::POD, document.root()).unwrap()).collect();
    let objects: Vec<_> = stored.iter().map(Stored::object).collect();
    let quota = quota(used).to_string();
    let quota = Document::read(&quota).unwrap();
    let quota = ResourceQuota::read(quota.root()).unwrap();
    to_json(&recount::used(&quota, &objects, |_| true, None).unwrap())
}

proptest! {
    #[test]
    fn no_sequence_of_resizes_passes_a_bound(steps in prop::collection::vec(step(), 1..24)) {
        let mut pods = [pod(0), pod(1)];
        let mut used = count(&pods, &Value::Null);
        for step in &steps {
            match step {
                Step::Resize { pod, cpu, memory } => {
                    let pod = &mut pods[*pod];
                    let mut new = pod.clone();
                    new["spec"]["containers"][0]["resources"]["requests"] =
                        json!({"cpu": cpu.to_string(), "memory": memory.to_string()});
                    let request = json!({"operation": "UPDATE", "namespace": "test", "name": pod["metadata"]["name"],
                        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "subResource": "resize",
                        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": new, "oldObject": pod});
                    let lists = json!({"ResourceQuota": {"items": [quota(&used)]}});
                    let answer = answer(&json!({"request": request, "settings": {}}), &lists, None);
                    if answer.accepted {
                        used = answer.used.get("q").unwrap_or(&used).clone();
                        if requests(&new) != requests(pod) {
                            new["metadata"]["generation"] = json!(pod["metadata"]["generation"].as_u64().unwrap() + 1);
                        }
                        *pod = new;
                    }
                }
                Step::ChangeImage { pod } => {
                    let generation = &mut pods[*pod]["metadata"]["generation"];
                    *generation = json!(generation.as_u64().unwrap() + 1);
                }
                Step::Sync { pod } => sync(&mut pods[*pod]),
                Step::Recount => used = count(&pods, &used),
            }
            let allocated = |pod: &Value| -> u32 {
                pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"].as_str().unwrap().parse().unwrap()
            };
            let allocated: u32 = pods.iter().map(allocated).sum();
            prop_assert!(allocated <= HARD, "{allocated} of {HARD} allocated");
        }
    }
}
