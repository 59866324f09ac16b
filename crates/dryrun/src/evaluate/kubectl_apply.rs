//! Merges a manifest into the existing object as `kubectl apply` would.
//!
//! The manifest's fields replace the object's, what was in the manifest that was applied last and is in this one no more
//! goes, and the rest stays: what the API server filled in, and what others wrote.

use headroom_core::amount::Quantity;
use serde_json::{Map, Value};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The key that identifies the items of a list, for the lists that Kubernetes merges.
const KEYS: [&str; 7] = ["name", "containerPort", "port", "mountPath", "devicePath", "topologyKey", "ip"];

/// Below these, amounts are written: `1` and `1000m` are the same.
const AMOUNTS: [&str; 4] = ["requests", "limits", "overhead", "hard"];

/// The object after the manifest was applied to it.
pub fn applied(manifest: &Value, there: &Value) -> Value {
    let annotation = there.pointer("/metadata/annotations").and_then(|annotations| annotations.get(LAST_APPLIED));
    // OK because an object without the annotation was not applied before, so no field is removed.
    let before =
        annotation.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    merged(manifest, there, &before, false)
}

fn merged(new: &Value, there: &Value, before: &Value, are_amounts: bool) -> Value {
    match (new, there) {
        (Value::Object(new), Value::Object(there)) => Value::Object(merged_fields(new, there, before, are_amounts)),
        (Value::Array(new), Value::Array(there)) => match key_of(new, there) {
            Some(key) => Value::Array(merged_items(new, there, before, key)),
            None => Value::Array(new.clone()),
        },
        _ if are_amounts && is_same_amount(new, there) => there.clone(),
        _ => new.clone(),
    }
}

fn merged_fields(
    new: &Map<String, Value>,
    there: &Map<String, Value>,
    before: &Value,
    are_amounts: bool,
) -> Map<String, Value> {
    let was_applied = |field: &str| before.get(field).is_some();
    let mut fields: Map<String, Value> = there
        .iter()
        .filter(|(field, _)| new.contains_key(*field) || !was_applied(field))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    for (field, value) in new {
        // To write `null` is to take away; what the API server itself tells as `null` stays.
        if value.is_null() {
            fields.remove(field);
            continue;
        }
        let are_amounts = are_amounts || AMOUNTS.contains(&field.as_str());
        let value = match fields.get(field) {
            Some(have) => merged(value, have, before.get(field).unwrap_or(&Value::Null), are_amounts),
            None => value.clone(),
        };
        fields.insert(field.clone(), value);
    }
    fields
}

fn merged_items(new: &[Value], there: &[Value], before: &Value, key: &str) -> Vec<Value> {
    fn find<'i>(items: &'i [Value], key: &str, like: &Value) -> Option<&'i Value> {
        items.iter().find(|item| item.get(key) == like.get(key))
    }
    let before = before.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut items: Vec<Value> = Vec::new();
    for item in new {
        items.push(match find(there, key, item) {
            Some(have) => merged(item, have, find(before, key, item).unwrap_or(&Value::Null), false),
            None => item.clone(),
        });
    }
    let others = there.iter().filter(|item| find(new, key, item).is_none() && find(before, key, item).is_none());
    items.extend(others.cloned());
    items
}

/// The key that every item of both lists has.
fn key_of(new: &[Value], there: &[Value]) -> Option<&'static str> {
    let has_all = |key: &&&str| new.iter().chain(there).all(|item| item.get(**key).is_some());
    KEYS.iter().find(has_all).copied()
}

fn is_same_amount(a: &Value, b: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => Quantity::from_json_text(text).ok(),
        Value::Number(number) => Quantity::from_json_text(&number.to_string()).ok(),
        _ => None,
    };
    match (amount(a), amount(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(manifest: Value, there: Value, expected: Value) {
        assert_eq!(applied(&manifest, &there), expected);
    }

    #[test]
    fn what_the_api_server_filled_in_stays() {
        let there = json!({"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"replicas": 2, "template": {
            "metadata": {"creationTimestamp": null, "labels": {"app": "web"}}, "spec": {
            "containers": [{"name": "a", "image": "nginx", "imagePullPolicy": "Always", "resources": {"requests": {"cpu": "1"}},
                "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
            "restartPolicy": "Always"}}}, "status": {"replicas": 2}});
        let manifest = json!({"metadata": {"name": "web"}, "spec": {"paused": null, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {
            "containers": [{"name": "a", "image": "nginx", "resources": {"requests": {"cpu": "1000m"}}, "ports": [{"containerPort": 80}]}]}}}});
        check(manifest, there.clone(), there);
    }

    #[test]
    fn what_was_applied_before_and_is_no_more_goes() {
        let last = json!({"spec": {"replicas": 3, "containers": [{"name": "a"}, {"name": "b"}]}}).to_string();
        let annotations = json!({LAST_APPLIED: last});
        check(
            json!({"spec": {"containers": [{"name": "a", "image": "new"}]}}),
            json!({"metadata": {"annotations": annotations}, "spec": {"replicas": 3, "containers": [
                {"name": "a", "image": "old"}, {"name": "b"}, {"name": "injected"}]}}),
            json!({"metadata": {"annotations": annotations}, "spec": {"containers": [
                {"name": "a", "image": "new"}, {"name": "injected"}]}}),
        );
    }

    #[test]
    fn amounts_are_compared_as_such_only_where_amounts_stand() {
        check(
            json!({"limits": {"cpu": 1}, "env": [{"name": "A", "value": "1.0"}]}),
            json!({"limits": {"cpu": "1"}, "env": [{"name": "A", "value": "1"}]}),
            json!({"limits": {"cpu": "1"}, "env": [{"name": "A", "value": "1.0"}]}),
        );
    }
}
