//! Pods that a tenant resizes, their node, and the controller that counts them. Whatever is resized in whatever order, what
//! nodes allocate stays within the quota.

use headroom_admission::json::Document;
use headroom_admission::quota::{Charged, ChargedKind, ObjectUsage, Stored};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::answer;

/// A step of a tenant, of the node, or of the controller that counts.
#[derive(Debug, Clone)]
enum Step {
    Resize {
        pod: usize,
        cpu: u32,
        memory: u32,
    },
    /// A new image raises the generation without a review.
    ChangeImage(usize),
    Sync(usize),
    Recount,
}

/// The cpus that the quota allows, and the memory that a node has.
const HARD: u32 = 4;
const NODE_MEMORY: u32 = 4;

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
    let status = &mut pod["status"];
    if wanted["memory"].as_str().unwrap().parse::<u32>().unwrap() <= NODE_MEMORY {
        status["conditions"] = json!([]);
        status["containerStatuses"][0]["allocatedResources"] = wanted.clone();
        status["containerStatuses"][0]["resources"]["requests"] = wanted;
    } else {
        status["conditions"] =
            json!([{"type": "PodResizePending", "reason": "Infeasible", "observedGeneration": generation}]);
    }
}

/// The usage that the quota controller writes.
fn count(pods: &[Value]) -> Value {
    let cpu = pods.iter().map(|pod| {
        let pod = pod.to_string();
        let document = Document::read(&pod).unwrap();
        let stored = Stored::read(ChargedKind::POD, document.root()).unwrap();
        ObjectUsage::of(&stored.object(), None).unwrap().amount(Charged::Request("cpu")).unwrap()
    });
    let cpu = cpu.reduce(|sum, cpu| sum.plus(&cpu)).unwrap();
    json!({"requests.cpu": cpu.to_string()})
}

/// Takes the steps, and asserts that nodes never allocate more than the quota allows.
fn run(steps: &[Step]) {
    let mut pods = [pod(0), pod(1)];
    let mut used = count(&pods);
    for step in steps {
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
                let answer = answer(&request, &json!({}), &lists, None);
                if answer.admitted {
                    used = answer.used.get("q").unwrap_or(&used).clone();
                    if requests(&new) != requests(pod) {
                        new["metadata"]["generation"] = json!(pod["metadata"]["generation"].as_u64().unwrap() + 1);
                    }
                    *pod = new;
                }
            }
            Step::ChangeImage(pod) => {
                let generation = &mut pods[*pod]["metadata"]["generation"];
                *generation = json!(generation.as_u64().unwrap() + 1);
            }
            Step::Sync(pod) => sync(&mut pods[*pod]),
            Step::Recount => used = count(&pods),
        }
        let allocated = |pod: &Value| -> u32 {
            pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"].as_str().unwrap().parse().unwrap()
        };
        let allocated: u32 = pods.iter().map(allocated).sum();
        assert!(allocated <= HARD, "{allocated} of {HARD} allocated: {steps:?}");
    }
}

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..2_usize;
    prop_oneof![
        3 => (pod.clone(), 0..6_u32, prop::sample::select(vec![1, 9])).prop_map(|(pod, cpu, memory)| Step::Resize { pod, cpu, memory }),
        1 => pod.clone().prop_map(Step::ChangeImage),
        3 => pod.prop_map(Step::Sync),
        2 => Just(Step::Recount),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_sequence_of_resizes_passes_a_bound(steps in prop::collection::vec(step(), 1..24)) {
        run(&steps);
    }
}
