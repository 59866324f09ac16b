//! ClusterReader made of files: `kubectl get -o yaml`, or manifests that are not applied yet.
//!
//! Objects in files have not been through an API server, so they are completed here as it would complete them: a LimitRange gets the
//! defaults that derive from its bounds, an object without a namespace goes into the one that is asked about. The status
//! of a quota is another matter, because it needs all the objects around: see `quota_status`.

use std::collections::BTreeMap;
use std::rc::Rc;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::limit_range::LimitRange;
use headroom_admission::json::Malformed;
use serde_json::{Map, Value, json};

use super::{ClusterReader, List, ReadError};
use crate::document;
use crate::kinds::{ApiKind, metadata, text};
use crate::manifest::{self, Manifest};

/// Objects by kind, namespace and name.
#[derive(Debug, Clone, Default)]
pub struct Folder {
    /// Shared with its clones until one of them changes.
    objects: Rc<BTreeMap<Identity, Value>>,
}

/// An object that was put, and the one that was there before.
pub struct Replaced {
    pub identity: Identity,
    pub before: Option<Value>,
}

const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// API group, kind, namespace and name, with a NUL between them: one text, since serde_json's objects are such maps, too, and the
/// playground's page is downloaded. The version is left out, because one object is served in several.
pub type Identity = String;

/// Group, kind, namespace and name of an identity.
pub fn parts(identity: &str) -> [&str; 4] {
    let mut parts = identity.splitn(4, '\0');
    [(); 4].map(|()| parts.next().unwrap_or_default())
}

impl Folder {
    /// The objects of some manifests; those without a namespace go into `namespace`.
    pub fn of(manifests: Vec<Manifest>, namespace: &str) -> Result<Self, manifest::Malformed> {
        let mut folder = Self::default();
        let is_definition = |manifest: &Manifest| ApiKind::of(&manifest.object).kind == DEFINITION.1;
        let (definitions, others): (Vec<_>, Vec<_>) = manifests.into_iter().partition(is_definition);
        for Manifest { origin, object } in definitions.into_iter().chain(others) {
            let ApiKind { group, version, kind, .. } = ApiKind::of(&object);
            let is_namespaced = folder.defined(&group, &version, &kind).is_none_or(|kind| kind.is_namespaced);
            let put = folder.put(if is_namespaced { in_namespace(object, namespace) } else { object });
            put.map_err(|malformed| {
                let problem = format!("the LimitRange cannot be read: {malformed}");
                manifest::Malformed { origin, problem, is_other_yaml: false }
            })?;
        }
        Ok(folder)
    }

    /// Some objects as they are.
    pub fn with(objects: impl IntoIterator<Item = Value>) -> Result<Self, Malformed> {
        let mut folder = Self::default();
        objects.into_iter().try_for_each(|object| folder.put(object))?;
        Ok(folder)
    }

    /// Adds an object, or replaces the one of its name.
    pub fn put(&mut self, object: Value) -> Result<(), Malformed> {
        self.replace(object).map(|_| ())
    }

    /// The same, with what has to be restored to undo it.
    pub fn replace(&mut self, mut object: Value) -> Result<Replaced, Malformed> {
        if object.get("kind").is_some_and(|kind| kind == "LimitRange") {
            imply_defaults(&mut object)?;
        }
        let identity = identity(&object);
        Ok(Replaced { before: Rc::make_mut(&mut self.objects).insert(identity.clone(), object), identity })
    }

    /// Undoes a replacement; the same with what it undid.
    pub fn restore(&mut self, Replaced { identity, before }: Replaced) -> Replaced {
        let objects = Rc::make_mut(&mut self.objects);
        let undone = match before {
            Some(object) => objects.insert(identity.clone(), object),
            None => objects.remove(&identity),
        };
        Replaced { identity, before: undone }
    }

    /// The namespaces of the objects, and the Namespaces among them; each as often as it is met.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        let names = self.objects.keys().map(|identity| match parts(identity) {
            [_, "Namespace", _, name] => name,
            [_, _, namespace, _] => namespace,
        });
        names.filter(|name| !name.is_empty())
    }

    /// A kind as a CustomResourceDefinition here defines it.
    pub fn defined(&self, group: &str, version: &str, kind: &str) -> Option<ApiKind> {
        let found = self.starting_with(format!("{}\0{}\0", DEFINITION.0, DEFINITION.1)).find(|definition| {
            text(definition, "/spec/group") == group && text(definition, "/spec/names/kind") == kind
        })?;
        Some(ApiKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: text(found, "/spec/names/plural").to_owned(),
            is_namespaced: text(found, "/spec/scope") != "Cluster",
        })
    }

    fn starting_with(&self, start: String) -> impl Iterator<Item = &Value> {
        let from_start = self.objects.range(start.clone()..);
        from_start.take_while(move |(identity, _)| identity.starts_with(&start)).map(|(_, object)| object)
    }
}

