//! Merges a manifest into the existing object as `kubectl apply` would, or the tool that applied it last: Helm, Flux, Argo CD.
//!
//! The manifest's fields replace the object's, what was in the manifest that was applied last and is in this one no more
//! goes, and the rest stays: what the API server filled in, and what others wrote.

use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::kinds::{items, text};
use serde_json::{Map, Value};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The key that identifies the items of a list, for the lists that Kubernetes merges.
const KEYS: [&str; 7] = ["name", "containerPort", "port", "mountPath", "devicePath", "topologyKey", "ip"];

/// Below these, amounts are written: `1` and `1000m` are the same.
const AMOUNTS: [&str; 4] = ["requests", "limits", "overhead", "hard"];

/// The object after the manifest was applied to it. `before` is the manifest that was applied last, if that is known without
/// the object's own record of it.
pub fn applied(manifest: &Value, there: &Value, before: Option<Value>) -> Value {
    let annotation = there.pointer("/metadata/annotations").and_then(|annotations| annotations.get(LAST_APPLIED));
    let recorded = || serde_json::from_str(annotation?.as_str()?).ok();
    let last_applied = before.or_else(recorded);
    let (before, removes_single_fields) = match last_applied {
        Some(before) => (before, false),
        // OK because what nobody applied before loses no field.
        None => managed_by_applier(there).unwrap_or_default(),
    };
    Merge { removes_single_fields }.value(manifest, there, &before, false)
}

/// The fields of the object that the tool which applies it manages, without their values, and whether that is server-side
/// apply; none if nothing was applied.
fn managed_by_applier(there: &Value) -> Option<(Value, bool)> {
    let is_server_side = |entry: &Value| text(entry, "/operation") == "Apply";
    let managed = items(there, "/metadata/managedFields").filter_map(|entry| {
        // Helm 3 merges by itself, and sends the outcome as an update.
        let is_applied = is_server_side(entry) || text(entry, "/manager") == "helm";
        let is_whole = text(entry, "/subresource").is_empty();
        Some((without_values(entry.get("fieldsV1")?.as_object()?), is_server_side(entry)))
            .filter(|_| is_applied && is_whole)
    });
    // Others apply single fields; the manifest is that of whoever applied the most.
    managed.max_by_key(|(fields, _)| fields.to_string().len())
}

/// The names of FieldsV1: `f:` a field, `k:` an item of a list by its key.
fn without_values(fields: &Map<String, Value>) -> Value {
    let below =
        |value: &Value| value.as_object().filter(|fields| !fields.is_empty()).map_or(Value::Null, without_values);
    let items = fields.iter().filter_map(|(name, value)| {
        let key: Map<String, Value> = serde_json::from_str(name.strip_prefix("k:")?).ok()?;
        let mut item = below(value).as_object().cloned().unwrap_or_default();
        // Last, since the fields of the key are among the others, without their values.
        item.extend(key);
        Some(Value::Object(item))
    });
    let items: Vec<Value> = items.collect();
    if !items.is_empty() {
        return Value::Array(items);
    }
    fields.iter().filter_map(|(name, value)| Some((name.strip_prefix("f:")?.to_owned(), below(value)))).collect()
}

struct Merge {
    /// Server-side apply removes the fields that it applied. `kubectl apply` removes a field with all that others have
    /// written below it.
    removes_single_fields: bool,
}

impl Merge {
    fn value(&self, new: &Value, there: &Value, before: &Value, are_amounts: bool) -> Value {
        match (new, there) {
            (Value::Object(new), Value::Object(there)) => Value::Object(self.fields(new, there, before, are_amounts)),
            (Value::Array(new), Value::Array(there)) => match key_of(new, there) {
                Some(key) => Value::Array(self.items(new, there, before, key)),
                None => Value::Array(new.clone()),
            },
            _ if are_amounts && amount_of(new).is_some_and(|new| amount_of(there) == Some(new)) => there.clone(),
            _ => new.clone(),
        }
    }

