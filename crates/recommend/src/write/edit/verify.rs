//! Holds an edited text against the one it was made from: nothing may differ but the amounts that were meant.

use headroom_admission::amount::{Quantity, Requirement};
use serde_json::{Map, Value};

use super::{Identity, says_amount};

/// An edit of amounts in a mapping with `resources`.
pub(super) trait SetsAmounts {
    fn amounts(&self) -> (Requirement, &[(&'static str, Quantity)]);

    /// Finds the mapping in the documents of a text.
    fn holder<'v>(&self, documents: &'v mut [Value]) -> Option<&'v mut Value>;
}

/// True if nothing differs but the amounts that were meant.
pub(super) fn says_the_same(before: &str, after: &str, edits: &[impl SetsAmounts]) -> bool {
    let (Some(mut before), Some(mut after)) = (read(before), read(after)) else { return false };
    let are_set = edits.iter().all(|edit| {
        let (requirement, wanted) = edit.amounts();
        take(edit.holder(&mut before), requirement, wanted);
        let found = take(edit.holder(&mut after), requirement, wanted);
        found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, (_, amount))| says_amount(found, amount))
    });
    are_set && before == after
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

fn read(text: &str) -> Option<Vec<Value>> {
    serde_saphyr::from_multiple(text).ok()
}

pub(super) fn objects(documents: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    documents.iter_mut().flat_map(|document| -> Box<dyn Iterator<Item = &mut Value>> {
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if is_list && document["items"].is_array() {
            Box::new(document.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten())
        } else {
            Box::new(std::iter::once(document))
        }
    })
}

pub(super) fn is_object(object: &Value, identity: &Identity) -> bool {
    let metadata = &object["metadata"];
    object["kind"] == identity.kind.as_str()
        && metadata["name"] == identity.name.as_str()
        && metadata["namespace"].as_str() == identity.namespace.as_deref()
}

/// Takes amounts out of the mapping with `resources`, and what is empty then: it is no more than absent.
fn take(holder: Option<&mut Value>, requirement: Requirement, amounts: &[(&'static str, Quantity)]) -> Vec<Value> {
    let Some(holder) = holder.and_then(Value::as_object_mut) else { return Vec::new() };
    let mut taken = Vec::new();
    if let Some(Value::Object(resources)) = holder.get_mut("resources") {
        let field = requirement.field();
        if let Some(Value::Object(found)) = resources.get_mut(field) {
            taken = amounts.iter().filter_map(|(name, _)| found.remove(*name)).collect();
        }
        drop_empty(resources, field);
    }
    drop_empty(holder, "resources");
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
