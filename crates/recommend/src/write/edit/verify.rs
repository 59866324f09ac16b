//! Holds an edited text against the one it was made from: nothing may differ but the amounts that were meant.

use headroom_admission::amount::{Quantity, Requirement};
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_workloads::WorkloadRef;
use serde_json::{Map, Value, json};

use super::{Edit, EditPlace};

pub(super) fn says_the_same(before: &str, after: &str, edits: &[Edit]) -> bool {
    let (Some(mut before), Some(mut after)) = (read(before), read(after)) else { return false };
    let are_set = edits.iter().all(|Edit { place, requirement, amounts }| {
        put(holder(place, &mut before), *requirement, amounts);
        let found = put(holder(place, &mut after), *requirement, amounts).unwrap_or_default();
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

/// Puts amounts into the mapping with `resources`, and returns those that were there.
fn put(holder: Option<&mut Value>, requirement: Requirement, amounts: &[(&str, Quantity)]) -> Option<Vec<Value>> {
    let fields = mapping(mapping(holder?.as_object_mut()?, "resources")?, requirement.field())?;
    let set = |(name, amount): &(&str, Quantity)| fields.insert((*name).to_owned(), json!(amount.to_string()));
    Some(amounts.iter().filter_map(set).collect())
}

/// The mapping at a key: nothing there is no less than an empty one.
fn mapping<'v>(fields: &'v mut Map<String, Value>, key: &str) -> Option<&'v mut Map<String, Value>> {
    let value = fields.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}
