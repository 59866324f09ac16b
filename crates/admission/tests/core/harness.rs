//! The core with an interface like the policy's: request, settings and answers to reads in, outcome out.

use std::collections::BTreeMap;

use headroom_admission::amount::ResourceList;
use headroom_admission::cluster::lookup::Lookup;
use headroom_admission::json::{Document, Node};
use headroom_admission::timestamp::Timestamp;
use headroom_admission::{FetchedObjects, Request, Settings};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub admitted: bool,
    pub message: String,
    pub warnings: Vec<String>,
    pub audit: BTreeMap<&'static str, String>,
    /// The object after the decision, and whether its text changed.
    pub object: Value,
    pub changed: bool,
    /// The objects that were read: kind and name.
    pub reads: Vec<(String, String)>,
    /// The names of the quotas that were read again.
    pub read_again: Vec<String>,
    /// The new `status.used` of each quota that is charged.
    pub used: Map<String, Value>,
    /// The amounts that the pods of a workload would add at most.
    pub pods_add: Vec<String>,
}

/// Evaluates a request with the host's answers: lists by kind, or why a kind cannot be read, and under `Fresh` the quotas of
/// a second read.
pub fn answer(request: &Value, settings: &Value, lists: &Value, now: Option<Timestamp>) -> Outcome {
    let texts = [request, settings].map(Value::to_string);
    let documents = texts.each_ref().map(|text| Document::read(text).unwrap());
    let review = Request::read(documents[0].root()).unwrap();
    let settings = Settings::read(Some(documents[1].root())).unwrap();
    let (mut reads, mut read_again) = (Vec::new(), Vec::new());
    let read = |lookups: &[Lookup<'_>]| {
        let one = |lookup: &Lookup<'_>| {
            let call = lookup.call();
            let name = call.name.unwrap_or_default().to_string();
            if let Lookup::FreshQuota { .. } = lookup {
                read_again.push(name.clone());
            }
            reads.push((call.kind.to_owned(), name));
            answer_of(lookup, lists).map(String::into_bytes)
        };
        lookups.iter().map(one).collect()
    };
    let fetched = FetchedObjects::default();
    let (decision, context) = headroom_admission::evaluate(&review, &settings, &fetched, read, || now);
    let mut used = Map::new();
    for charge in decision.charges.iter().filter(|_| decision.is_admitted()) {
        let quotas = context.quotas.as_deref().unwrap_or_default();
        let quota = quotas.iter().find(|quota| quota.name == charge.quota).unwrap();
        let mut level = quota.used.clone();
        charge.added.iter().for_each(|added| level.set(added.name.clone(), added.used.clone()));
        used.insert(charge.quota.to_string(), to_json(&level));
    }
    let added = decision.pod_charges.iter().flat_map(|charge| &charge.added);
    let changed = review.object.and_then(|object| decision.changed_object(object.node).unwrap());
    let audit = decision.audit_annotations().into_iter();
    Outcome {
        admitted: decision.is_admitted(),
        message: decision.message(),
        warnings: decision.warnings.iter().map(|warning| warning.text.clone()).collect(),
        audit: audit.map(|(name, json)| (name, serde_json::from_str(&json).unwrap())).collect(),
        changed: changed.is_some(),
        object: changed.map_or_else(|| request["object"].clone(), |text| serde_json::from_str(&text).unwrap()),
        reads,
        read_again,
        used,
        pods_add: added.map(|added| added.amount.to_string()).collect(),
    }
}

fn answer_of(lookup: &Lookup<'_>, lists: &Value) -> Result<String, String> {
    let call = lookup.call();
    if let Value::String(problem) = &lists[call.kind] {
        return Err(problem.clone());
    }
    let of_name = |list: &str| {
        let items = lists[list]["items"].as_array().into_iter().flatten();
        items.filter(|object| object["metadata"]["name"].as_str() == call.name.as_deref()).collect::<Vec<_>>()
    };
    match lookup {
        Lookup::FreshQuota { .. } | Lookup::PodOfClaim { .. } => {
            let found = of_name(if call.kind == "Pod" { "Pod" } else { "Fresh" });
            let name = call.name.as_deref().unwrap_or_default();
            found.first().map(ToString::to_string).ok_or_else(|| format!("Cannot find v1/{} named '{name}'", call.kind))
        }
        Lookup::Namespace { name } if lists["Namespace"].is_null() => {
            Ok(json!({"items": [{"metadata": {"name": name}}]}).to_string())
        }
        Lookup::Scaled { .. } => {
            let mut scaled = lists["Scaled"].clone();
            let mask = call.field_masks.iter().map(|path| (*path).to_owned());
            headroom_fixtures::field_mask::prune(&mut scaled, &mask.collect());
            Ok(scaled.to_string())
        }
        Lookup::UsageProfile { .. } => {
            let mut found = of_name(call.kind);
            found.retain(|profile| profile["metadata"]["namespace"].as_str() == call.namespace);
            Ok(json!({"items": found}).to_string())
        }
        _ if lists[call.kind].is_null() => Ok(json!({"items": []}).to_string()),
        _ => Ok(lists[call.kind].to_string()),
    }
}

/// An object, or the text of one, as the core reads it. It is never freed, so that a test can read it where it stands.
pub fn node(object: impl ToString) -> Node<'static> {
    let document: &'static Document<'static> =
        Box::leak(Box::new(Document::own(object.to_string().into_bytes()).unwrap()));
    document.root()
}

pub fn to_json(list: &ResourceList<'_>) -> Value {
    list.iter().map(|(name, amount)| (name.to_string(), json!(amount.to_string()))).collect::<Map<_, _>>().into()
}

/// Compares amounts by value; without a list there are none.
pub fn assert_amounts(case: &str, actual: &Value, expected: &Value) {
    let read = |list: &Value| match list {
        Value::Null => ResourceList::default(),
        list => ResourceList::read(node(list)).unwrap(),
    };
    assert_eq!(read(actual), read(expected), "{case}");
}
