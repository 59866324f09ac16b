//! The core behind a door like the policy's: payload and lists in, answer out.

use headroom_core::amount::ResourceList;
use headroom_core::context::lookup::Lookup;
use headroom_core::json::Document;
use headroom_core::timestamp::Timestamp;
use headroom_core::{Context, Request, Settings, decide};
use serde_json::{Map, Value, json};

/// What a policy answers.
pub struct Answer {
    pub accepted: bool,
    pub message: String,
    pub warnings: Vec<String>,
    /// What was read afresh, by name.
    pub read_again: Vec<String>,
    pub changed_object: Option<Value>,
    /// The new `status.used` of each quota that is charged.
    pub used: Map<String, Value>,
    /// What the pods of a workload would add at most: quota, name, amount.
    pub pods_add: Vec<(String, String, String)>,
}

/// Judges a payload, given what the host would answer with: lists by kind, and by `Fresh` those of a second reading.
pub fn answer(payload: &Value, lists: &Value, now: Option<Timestamp>) -> Answer {
    let text = payload.to_string();
    let document = Document::read(&text).unwrap();
    let request = Request::read(document.root().get("request").unwrap().unwrap()).unwrap();
    let settings = Settings::read(document.root().get("settings").unwrap()).unwrap();
    let lookups = Lookup::all(&request, &settings);
    let answers: Vec<String> = lookups.iter().map(|lookup| answer_of(lookup, lists)).collect();
    let documents: Vec<Document<'_>> = answers.iter().map(|answer| Document::read(answer).unwrap()).collect();
    let (fresh_answers, fresh_documents): (Vec<String>, Vec<Document<'_>>);
    let mut context = Context { now, ..Context::default() };
    lookups.iter().zip(&documents).for_each(|(lookup, document)| context.add(lookup, Ok(document.root())));
    let mut decision = decide(&request, &context, &settings);
    let again = Lookup::again(&request, &decision.doubtful_quotas);
    fresh_answers = again.iter().map(|lookup| answer_of(lookup, lists)).collect();
    fresh_documents = fresh_answers.iter().map(|answer| Document::read(answer).unwrap()).collect();
    if !again.is_empty() {
        again.iter().zip(&fresh_documents).for_each(|(lookup, document)| context.add(lookup, Ok(document.root())));
        decision = decide(&request, &context, &settings);
    }
    let mut used = Map::new();
    for charge in decision.charges.iter().filter(|_| decision.is_admitted()) {
        let quotas = context.quotas.as_deref().unwrap_or_default();
        let quota = quotas.iter().find(|quota| quota.name == charge.quota).unwrap();
        let mut level = quota.used.clone();
        charge.added.iter().for_each(|added| level.set(added.name.clone(), added.used.clone()));
        used.insert(charge.quota.to_string(), to_json(&level));
    }
    let added = decision.pod_charges.iter().flat_map(|charge| {
        charge.added.iter().map(|added| (charge.quota.to_string(), added.name.to_string(), added.amount.to_string()))
    });
    let changed_object = request.object.and_then(|object| decision.changed_object(object).unwrap());
    Answer {
        accepted: decision.is_admitted(),
        message: decision.message(),
        read_again: again.iter().map(|lookup| lookup.call().name.unwrap().to_string()).collect(),
        changed_object: changed_object.map(|text| serde_json::from_str(&text).unwrap()),
        used,
        pods_add: added.collect(),
        warnings: decision.warnings,
    }
}

fn answer_of(lookup: &Lookup<'_>, lists: &Value) -> String {
    match lookup {
        Lookup::FreshQuota { name, .. } => {
            let quotas = lists["Fresh"]["items"].as_array().unwrap();
            quotas.iter().find(|quota| quota["metadata"]["name"] == json!(name)).unwrap().to_string()
        }
        Lookup::Scaled { .. } => lists["Scaled"].to_string(),
        _ => match &lists[lookup.call().kind] {
            Value::Null => json!({"items": []}).to_string(),
            list => list.to_string(),
        },
    }
}

pub fn to_json(list: &ResourceList<'_>) -> Value {
    list.iter().map(|(name, amount)| (name.to_string(), json!(amount.to_string()))).collect::<Map<_, _>>().into()
}
