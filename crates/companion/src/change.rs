//! Advice as changes: patches for kustomize and for the API server, values for Helm, edits of manifests.
//!
//! Only what is not so already is in them, so advice that was taken gives nothing; and only for kinds whose template is
//! known here. An autoscaler that goes by a share of the requests is changed with them, so that it goes on as before.

use std::path::Path;

use headroom_core::amount::Requirement;
use headroom_dryrun::kinds::{ApiKind, metadata};
use serde_json::{Map, Value, json};

use crate::edit::{self, Identity};
use crate::output;
use crate::recommend::autoscaler::{Kept, Scaled, kept};

/// What is to be set in the containers of a workload.
#[derive(Debug, Clone)]
pub struct Change {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The file that the workload was read from: others may have it too, and say something else.
    pub file: Option<String>,
    /// From the object to the pod in it.
    pub path: Vec<&'static str>,
    pub containers: Vec<Container>,
    pub autoscalers: Vec<Scaled>,
}

#[derive(Debug, Clone)]
pub struct Container {
    pub name: String,
    pub is_init: bool,
    /// Limits first.
    pub amounts: Vec<(Requirement, Amounts)>,
}

/// Resources with what is to be set.
pub type Amounts = Vec<(&'static str, String)>;

/// What one object should be like, as far as it changes: an apply configuration, which is a strategic merge patch too.
#[derive(Debug, Clone)]
pub struct Patch {
    pub kind: ApiKind,
    pub namespace: String,
    pub name: String,
    pub body: Value,
}

impl Container {
    /// None if there is nothing to set.
    pub fn new(name: &str, is_init: bool, limits: Amounts, requests: Amounts) -> Option<Self> {
        let both = [(Requirement::Limit, limits), (Requirement::Request, requests)];
        let amounts: Vec<_> = both.into_iter().filter(|(_, amounts)| !amounts.is_empty()).collect();
        (!amounts.is_empty()).then(|| Self { name: name.to_owned(), is_init, amounts })
    }

    fn resources(&self) -> Value {
        let amounts = |amounts: &Amounts| -> Map<String, Value> {
            amounts.iter().map(|(name, amount)| ((*name).to_owned(), json!(amount))).collect()
        };
        self.amounts
            .iter()
            .map(|(requirement, amounts_of)| (requirement.field().to_owned(), json!(amounts(amounts_of))))
            .collect()
    }
}

impl Change {
    /// In an order in which nothing is scaled down for a moment: an autoscaler's target is raised after the requests
    /// have been made smaller, and lowered before they are made larger.
    pub fn patches(&self) -> Vec<Patch> {
        let (mut patches, mut after) = (Vec::new(), Vec::new());
        for kept in kept(&self.autoscalers) {
            if kept.is_lowered { &mut patches } else { &mut after }.push(self.patch_of(&kept));
        }
        patches.push(self.patch());
        patches.append(&mut after);
        patches
    }

    fn patch(&self) -> Patch {
        let mut spec = Map::new();
        for (field, is_init) in [("containers", false), ("initContainers", true)] {
            let of_field = self.containers.iter().filter(|container| container.is_init == is_init);
            let patched: Vec<Value> =
                of_field.map(|container| json!({"name": container.name, "resources": container.resources()})).collect();
            if !patched.is_empty() {
                spec.insert(field.to_owned(), Value::Array(patched));
            }
        }
        let body = self.path.iter().rev().fold(json!({"spec": spec}), |inner, key| json!({*key: inner}));
        Patch::new(&self.api_version, &self.kind, &self.namespace, &self.name, body)
    }

    fn patch_of(&self, kept: &Kept) -> Patch {
        let body = json!({"spec": {"metrics": kept.metrics}});
        Patch::new(&kept.api_version, "HorizontalPodAutoscaler", &self.namespace, &kept.name, body)
    }

    /// Edits of the workload's manifest. A limit is only changed where the manifest has one: elsewhere something else
    /// sets it.
    pub fn edits(&self, manifest: &Value) -> Vec<edit::Change> {
        let object = identity(manifest, &self.kind, &self.name);
        let mut edits = Vec::new();
        for container in &self.containers {
            for (requirement, amounts) in &container.amounts {
                let mut amounts = amounts.clone();
                if *requirement == Requirement::Limit {
                    amounts.retain(|(name, _)| self.has_limit(container, manifest, name));
                }
                if !amounts.is_empty() {
                    let (object, path, container) = (object.clone(), self.path.clone(), container.name.clone());
                    edits.push(edit::Change { requirement: *requirement, object, path, container, amounts });
                }
            }
        }
        edits
    }

    fn has_limit(&self, container: &Container, manifest: &Value, name: &str) -> bool {
        let found = container_in(manifest, &self.path, container.is_init, &container.name);
        found.is_some_and(|container| container.pointer(&format!("/resources/limits/{name}")).is_some())
    }

    /// Whether an object of a file is the workload.
    pub fn is_of(&self, object: &Value, file: &Path) -> bool {
        let kind = ApiKind::of(object);
        self.file.as_ref().is_none_or(|own| *own == file.display().to_string())
            && kind.kind == self.kind
            && kind.api_version() == self.api_version
            && metadata(object, "namespace") == self.namespace
            && metadata(object, "name") == self.name
    }

    /// Edits of the manifest of an autoscaler; none if it is not about this workload.
    pub fn targets(&self, object: &Value, manifest: &Value) -> Vec<edit::Target> {
        let kind = ApiKind::of(object);
        let is_it = |scaled: &&Scaled| {
            kind.kind == "HorizontalPodAutoscaler"
                && kind.group == "autoscaling"
                && metadata(object, "namespace") == self.namespace
                && metadata(object, "name") == scaled.name
        };
        let target = |scaled: &Scaled| edit::Target {
            object: identity(manifest, &kind.kind, &scaled.name),
            resource: scaled.resource.clone(),
            container: scaled.container.clone(),
            percent: scaled.target_to_keep,
        };
        self.autoscalers.iter().filter(is_it).map(target).collect()
    }
}

impl Patch {
    fn new(api_version: &str, kind: &str, namespace: &str, name: &str, mut body: Value) -> Self {
        let mut metadata = Map::from_iter([("name".to_owned(), json!(name))]);
        if !namespace.is_empty() {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        if let Value::Object(fields) = &mut body {
            fields.insert("apiVersion".to_owned(), json!(api_version));
            fields.insert("kind".to_owned(), json!(kind));
            fields.insert("metadata".to_owned(), Value::Object(metadata));
        }
        Self { kind: ApiKind::new(api_version, kind), namespace: namespace.to_owned(), name: name.to_owned(), body }
    }

    /// The patch that puts back what `before` had, and takes away what it had not. The object's name is not in it.
    pub fn put_back(&self, before: &Value) -> Value {
        json!({"spec": had(self.body.get("spec").unwrap_or(&Value::Null), before.get("spec"))})
    }

    pub fn told(&self) -> String {
        format!("{} {}/{}", self.namespace, self.kind.kind.to_lowercase(), self.name)
    }
}

/// What stood where a patch sets something. Lists of named items are merged by their names; others are set as a whole.
fn had(patch: &Value, before: Option<&Value>) -> Value {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    match patch {
        Value::Object(fields) => {
            let of = |(key, value): (&String, &Value)| match key.as_str() {
                "name" => (key.clone(), value.clone()),
                _ => (key.clone(), had(value, before.and_then(|before| before.get(key)))),
            };
            fields.iter().map(of).collect()
        }
        Value::Array(items) if items.iter().all(|item| name(item).is_some()) => {
            let there = before.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let same = |item: &Value| there.iter().find(|before| name(before) == name(item));
            items.iter().map(|item| had(item, same(item))).collect()
        }
        _ => before.cloned().unwrap_or(Value::Null),
    }
}

/// A container of an object that makes pods.
pub fn container_in<'o>(object: &'o Value, path: &[&str], is_init: bool, name: &str) -> Option<&'o Value> {
    let containers = object.pointer(&containers_at(path, is_init))?.as_array()?;
    containers.iter().find(|container| container.get("name").and_then(Value::as_str) == Some(name))
}

