//! Pod templates in objects: where their containers stand, and how amounts are set there.
//!
//! Lists of custom resources, such as Rollouts, have no keys for the API server to merge by, so they are patched place by place.

use headroom_admission::amount::{Quantity, Requirement};
use headroom_admission::request::kinds::PodKind;
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::cluster_reader::{ClusterReader, CompressedObject};
use headroom_objects::kinds::{ApiKind, items, text};
use headroom_workloads::pod_makers;
use serde_json::{Value, json};

use headroom_workloads::inventory::WorkloadEntry;

/// Sets an amount of a container in an object that makes pods, or takes it away.
pub fn set_amount(
    object: &mut Value,
    path: &[&str],
    (container, is_init): (&str, bool),
    (requirement, resource): (Requirement, &str),
    amount: Option<&Quantity>,
) {
    let path = containers_at(path, is_init);
    let containers = object.pointer_mut(&path).and_then(Value::as_array_mut).into_iter().flatten();
    for of_object in containers.filter(|of_object| of_object.get("name").is_some_and(|name| name == container)) {
        let Some(fields) = of_object.as_object_mut() else { continue };
        let resources = fields.entry("resources").or_insert_with(|| json!({}));
        let Some(resources) = resources.as_object_mut() else { continue };
        let amounts = resources.entry(requirement.field()).or_insert_with(|| json!({}));
        if let Some(amounts) = amounts.as_object_mut() {
            match amount {
                Some(amount) => amounts.insert(resource.to_owned(), json!(amount.to_string())),
                None => amounts.remove(resource),
            };
        }
    }
}

/// Puts the requests and limits of a kustomization's patch over those of the object that it patches.
pub fn merge_resources(object: &mut Value, patch: &Value) {
    let kind = ApiKind::of(patch);
    let Some(PodKind { path, .. }) = PodKind::of(&kind.group, &kind.plural) else { return };
    for is_init in [false, true] {
        for container in items(patch, &containers_at(path, is_init)) {
            let place = (text(container, "/name"), is_init);
            for requirement in Requirement::BOTH {
                let amounts = container.pointer(&format!("/resources/{}", requirement.field()));
                for (resource, amount) in amounts.and_then(Value::as_object).into_iter().flatten() {
                    set_amount(object, path, place, (requirement, resource), amount_of(amount).as_ref());
                }
            }
        }
    }
}

/// The JSON pointer of a field of the pod in an object.
pub fn in_pod(path: &[&str], field: &str) -> String {
    path.iter().chain(&[field]).map(|key| format!("/{key}")).collect()
}

/// The JSON pointer of an object's containers.
pub fn containers_at(path: &[&str], is_init: bool) -> String {
    in_pod(path, if is_init { "spec/initContainers" } else { "spec/containers" })
}

pub fn container_in<'o>(object: &'o Value, path: &[&str], (name, is_init): (&str, bool)) -> Option<&'o Value> {
    items(object, &containers_at(path, is_init)).find(|container| container.get("name").is_some_and(|of| of == name))
}

/// A custom resource with one pod template of its own, whose pods were read from what it owns.
#[derive(Debug, Clone)]
pub struct CustomResource {
    pub object: CompressedObject,
    /// From the object to the pod in it.
    pub path: Vec<String>,
    pub kind: ApiKind,
}

impl CustomResource {
    /// The owner that an entry stands for; none if it has not exactly one template.
    pub fn of(object: &Value, entry: &WorkloadEntry, cluster: &mut dyn ClusterReader) -> Option<Self> {
        let made = pod_makers::of(object, &[], &mut |_, _| None);
        let [template] = made.templates.as_slice() else { return None };
        let path: Vec<String> = template.path.split('.').map(str::to_owned).collect();
        object.pointer(&format!("/{}/spec/containers", path.join("/")))?;
        let kind = cluster.kind(&entry.api_version, &entry.key.kind);
        Some(Self { object: CompressedObject::from(object), path, kind })
    }
}

/// The operations of a JSON patch that set amounts in a container; none if the object has no such container.
pub fn operations(
    object: &Value,
    path: &[&str],
    (container, is_init): (&str, bool),
    amounts: &[(Requirement, Vec<(&'static str, Quantity)>)],
) -> Option<Vec<Value>> {
    let list = containers_at(path, is_init);
    let place =
        object.pointer(&list)?.as_array()?.iter().position(|of| of.get("name").is_some_and(|of| of == container))?;
    let resources = format!("{list}/{place}/resources");
    let mut operations = vec![json!({"op": "test", "path": format!("{list}/{place}/name"), "value": container})];
    let mut add = |path: String, value: Value| operations.push(json!({"op": "add", "path": path, "value": value}));
    if !object.pointer(&resources).is_some_and(Value::is_object) {
        add(resources.clone(), json!({}));
    }
    for (requirement, amounts) in amounts {
        let field = format!("{resources}/{}", requirement.field());
        if !object.pointer(&field).is_some_and(Value::is_object) {
            add(field.clone(), json!({}));
        }
        amounts.iter().for_each(|(name, amount)| add(format!("{field}/{name}"), json!(amount.to_string())));
    }
    Some(operations)
}

/// The operations that take others back from an object that was as `before`.
pub fn undone(operations: &[Value], before: &Value) -> Value {
    let undo = |operation: &Value| {
        let path = operation.get("path")?.as_str()?;
        match (operation.get("op")?.as_str()?, before.pointer(path)) {
            ("test", _) => None,
            (_, Some(value)) => Some(json!({"op": "replace", "path": path, "value": value})),
            (_, None) => Some(json!({"op": "remove", "path": path})),
        }
    };
    let tests = operations.iter().filter(|operation| operation.get("op").is_some_and(|op| op == "test")).cloned();
    tests.chain(operations.iter().rev().filter_map(undo)).collect()
}
