//! Holds an edited text against the one it was made from: nothing may differ but the amounts that were meant.

use headroom_core::amount::Quantity;
use serde_json::{Map, Value};

use super::{Edit, EditError, Identity, is_same_amount};

pub(super) fn says_the_same(before: &str, after: &str, edits: &[Edit]) -> Result<(), EditError> {
    let (Some(mut before), Some(mut after)) = (read(before), read(after)) else {
        return Err(EditError::NotCertain(all(edits)));
    };
    for edit in edits {
        let amounts = objects(&mut after).find(|object| is_it(object, edit)).map(|object| take(object, edit));
        let as_meant = amounts.as_ref().is_some_and(|amounts| {
            let same = |(_, wanted): &(&str, Quantity), found: &Option<Value>| {
                found.as_ref().and_then(text).is_some_and(|found| is_same_amount(&found, wanted))
            };
            edit.amounts.iter().zip(amounts).all(|(wanted, found)| same(wanted, found))
        });
        if !as_meant {
            return Err(EditError::NotCertain(all(edits)));
        }
        for object in objects(&mut before).filter(|object| is_it(object, edit)) {
            take(object, edit);
        }
    }
    if before == after { Ok(()) } else { Err(EditError::NotCertain(all(edits))) }
}

/// True if one text is another with `put` done to each of its objects, whose identity can be asked.
pub(super) fn says(before: &str, after: &str, put: impl Fn(&dyn Fn(&Identity) -> bool, &mut Value)) -> bool {
    let (Some(mut before), Some(after)) = (read(before), read(after)) else { return false };
    for object in objects(&mut before) {
        let is = object.clone();
        put(&|identity| is_object(&is, identity), object);
    }
    before == after
}

fn all(edits: &[Edit]) -> String {
    let amounts = edits.iter().flat_map(|edit| {
        let field = edit.requirement.field();
        edit.amounts.iter().map(move |(name, amount)| format!("{}: {field}.{name}: {amount}", edit.container))
    });
    amounts.collect::<Vec<_>>().join("; ")
}

fn read(text: &str) -> Option<Vec<Value>> {
    serde_saphyr::from_multiple(text).ok()
}

fn objects(documents: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    documents.iter_mut().flat_map(|document| -> Box<dyn Iterator<Item = &mut Value>> {
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if is_list && document["items"].is_array() {
            Box::new(document.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten())
        } else {
            Box::new(std::iter::once(document))
        }
    })
}

fn is_it(object: &Value, edit: &Edit) -> bool {
    is_object(object, &edit.object)
}

fn is_object(object: &Value, identity: &Identity) -> bool {
    let metadata = &object["metadata"];
    object["kind"] == identity.kind.as_str()
        && metadata["name"] == identity.name.as_str()
        && metadata["namespace"].as_str() == identity.namespace.as_deref()
}

/// Takes the amounts of a change out of an object, and what is empty then.
fn take(object: &mut Value, edit: &Edit) -> Vec<Option<Value>> {
    let mut spec = object;
    for key in edit.path.iter().map(String::as_str).chain(["spec"]) {
        let Some(next) = spec.get_mut(key) else { return Vec::new() };
        spec = next;
    }
    let mut lists: Vec<&mut Value> = Vec::new();
    if let Value::Object(fields) = spec {
        lists = fields
            .iter_mut()
            .filter(|(key, _)| matches!(key.as_str(), "containers" | "initContainers"))
            .map(|(_, list)| list)
            .collect();
    }
    let mut containers = lists.into_iter().filter_map(Value::as_array_mut).flatten();
    let container = containers.find(|container| container["name"] == edit.container.as_str());
    let Some(Value::Object(container)) = container else { return Vec::new() };
    let mut taken = Vec::new();
    if let Some(Value::Object(resources)) = container.get_mut("resources") {
        let field = edit.requirement.field();
        if let Some(Value::Object(amounts)) = resources.get_mut(field) {
            taken = edit.amounts.iter().map(|(name, _)| amounts.remove(*name)).collect();
        }
        drop_empty(resources, field);
    }
    drop_empty(container, "resources");
    taken
}

fn drop_empty(fields: &mut Map<String, Value>, key: &str) {
    let is_empty = match fields.get(key) {
        Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        _ => false,
    };
    if is_empty {
        fields.remove(key);
    }
}

fn text(amount: &Value) -> Option<String> {
    match amount {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
