//! Advice as files for other tools: patches for kustomize, values for Helm.
//!
//! Only what is not written yet is in them, so a run after the advice was taken gives nothing.

use serde_json::{Map, Value, json};

use super::{Advice, ContainerAdvice, Workload};

/// A strategic merge patch for each object, as documents of one file.
pub fn kustomize(advice: &Advice) -> Vec<Value> {
    // Of a kind that is not known, nobody here can say what a patch would look like.
    advice.workloads.iter().filter(|workload| workload.through.is_none()).filter_map(patch).collect()
}

fn patch(workload: &Workload) -> Option<Value> {
    let mut spec = Map::new();
    for (field, is_init) in [("containers", false), ("initContainers", true)] {
        let of_field = workload.containers.iter().filter(|container| container.is_init == is_init);
        let patched: Vec<Value> = of_field
            .filter_map(|container| {
                Some(json!({"name": container.name, "resources": {"requests": requests(container)?}}))
            })
            .collect();
        if !patched.is_empty() {
            spec.insert(field.to_owned(), Value::Array(patched));
        }
    }
    if spec.is_empty() {
        return None;
    }
    let mut metadata = json!({"name": workload.name});
    if !workload.namespace.is_empty()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.insert("namespace".to_owned(), json!(workload.namespace));
    }
    let pod = json!({"spec": spec});
    let mut body = workload.path.iter().rev().fold(pod, |inner, key| json!({*key: inner}));
    if let Value::Object(fields) = &mut body {
        fields.insert("apiVersion".to_owned(), json!(workload.api_version));
        fields.insert("kind".to_owned(), json!(workload.kind));
        fields.insert("metadata".to_owned(), metadata);
    }
    Some(body)
}

fn requests(container: &ContainerAdvice) -> Option<Value> {
    let amounts = container.to_write();
    let requests: Map<String, Value> =
        amounts.into_iter().map(|(name, amount)| (name.to_owned(), json!(amount))).collect();
    (!requests.is_empty()).then_some(Value::Object(requests))
}

/// Where a container's resources stand in a chart's values, unless the caller knows better.
pub const VALUES_PATH: &str = "{name}.{container}.resources";

/// Values for a chart, each container's resources at `path`, in which `{kind}`, `{name}` and `{container}` stand for the
/// object's kind and name and the container's name. Two containers at one place are refused.
pub fn helm(advice: &Advice, path: &str) -> Result<Value, String> {
    let mut values = json!({});
    for workload in &advice.workloads {
        for container in &workload.containers {
            let Some(requests) = requests(container) else { continue };
            let place = [workload.kind.as_str(), &workload.name, &container.name];
            put_values(&mut values, path, place, json!({"requests": requests}))?;
        }
    }
    Ok(values)
}

/// Puts a container's resources where a chart has them; its place is its kind, name and container. Two at one place are
/// refused.
pub fn put_values(
    values: &mut Value,
    path: &str,
    [kind, name, container]: [&str; 3],
    resources: Value,
) -> Result<(), String> {
    let filled = |key: &str| {
        key.replace("{kind}", &kind.to_lowercase()).replace("{name}", name).replace("{container}", container)
    };
    let keys: Vec<String> = path.split('.').map(filled).collect();
    if put(values, &keys, resources) {
        return Ok(());
    }
    Err(format!(
        "two containers would have their values at `{}`: choose --values-path with {{name}} and {{container}} in it, or \
         ask for one object",
        keys.join(".")
    ))
}

/// Whether there was nothing at that place yet.
fn put(values: &mut Value, keys: &[String], resources: Value) -> bool {
    let mut at = values;
    for key in keys {
        let Value::Object(fields) = at else { return false };
        at = fields.entry(key.clone()).or_insert_with(|| json!({}));
    }
    let is_free = at.as_object().is_some_and(Map::is_empty);
    if is_free {
        *at = resources;
    }
    is_free
}
