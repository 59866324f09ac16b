//! A cluster in memory: host calls answered from a set of Kubernetes objects.
//!
//! Lists and single objects have the form of the real host's answers, with the same field masks applied. A cluster
//! records calls, so that tests can check them. It supports no selectors, and does not know which kinds a real API
//! server serves: an unknown kind is an empty list.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    field_mask,
    host_call::{CallbackRequest, HostCalls},
};

/// Kubernetes objects, the kinds that cannot be read, and the calls made so far.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    objects: Vec<Value>,
    outages: Vec<Outage>,
    calls: Vec<CallbackRequest>,
    work: Work,
}

/// The work of a real host for the calls made so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Calls that go to the API server every time: for objects that are missing or must not come from the cache. All
    /// others are answered from a watch, or from a recently read object.
    pub live_calls: usize,
    /// The full size of the objects that were read; field masks are applied afterwards.
    pub bytes: usize,
}

#[derive(Debug, Clone)]
struct Outage {
    api_version: String,
    kind: String,
    error: String,
}

/// The list of the real host; its metadata is always empty.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    api_version: &'a str,
    kind: String,
    metadata: Value,
    items: Vec<Value>,
}

/// The items of a list, or the object itself. Items of a typed list may omit their kind, which follows from the list's.
pub fn items(mut object: Value) -> Vec<Value> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let item_kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
    let api_version = object.get("apiVersion").cloned().unwrap_or_default();
    let Some(Value::Array(mut items)) = object.get_mut("items").map(Value::take) else { return vec![object] };
    for item in &mut items {
        if let (Value::Object(fields), false) = (item, item_kind.is_empty()) {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone());
            fields.entry("kind").or_insert_with(|| json!(item_kind));
        }
    }
    items
}

impl Cluster {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object, or every item of a list.
    #[must_use]
    pub fn with(mut self, object: Value) -> Self {
        self.add(object);
        self
    }

    pub fn add(&mut self, object: Value) {
        self.objects.extend(items(object));
    }

    /// Adds the objects of a YAML or JSON file of one or more documents.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        for document in serde_yaml::Deserializer::from_str(&text) {
            let object = Value::deserialize(document)
                .map_err(|error| format!("cannot read the objects of `{}`: {error}", path.display()))?;
            if !object.is_null() {
                self.add(object);
            }
        }
        Ok(())
    }

    /// The cluster of some files.
    pub fn from_files(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self, String> {
        let mut cluster = Self::new();
        paths.into_iter().try_for_each(|path| cluster.add_file(path.as_ref()))?;
        Ok(cluster)
    }

    /// Makes every read of a kind fail, as with missing RBAC.
    #[must_use]
    pub fn failing(mut self, api_version: &str, kind: &str, error: &str) -> Self {
        self.outages.push(Outage {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            error: error.to_owned(),
        });
        self
    }

    /// All calls so far, in order.
    pub fn calls(&self) -> &[CallbackRequest] {
        &self.calls
    }

    /// The work of a real host so far.
    pub fn work(&self) -> Work {
        self.work
    }

    fn of_kind(&self, api_version: &str, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| {
            object.get("apiVersion").and_then(Value::as_str) == Some(api_version)
                && object.get("kind").and_then(Value::as_str) == Some(kind)
        })
    }

    fn list(&mut self, request: &CallbackRequest, namespace: Option<&str>) -> Result<Vec<u8>, String> {
        let (api_version, kind) = (request.api_version(), request.kind());
        let in_namespace = |object: &&Value| namespace.is_none() || metadata(object, "namespace") == namespace;
        let mut items: Vec<Value> = self.of_kind(api_version, kind).filter(in_namespace).cloned().collect();
        items.iter_mut().for_each(without_bookkeeping);
        self.work.bytes += items.iter().map(size).sum::<usize>();
        let items = items.into_iter().map(|item| masked(item, request)).collect();
        let list = List { api_version, kind: format!("{kind}List"), metadata: json!({}), items };
        serde_json::to_vec(&list).map_err(|error| error.to_string())
    }

    fn get(
        &mut self,
        request: &CallbackRequest,
        name: &str,
        namespace: Option<&str>,
        disable_cache: bool,
    ) -> Result<Vec<u8>, String> {
        let (api_version, kind) = (request.api_version(), request.kind());
        let found = self
            .of_kind(api_version, kind)
            .find(|object| metadata(object, "name") == Some(name) && metadata(object, "namespace") == namespace)
            .cloned();
        self.work.live_calls += usize::from(disable_cache || found.is_none());
        match found {
            Some(object) => {
                self.work.bytes += size(&object);
                Ok(masked(object, request).to_string().into_bytes())
            }
            None => Err(format!("Cannot find {api_version}/{kind} named '{name}' inside of namespace '{namespace:?}'")),
        }
    }
}

