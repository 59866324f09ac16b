//! The advice of a scan as changes: patches for kustomize and for the API server, values for Helm, edits of manifests.
//!
//! Only what is not so already is in them, so a scan after the advice was taken gives nothing; and only for kinds whose
//! template is known here.

use headroom_core::amount::Requirement;
use serde_json::{Map, Value, json};

use super::report::{ContainerRow, Report, Row};
use crate::edit::{self, Identity};
use crate::kinds::metadata;
use crate::recommend::texts;

/// An apply configuration for each workload, which is a strategic merge patch too.
pub fn patches(report: &Report) -> Vec<Value> {
    report.workloads.iter().filter_map(patch).collect()
}

/// What would change of one workload.
pub fn patch(row: &Row) -> Option<Value> {
    with_resources(row, |container| resources(container).map(Value::Object))
}

/// An object with the given resources of its containers, and nothing else. Pods are left alone: what runs keeps its
/// requests.
pub fn with_resources(row: &Row, resources: impl Fn(&ContainerRow) -> Option<Value>) -> Option<Value> {
    if row.through.is_some() || row.kind == "Pod" {
        return None;
    }
    let mut spec = Map::new();
    for (field, is_init) in [("containers", false), ("initContainers", true)] {
        let of_field = row.containers.iter().filter(|container| container.is_init == is_init);
        let patched: Vec<Value> = of_field
            .filter_map(|container| Some(json!({"name": container.name, "resources": resources(container)?})))
            .collect();
        if !patched.is_empty() {
            spec.insert(field.to_owned(), Value::Array(patched));
        }
    }
    if spec.is_empty() {
        return None;
    }
    let mut body = row.path.iter().rev().fold(json!({"spec": spec}), |inner, key| json!({*key: inner}));
    if let Value::Object(fields) = &mut body {
        fields.insert("apiVersion".to_owned(), json!(row.api_version));
        fields.insert("kind".to_owned(), json!(row.kind));
        fields.insert("metadata".to_owned(), json!({"name": row.name, "namespace": row.namespace}));
    }
    Some(body)
}

/// What is new of a container's resources.
fn resources(container: &ContainerRow) -> Option<Map<String, Value>> {
    let mut resources = Map::new();
    for (requirement, amounts) in amounts(container) {
        let amounts: Map<String, Value> =
            amounts.into_iter().map(|(name, amount)| (name.to_owned(), json!(amount))).collect();
        resources.insert(requirement.field().to_owned(), Value::Object(amounts));
    }
    (!resources.is_empty()).then_some(resources)
}

/// The same as lists.
fn amounts(container: &ContainerRow) -> Vec<(Requirement, Vec<(&'static str, String)>)> {
    let requests = container.resources.iter().map(|row| Some((row.resource, row.to_write()?.to_owned())));
    let limits = container.resources.iter().map(|row| Some((row.resource, row.recommended_limit.clone()?)));
    let both = [
        (Requirement::Limit, limits.flatten().collect()),
        (Requirement::Request, requests.flatten().collect::<Vec<_>>()),
    ];
    both.into_iter().filter(|(_, amounts)| !amounts.is_empty()).collect()
}

/// Values for a chart, each container's resources at `path`.
pub fn helm(report: &Report, path: &str) -> Result<Value, String> {
    let mut values = json!({});
    for (row, container) in report.containers() {
        if let Some(resources) = resources(container) {
            let place = [row.kind.as_str(), &row.name, &container.name];
            texts::put_values(&mut values, path, place, Value::Object(resources))?;
        }
    }
    Ok(values)
}

/// Edits of a workload's manifest. A limit is only changed where the manifest has one: elsewhere something else sets it.
pub fn edits(row: &Row, manifest: &Value) -> Vec<edit::Change> {
    let text = |field| Some(metadata(manifest, field)).filter(|text| !text.is_empty()).map(str::to_owned);
    let object = Identity { kind: row.kind.clone(), namespace: text("namespace"), name: row.name.clone() };
    let mut edits = Vec::new();
    for container in &row.containers {
        for (requirement, mut amounts) in amounts(container) {
            if requirement == Requirement::Limit {
                amounts.retain(|(name, _)| has_limit(row, container, manifest, name));
            }
            if !amounts.is_empty() {
                let (object, path, container) = (object.clone(), row.path.clone(), container.name.clone());
                edits.push(edit::Change { requirement, object, path, container, amounts });
            }
        }
    }
    edits
}

fn has_limit(row: &Row, container: &ContainerRow, manifest: &Value, name: &str) -> bool {
    let list = if container.is_init { "initContainers" } else { "containers" };
    let path: String = row.path.iter().chain(&["spec", list]).map(|key| format!("/{key}")).collect();
    let containers = manifest.pointer(&path).and_then(Value::as_array).into_iter().flatten();
    let mut of_name = containers.filter(|of_manifest| of_manifest.get("name") == Some(&json!(container.name)));
    of_name.any(|container| container.pointer(&format!("/resources/limits/{name}")).is_some())
}
