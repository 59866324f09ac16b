//! Holds an edited text against the one it was made from: nothing may differ but the amounts that were meant.

use headroom_admission::amount::{Quantity, Requirement};
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_workloads::WorkloadRef;
use serde_json::{Map, Value};

use super::{Edit, EditPlace};

pub(super) fn says_the_same(before: &str, after: &str, edits: &[Edit]) -> bool {
    let (Some(mut before), Some(mut after)) = (read(before), read(after)) else { return false };
    let are_set = edits.iter().all(|Edit { place, requirement, amounts }| {
        take(holder(place, &mut before), *requirement, amounts);
        let found = take(holder(place, &mut after), *requirement, amounts);
        let is_amount = |(found, (_, amount)): (&Value, &(_, Quantity))| amount_of(found).as_ref() == Some(amount);
        found.len() == amounts.len() && found.iter().zip(amounts).all(is_amount)
    });
    are_set && before == after
}

fn holder<'v>(place: &EditPlace, documents: &'v mut [Value]) -> Option<&'v mut Value> {
    match place {
        EditPlace::Container { object: wanted, path, name } => {
            let object = objects(documents).find(|object| WorkloadRef::of(object) == *wanted)?;
            let mut path = path.iter().map(String::as_str).chain(["spec"]);
            let spec = path.try_fold(object, |at, key| at.get_mut(key))?.as_object_mut()?;
            let lists = spec.iter_mut().filter(|(key, _)| matches!(key.as_str(), "containers" | "initContainers"));
            let mut containers = lists.filter_map(|(_, list)| list.as_array_mut()).flatten();
            containers.find(|container| container["name"] == name.as_str())
        }
        EditPlace::Values(keys) => keys.iter().try_fold(documents.first_mut()?, |at, key| at.get_mut(key)),
    }
}

/// True if one text is another with `put` done to each of its objects.
pub(super) fn says(before: &str, after: &str, put: impl Fn(&mut Value)) -> bool {
    let (Some(mut before), Some(after)) = (read(before), read(after)) else { return false };
    objects(&mut before).for_each(put);
    before == after
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