impl HostCalls for Cluster {
    fn call(&mut self, request: &CallbackRequest) -> Result<Vec<u8>, String> {
        self.calls.push(request.clone());
        let outage = self
            .outages
            .iter()
            .find(|outage| outage.api_version == request.api_version() && outage.kind == request.kind());
        if let Some(outage) = outage {
            let error = outage.error.clone();
            self.work.live_calls += usize::from(matches!(request, CallbackRequest::KubernetesGetResource { .. }));
            return Err(error);
        }
        match request {
            CallbackRequest::KubernetesListResourceNamespace { label_selector: Some(selector), .. }
            | CallbackRequest::KubernetesListResourceNamespace { field_selector: Some(selector), .. }
            | CallbackRequest::KubernetesListResourceAll { label_selector: Some(selector), .. }
            | CallbackRequest::KubernetesListResourceAll { field_selector: Some(selector), .. } => {
                Err(format!("the cluster in memory does not support selectors such as `{selector}`"))
            }
            CallbackRequest::KubernetesListResourceNamespace { namespace, .. } => self.list(request, Some(namespace)),
            CallbackRequest::KubernetesListResourceAll { .. } => self.list(request, None),
            CallbackRequest::KubernetesGetResource { name, namespace, disable_cache, .. } => {
                self.get(request, name, namespace.as_deref(), *disable_cache)
            }
        }
    }
}

/// The size of an object as JSON, in bytes.
fn size(object: &Value) -> usize {
    object.to_string().len()
}

fn metadata<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(key)?.as_str()
}

/// Drops the fields that the host's watches drop before they cache an object.
pub fn without_bookkeeping(object: &mut Value) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    metadata.remove("managedFields");
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// An object as the host returns it: pruned to the request's mask, if any.
pub fn masked(mut object: Value, request: &CallbackRequest) -> Value {
    if let Some(mask) = request.field_masks() {
        field_mask::prune(&mut object, mask);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_range(namespace: &str, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "LimitRange",
            "metadata": {
                "name": name, "namespace": namespace, "managedFields": [{}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}
            },
            "spec": {"limits": [{"type": "Pod"}]},
            "status": {"dropped": true}
        })
    }

    fn list(namespace: &str) -> CallbackRequest {
        CallbackRequest::KubernetesListResourceNamespace {
            api_version: "v1".into(),
            kind: "LimitRange".into(),
            namespace: namespace.into(),
            label_selector: None,
            field_selector: None,
            field_masks: Some(["spec.limits".to_owned()].into()),
        }
    }

    #[test]
    fn missing_objects_and_uncached_reads_go_to_the_api_server() {
        let object = limit_range("shop", "a");
        let whole = object.to_string().len();
        let mut cluster = Cluster::new().with(object).failing("v1", "Pod", "forbidden");
        let mut check = |request: &CallbackRequest, live_calls: usize, bytes: usize| {
            let before = cluster.work();
            drop(cluster.call(request));
            let after = cluster.work();
            assert_eq!((after.live_calls - before.live_calls, after.bytes - before.bytes), (live_calls, bytes));
        };
        check(&get("a"), 0, whole);
        check(&get("b"), 1, 0);
        let fresh = |kind: &str, disable_cache| CallbackRequest::KubernetesGetResource {
            api_version: "v1".into(),
            kind: kind.into(),
            name: "a".into(),
            namespace: Some("shop".into()),
            disable_cache,
            field_masks: Some(["spec".to_owned()].into()),
        };
        check(&fresh("LimitRange", true), 1, whole);
        check(&fresh("Pod", false), 1, 0);
        check(&list("other"), 0, 0);
        let mut kept = limit_range("shop", "a");
        without_bookkeeping(&mut kept);
        check(&list("shop"), 0, kept.to_string().len());
    }

    fn get(name: &str) -> CallbackRequest {
        CallbackRequest::KubernetesGetResource {
            api_version: "v1".into(),
            kind: "LimitRange".into(),
            name: name.into(),
            namespace: Some("shop".into()),
            disable_cache: false,
            field_masks: None,
        }
    }

    #[test]
    fn a_list_has_one_namespace_masked_and_without_bookkeeping() {
        let mut cluster = Cluster::new().with(limit_range("shop", "a")).with(limit_range("other", "b"));
        let answer = String::from_utf8(cluster.call(&list("shop")).unwrap()).unwrap();
        assert_eq!(
            answer,
            r#"{"apiVersion":"v1","kind":"LimitRangeList","metadata":{},"items":[{"apiVersion":"v1","kind":"LimitRange","metadata":{"annotations":{"kept":"yes"},"name":"a","namespace":"shop"},"spec":{"limits":[{"type":"Pod"}]}}]}"#
        );
        assert_eq!(cluster.calls(), [list("shop")]);
    }

    #[test]
    fn items_of_a_list_get_its_kind() {
        let mut item = limit_range("shop", "a");
        item.as_object_mut().unwrap().remove("kind");
        item.as_object_mut().unwrap().remove("apiVersion");
        let mut cluster = Cluster::new().with(json!({"apiVersion": "v1", "kind": "LimitRangeList", "items": [item]}));
        assert!(cluster.call(&get("a")).is_ok());
    }

    #[test]
    fn a_missing_object_cannot_be_found() {
        let error = Cluster::new().call(&get("gone")).unwrap_err();
        assert_eq!(error, r#"Cannot find v1/LimitRange named 'gone' inside of namespace 'Some("shop")'"#);
    }

    #[test]
    fn a_kind_that_fails_fails_for_every_read() {
        let mut cluster = Cluster::new().with(limit_range("shop", "a")).failing("v1", "LimitRange", "forbidden");
        assert_eq!(cluster.call(&list("shop")), Err("forbidden".to_owned()));
        assert_eq!(cluster.call(&get("a")), Err("forbidden".to_owned()));
    }
}
