//! A hostile request: an ordinary one with arbitrary text in some places.

use serde_json::{Value, json};

pub const NAMESPACE: &str = "default";

pub struct Row {
    review: Value,
    settings: Value,
    pub objects: Vec<Value>,
    /// The texts in the places set by [`Row::with`].
    texts: Vec<String>,
}

impl Row {
    pub fn create(kind: &Kind) -> Self {
        let group_version = if kind.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", kind.group) };
        let object = json!({
            "apiVersion": group_version, "kind": kind.name, "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {},
        });
        let review = json!({
            "uid": "73d8d216-a4aa-4547-a8ed-c135418fd2b7", "operation": "CREATE", "name": "web", "namespace": NAMESPACE,
            "kind": {"group": kind.group, "version": "v1", "kind": kind.name},
            "resource": {"group": kind.group, "version": "v1", "resource": kind.plural},
            "userInfo": {"username": "author"},
            "object": object,
        });
        let settings = json!({"estimates": {"mode": "never"}});
        Self { review, settings, objects: vec![bounds(), quota()], texts: Vec::new() }
    }

    pub fn update(kind: &Kind, subresource: &str) -> Self {
        let mut row = Self::create(kind);
        let mut old = row.review.get("object").cloned().unwrap_or_default();
        *place(&mut old, "metadata/resourceVersion") = json!("1");
        *place(&mut row.review, "object/metadata/resourceVersion") = json!("1");
        *place(&mut row.review, "oldObject") = old;
        *place(&mut row.review, "operation") = json!("UPDATE");
        if !subresource.is_empty() {
            *place(&mut row.review, "subResource") = json!(subresource);
        }
        row
    }

    /// Puts a text, JSON or not, into a place of the review.
    #[must_use]
    pub fn with(mut self, path: &str, text: impl Into<String>) -> Self {
        *place(&mut self.review, path) = mark(self.texts.len());
        self.texts.push(text.into());
        self
    }

    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }

    #[must_use]
    pub fn with_object(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    pub fn payload(&self) -> Vec<u8> {
        let payload = json!({"request": self.review, "settings": self.settings}).to_string();
        let texts = self.texts.iter().enumerate();
        texts.fold(payload, |payload, (number, text)| payload.replace(&mark(number).to_string(), text)).into_bytes()
    }
}

fn mark(number: usize) -> Value {
    json!(format!("<text {number}>"))
}

/// The value at a JSON Pointer without its first slash, through objects only. Missing parts are created.
fn place<'v>(value: &'v mut Value, path: &str) -> &'v mut Value {
    path.split('/').map(|key| key.replace("~1", "/")).fold(value, |value, key| {
        if !value.is_object() {
            *value = json!({});
        }
        match value {
            Value::Object(fields) => fields.entry(key).or_insert(Value::Null),
            other => other,
        }
    })
}

pub struct Kind {
    group: &'static str,
    plural: &'static str,
    name: &'static str,
}

pub const POD: Kind = Kind { group: "", plural: "pods", name: "Pod" };
pub const SERVICE: Kind = Kind { group: "", plural: "services", name: "Service" };
pub const CLAIM: Kind = Kind { group: "", plural: "persistentvolumeclaims", name: "PersistentVolumeClaim" };
pub const CONFIG_MAP: Kind = Kind { group: "", plural: "configmaps", name: "ConfigMap" };
pub const DEPLOYMENT: Kind = Kind { group: "apps", plural: "deployments", name: "Deployment" };
pub const STATEFUL_SET: Kind = Kind { group: "apps", plural: "statefulsets", name: "StatefulSet" };
pub const DEVICE_CLAIM: Kind = Kind { group: "resource.k8s.io", plural: "resourceclaims", name: "ResourceClaim" };

/// A LimitRange with every kind of bound and without defaults.
fn bounds() -> Value {
    let (min, max) = (json!({"cpu": "100m", "memory": "32Mi"}), json!({"cpu": "1", "memory": "1Gi"}));
    limit_range(
        "bounds",
        json!([
            {"type": "Container", "min": min, "max": max, "maxLimitRequestRatio": {"cpu": "4"}},
            {"type": "Pod", "min": min, "max": max},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}},
        ]),
    )
}

/// A LimitRange with defaults for containers.
pub fn defaults() -> Value {
    let values = json!({"cpu": "200m", "memory": "100Mi"});
    limit_range("defaults", json!([{"type": "Container", "default": values, "defaultRequest": values}]))
}

pub fn limit_range(name: &str, limits: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"limits": limits},
    })
}

fn quota() -> Value {
    let hard = json!({
        "pods": "10", "requests.cpu": "4", "limits.cpu": "8", "requests.memory": "4Gi", "requests.storage": "100Gi",
        "persistentvolumeclaims": "5", "services": "5", "services.nodeports": "5", "services.loadbalancers": "5",
        "count/configmaps": "5", "count/deployments.apps": "5", "count/resourceclaims.resource.k8s.io": "5",
        "class-0.deviceclass.resource.k8s.io/devices": "5", "requests.example.com/r0": "5",
    });
    scoped_quota("team", hard, Value::Null)
}

/// A quota with a scope selector; null for none.
pub fn scoped_quota(name: &str, hard: Value, selector: Value) -> Value {
    let used: serde_json::Map<String, Value> =
        hard.as_object().into_iter().flatten().map(|(name, _)| (name.clone(), json!("1"))).collect();
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"hard": hard, "scopeSelector": selector}, "status": {"hard": hard, "used": used},
    })
}

/// A container with these resources as the API server sends it, with Kubernetes' defaults filled in.
pub fn container(name: &str, resources: &str) -> String {
    format!(
        r#"{{"name":"{name}","image":"nginx","resources":{resources},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"Always"}}"#
    )
}

/// Resources within all bounds.
pub const FITTING: &str = r#"{"requests":{"cpu":"100m","memory":"32Mi"},"limits":{"cpu":"100m","memory":"32Mi"}}"#;
/// Resources beyond every bound.
pub const GREEDY: &str = r#"{"requests":{"cpu":"2","memory":"2Gi"},"limits":{"cpu":"20","memory":"2Gi"}}"#;

/// A JSON list of `count` items.
pub fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    let items: Vec<String> = (0..count).map(item).collect();
    format!("[{}]", items.join(","))
}

/// A JSON object of `count` fields, each written as `"key":value`.
pub fn fields(count: usize, field: impl Fn(usize) -> String) -> String {
    let fields: Vec<String> = (0..count).map(field).collect();
    format!("{{{}}}", fields.join(","))
}

/// A JSON string with this text, which must need no escapes.
pub fn string(text: &str) -> String {
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_in_its_place_whether_it_is_json_or_not() {
        let row = Row::update(&POD, "resize").with("object/spec/containers", "[}").with("object/status", "{}");
        let payload = String::from_utf8(row.payload()).unwrap();
        assert!(payload.contains(r#""spec":{"containers":[}},"status":{}"#), "{payload}");
        assert!(payload.contains(r#""subResource":"resize""#) && payload.contains(r#""operation":"UPDATE""#));
    }

    #[test]
    fn lists_and_fields_are_json() {
        let made = fields(2, |number| format!("\"{number}\":{}", list(number, |item| item.to_string())));
        assert_eq!(serde_json::from_str::<Value>(&made).unwrap(), json!({"0": [], "1": [0]}));
    }
}