impl ClusterReader for Folder {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        let mut start = identity_in(list, "");
        if list.2.is_none() {
            // In all namespaces.
            start.pop();
        }
        Ok(self.starting_with(start).cloned().collect())
    }

    fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        Ok(self.objects.get(&identity_in(list, name)).cloned())
    }

    fn kind(&mut self, api_version: &str, kind: &str) -> ApiKind {
        let known = ApiKind::new(api_version, kind);
        self.defined(&known.group, &known.version, kind).unwrap_or(known)
    }
}

/// The object in the namespace it names, or in this one if it names none and its kind lives in one.
pub fn in_namespace(mut object: Value, namespace: &str) -> Value {
    if ApiKind::of(&object).is_namespaced
        && metadata(&object, "namespace").is_empty()
        && let Value::Object(fields) = &mut object
        && let Value::Object(metadata) = fields.entry("metadata").or_insert_with(|| json!({}))
    {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    object
}

pub fn identity(object: &Value) -> Identity {
    let ApiKind { group, kind, .. } = ApiKind::of(object);
    [&*group, &*kind, metadata(object, "namespace"), metadata(object, "name")].join("\0")
}

fn identity_in((api_version, kind, namespace): List<'_>, name: &str) -> Identity {
    let group = ApiKind::new(api_version, kind).group;
    [&*group, kind, namespace.unwrap_or_default(), name].join("\0")
}

/// Writes the defaults into a LimitRange that the API server would derive when it is applied.
fn imply_defaults(object: &mut Value) -> Result<(), Malformed> {
    // OK because what serde_json wrote can be read.
    let Ok(document) = document(object) else { return Ok(()) };
    let mut range = LimitRange::read(document.root())?;
    range.imply_defaults();
    let limits = object.pointer_mut("/spec/limits").and_then(Value::as_array_mut);
    for (item, completed) in limits.into_iter().flatten().zip(&range.items) {
        let Value::Object(fields) = item else { continue };
        for (field, list) in [("default", &completed.default_limit), ("defaultRequest", &completed.default_request)] {
            if !list.is_empty() {
                fields.insert(field.to_owned(), amounts(list));
            }
        }
    }
    Ok(())
}

/// An amount as objects have it, a text or a number.
pub fn amount_of(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::from_json_text(text).ok(),
        Value::Number(number) => Quantity::from_json_text(&number.to_string()).ok(),
        _ => None,
    }
}

/// A resource list as the API writes it.
pub fn amounts(list: &ResourceList<'_>) -> Value {
    list.iter().map(|(name, amount)| (name.to_string(), json!(amount.to_string()))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_range_is_completed_as_the_api_server_completes_it() {
        let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}, "spec": {"limits": [
            {"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}, "default": {"cpu": "500m"}, "min": {"memory": "64Mi"}},
            {"type": "Pod", "max": {"cpu": "2"}}]}});
        let mut folder = Folder::with([in_namespace(range, "shop")]).unwrap();
        let found = folder.list(("v1", "LimitRange", Some("shop"))).unwrap().remove(0);
        assert_eq!(
            found["spec"]["limits"],
            json!([
                {"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}, "min": {"memory": "64Mi"},
                 "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m", "memory": "1Gi"}},
                {"type": "Pod", "max": {"cpu": "2"}},
            ])
        );
    }

    #[test]
    fn objects_are_found_by_kind_namespace_and_name() {
        let objects = [
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "lab"}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}),
        ];
        let mut folder = Folder::with(objects.map(|object| in_namespace(object, "shop"))).unwrap();
        assert_eq!(folder.list(("v1", "Pod", Some("shop"))).unwrap().len(), 1);
        assert_eq!(folder.list(("v1", "Pod", None)).unwrap().len(), 2);
        assert_eq!(folder.list(("apps/v1", "Pod", None)).unwrap(), Vec::<Value>::new());
        assert!(folder.get(("v1", "Namespace", None), "lab").unwrap().is_some());
        assert!(folder.get(("v1", "Pod", Some("lab")), "b").unwrap().is_none());
    }
}