    fn fields(
        &self,
        new: &Map<String, Value>,
        there: &Map<String, Value>,
        before: &Value,
        are_amounts: bool,
    ) -> Map<String, Value> {
        let stays = |(field, value): (&String, &Value)| {
            let stays = match before.get(field).filter(|_| !new.contains_key(field)) {
                None => value.clone(),
                Some(before) => self.left_of(value, before)?,
            };
            Some((field.clone(), stays))
        };
        let mut fields: Map<String, Value> = there.iter().filter_map(stays).collect();
        for (field, value) in new {
            // To write `null` is to take away; what the API server itself tells as `null` stays.
            if value.is_null() {
                fields.remove(field);
                continue;
            }
            let are_amounts = are_amounts || AMOUNTS.contains(&field.as_str());
            let value = match fields.get(field) {
                Some(have) => self.value(value, have, before.get(field).unwrap_or(&Value::Null), are_amounts),
                // Over nothing, so that `null` below it goes too.
                None => self.value(value, &Value::Object(Map::new()), &Value::Null, are_amounts),
            };
            fields.insert(field.clone(), value);
        }
        fields
    }

    /// Keeps what others wrote below a field that is no longer applied.
    fn left_of(&self, value: &Value, before: &Value) -> Option<Value> {
        let fields = value.as_object().filter(|_| self.removes_single_fields && before.is_object())?;
        let left = self.fields(&Map::new(), fields, before, false);
        (!left.is_empty()).then_some(Value::Object(left))
    }

    fn items(&self, new: &[Value], there: &[Value], before: &Value, key: &str) -> Vec<Value> {
        fn find<'i>(items: &'i [Value], key: &str, like: &Value) -> Option<&'i Value> {
            items.iter().find(|item| item.get(key) == like.get(key))
        }
        let before = before.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut items: Vec<Value> = Vec::new();
        for item in new {
            items.push(match find(there, key, item) {
                Some(have) => self.value(item, have, find(before, key, item).unwrap_or(&Value::Null), false),
                None => item.clone(),
            });
        }
        let others = there.iter().filter(|item| find(new, key, item).is_none() && find(before, key, item).is_none());
        items.extend(others.cloned());
        items
    }
}

/// The key that every item of both lists has.
fn key_of(new: &[Value], there: &[Value]) -> Option<&'static str> {
    let has_all = |key: &&&str| new.iter().chain(there).all(|item| item.get(**key).is_some());
    KEYS.iter().find(has_all).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(manifest: Value, there: Value, expected: Value) {
        assert_eq!(applied(&manifest, &there, None), expected);
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
    fn what_helm_or_server_side_apply_applied_before_and_is_no_more_goes() {
        let fields = json!({"f:spec": {"f:replicas": {}, "f:containers": {
            "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:resources": {"f:limits": {"f:memory": {}}}},
            "k:{\"name\":\"b\"}": {".": {}, "f:name": {}}}}});
        let scaled = json!({"f:spec": {"f:replicas": {}}});
        let there = |entries: Value| {
            json!({"metadata": {"managedFields": entries}, "spec": {"replicas": 3, "containers": [
                {"name": "a", "resources": {"limits": {"memory": "1Gi", "cpu": "1"}}}, {"name": "b"}, {"name": "injected"}]}})
        };
        let manifest = json!({"spec": {"containers": [{"name": "a", "resources": {}}]}});
        let apply = json!({"manager": "kustomize-controller", "operation": "Apply", "fieldsV1": fields});
        let helm = json!({"manager": "helm", "operation": "Update", "fieldsV1": fields});
        let status = json!({"manager": "helm", "operation": "Update", "subresource": "status", "fieldsV1": fields});
        let edit = json!({"manager": "kubectl-edit", "operation": "Update", "fieldsV1": fields});
        let other = json!({"manager": "keda", "operation": "Apply", "fieldsV1": scaled});
        for (entries, left) in [
            (json!([apply, other]), json!({"limits": {"cpu": "1"}})),
            (json!([other, apply]), json!({"limits": {"cpu": "1"}})),
            (json!([edit, helm]), json!({})),
        ] {
            let expected = json!({"metadata": {"managedFields": entries}, "spec": {"containers": [
                {"name": "a", "resources": left}, {"name": "injected"}]}});
            check(manifest.clone(), there(entries.clone()), expected);
        }
        check(manifest.clone(), there(json!([edit, status])), there(json!([edit, status])));
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