/// Where an object has its containers, as a JSON pointer.
pub fn containers_at(path: &[&str], is_init: bool) -> String {
    let list = if is_init { "initContainers" } else { "containers" };
    path.iter().chain(&["spec", list]).map(|key| format!("/{key}")).collect()
}

/// As the manifest names itself.
fn identity(manifest: &Value, kind: &str, name: &str) -> Identity {
    let namespace = Some(metadata(manifest, "namespace")).filter(|text| !text.is_empty()).map(str::to_owned);
    Identity { kind: kind.to_owned(), namespace, name: name.to_owned() }
}

/// A patch for each object, as documents of one file.
pub fn kustomize(changes: &[Change]) -> anyhow::Result<String> {
    let bodies = changes.iter().flat_map(Change::patches).map(|patch| output::yaml(&patch.body));
    Ok(bodies.collect::<anyhow::Result<Vec<_>>>()?.join("---\n"))
}

/// Where a container's resources stand in a chart's values, unless the caller knows better.
pub const VALUES_PATH: &str = "{name}.{container}.resources";

/// Values for a chart, each container's resources at `path`, in which `{kind}`, `{name}` and `{container}` stand for the
/// object's kind and name and the container's name. Two containers at one place are refused.
pub fn helm(changes: &[Change], path: &str) -> Result<Value, String> {
    let mut values = json!({});
    for change in changes {
        for container in &change.containers {
            let filled = |key: &str| {
                let key = key.replace("{kind}", &change.kind.to_lowercase());
                key.replace("{name}", &change.name).replace("{container}", &container.name)
            };
            let keys: Vec<String> = path.split('.').map(filled).collect();
            if !put(&mut values, &keys, container.resources()) {
                return Err(format!(
                    "two containers would have their values at `{}`: choose --values-path with {{name}} and {{container}} in \
                     it, or ask for one object",
                    keys.join(".")
                ));
            }
        }
    }
    Ok(values)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn change(autoscalers: Vec<Scaled>) -> Change {
        let requests = vec![("cpu", "100m".to_owned())];
        Change {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            file: None,
            path: vec!["spec", "template"],
            containers: Container::new("a", false, vec![("memory", "1Gi".to_owned())], requests).into_iter().collect(),
            autoscalers,
        }
    }

    #[test]
    fn what_is_put_back_is_what_was_there() {
        let before = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [
            {"name": "b", "resources": {"requests": {"cpu": "2"}}},
            {"name": "a", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]}}}});
        let back = change(Vec::new()).patch().put_back(&before);
        let container = json!({"name": "a", "resources": {"limits": {"memory": null}, "requests": {"cpu": "1"}}});
        assert_eq!(back, json!({"spec": {"template": {"spec": {"containers": [container]}}}}));
    }

    #[test]
    fn nothing_is_scaled_down_while_requests_change() {
        let metrics = |percent: u64| {
            json!([{"type": "External", "external": {"kept": true}}, {"type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}])
        };
        let scaled = |target_percent: u64, target_to_keep: u64| Scaled {
            name: "web".to_owned(),
            resource: "cpu".to_owned(),
            container: None,
            target_percent,
            target_to_keep,
            pods: 2,
            pods_after: 4,
            api_version: "autoscaling/v2".to_owned(),
            metrics: metrics(target_percent),
            place: 1,
        };
        let check = |target: u64, kept: u64, expected: [&str; 2]| {
            let patches = change(vec![scaled(target, kept)]).patches();
            assert_eq!(patches.iter().map(Patch::told).collect::<Vec<_>>(), expected);
            let autoscaler = patches.iter().find(|patch| patch.kind.group == "autoscaling").unwrap();
            assert_eq!(autoscaler.body["spec"]["metrics"], metrics(kept));
            let before = json!({"spec": {"maxReplicas": 5, "metrics": metrics(target)}});
            assert_eq!(autoscaler.put_back(&before), json!({"spec": {"metrics": metrics(target)}}));
        };
        let (workload, autoscaler) = ("shop deployment/web", "shop horizontalpodautoscaler/web");
        check(70, 140, [workload, autoscaler]);
        check(70, 35, [autoscaler, workload]);
    }
}
