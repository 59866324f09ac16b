//! A random namespace and one request in it.
//!
//! All generated objects are valid to the API server, so that only a plugin or our policy refuses a request. Amounts
//! come from short tables in rising order, so values often equal their bounds, in many spellings. Two LimitRanges with
//! defaults for the same resource are not generated, because the plugins' answer would be random.

mod amounts;
mod checked;
mod forged;
mod objects;
mod rules;

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::amounts::{PARTS_OF_A_BYTE, Random, STORAGE};
use self::objects::{claim, pod, scaled_up, service, workload};

const PRIORITIES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// A RuntimeClass with overhead, which the API server adds to pods of that class.
pub const RUNTIME_CLASS: &str = "sandboxed";
/// A StorageClass whose claims can grow.
pub const GOLD: &str = "gold";

/// The parts of a case. Objects do not have a namespace yet.
pub struct Case {
    /// The seed that generates this case.
    pub seed: u64,
    /// LimitRanges and ResourceQuotas, the latter with their status.
    pub rules: Vec<Value>,
    pub request: Request,
    /// The request's object with forged fields, which the API server resets.
    pub forged: Option<Value>,
    /// An update merges lists by their keys, as `kubectl apply` does, and not replaces them.
    pub merges_lists: bool,
}

/// The request of an honest client.
pub struct Request {
    /// The object that the request updates, stored before there are rules; with its status, if it has one.
    pub before: Option<Value>,
    /// The object that is created, or that replaces the one before.
    pub object: Value,
    /// Only this subresource is updated.
    pub subresource: Option<&'static str>,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let random = &mut Random::with_seed(seed);
        let request = Request::new(random);
        let rules = rules::rules(random, &request.object);
        let forged = random.chance(60).then(|| forged::forge(random, &request));
        Self { seed, rules, request, forged, merges_lists: false }
    }

    /// A case for `check`, which reads what a client sends: nothing is forged, but some requests are invalid. They resize
    /// pods only where the API server does.
    pub fn for_check(seed: u64, has_resize: bool) -> Self {
        let random = &mut Random::with_seed(seed);
        let request = checked::request(random, has_resize);
        let rules = rules::rules(random, &request.object);
        Self { seed, rules, request, forged: None, merges_lists: true }
    }

    fn ranges(&self) -> usize {
        self.rules.iter().filter(|rule| rule["kind"] == "LimitRange").count()
    }

    /// True if LimitRanger's annotation is complete: it describes only the last LimitRange.
    pub fn has_one_range(&self) -> bool {
        self.ranges() == 1
    }

    /// The object that is sent.
    pub fn sent(&self) -> &Value {
        self.forged.as_ref().unwrap_or(&self.request.object)
    }
}

/// A property of a request that a departure may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trait {
    /// The pod's containers do not all set the same resources.
    ContainersDiffer,
    /// The pod's RuntimeClass has overhead.
    HasOverhead,
    /// The pod or its LimitRanges have amounts with fractions of a byte.
    HasPartsOfAByte,
    /// The pod gets a deadline that it did not have.
    GetsADeadline,
    /// The namespace has several LimitRanges.
    HasSeveralRanges,
    /// It resizes a running pod.
    IsResize,
    /// The client writes the pod's QoS class into its status.
    ForgesItsClass,
}

impl Case {
    pub fn has(&self, of: Trait) -> bool {
        let Request { before, object, .. } = &self.request;
        let spec = &object["spec"];
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
            Trait::ForgesItsClass => {
                self.forged.as_ref().is_some_and(|forged| forged["status"]["qosClass"].is_string())
            }
            Trait::IsResize => self.request.subresource == Some("resize"),
            Trait::HasSeveralRanges => self.ranges() > 1,
            Trait::HasPartsOfAByte => {
                let text = json!([self.rules, object]).to_string();
                PARTS_OF_A_BYTE.iter().any(|amount| text.contains(&format!(r#""memory":"{amount}""#)))
            }
            Trait::GetsADeadline => {
                let deadline = |object: &Value| object["spec"].get("activeDeadlineSeconds").is_some();
                deadline(object) && before.as_ref().is_some_and(|before| !deadline(before))
            }
        }
    }
}

impl Request {
    fn new(random: &mut Random) -> Self {
        let touched = || json!({"touched": "yes"});
        match random.count(0..=99) {
            0..62 => Self::create(pod(random)),
            62..68 => {
                let mut before = pod(random);
                let mut after = before.clone();
                after["metadata"]["labels"] = touched();
                // A deadline can be set but not removed; since 1.33 quotas evaluate such updates.
                if random.chance(60) && before["spec"].get("activeDeadlineSeconds").is_none() {
                    after["spec"]["activeDeadlineSeconds"] = json!(30);
                }
                if random.chance(50) {
                    before["status"] = json!({"phase": random.pick(&["Running", "Succeeded", "Failed"])});
                }
                Self::update(before, after)
            }
            68..75 => Self::create(claim(random)),
            75..78 => {
                let before = claim(random);
                let mut after = before.clone();
                after["metadata"]["labels"] = touched();
                Self::update(before, after)
            }
            78..81 => Self::growing_claim(random),
            81..86 => Self::create(service(random)),
            // The update omits the node ports that the API server has allocated, like a client's own manifest.
            86..91 => Self::update(service(random), service(random)),
            91 => Self::create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})),
            92..97 => Self::create(workload(random)),
            97 => {
                let before = workload(random);
                let after = scaled_up(&before);
                Self::update(before, after)
            }
            98 => Self::scale(random),
            _ => Self::status(random),
        }
    }

    fn create(object: Value) -> Self {
        Self { before: None, object, subresource: None }
    }

    fn update(before: Value, after: Value) -> Self {
        Self { before: Some(before), object: after, subresource: None }
    }

    /// A bound claim that requests a larger volume.
    fn growing_claim(random: &mut Random) -> Self {
        let mut before = claim(random);
        let [less, more] = random.rising(STORAGE);
        before["spec"]["storageClassName"] = json!(GOLD);
        before["spec"]["resources"]["requests"]["storage"] = json!(less);
        let mut after = before.clone();
        after["spec"]["resources"]["requests"]["storage"] = json!(more);
        before["status"] = json!({"phase": "Bound", "capacity": {"storage": less}});
        Self::update(before, after)
    }

    fn scale(random: &mut Random) -> Self {
        let before = loop {
            let workload = workload(random);
            if workload["spec"].get("replicas").is_some() {
                break workload;
            }
        };
        let object = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": before["metadata"], "spec": {"replicas": 5},
        });
        Self { before: Some(before), object, subresource: Some("scale") }
    }

    /// A status update by a node or a controller.
    fn status(random: &mut Random) -> Self {
        let (before, status) = if random.chance(50) {
            (pod(random), json!({"phase": random.pick(&["Running", "Succeeded", "Failed"])}))
        } else {
            (claim(random), json!({"phase": "Bound", "capacity": {"storage": random.pick(STORAGE)}}))
        };
        let mut object = before.clone();
        object["status"] = status;
        Self { before: Some(before), object, subresource: Some("status") }
    }
}
