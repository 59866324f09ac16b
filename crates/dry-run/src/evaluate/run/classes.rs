//! Sets what the API server's own plugins set before a policy or a quota sees an object: the overhead of a RuntimeClass, and the
//! default PriorityClass and StorageClass, by which quotas choose what they count.

use std::cmp::Reverse;

use headroom_objects::cluster_reader::{ClusterReader, List};
use headroom_objects::kinds::{ApiKind, PRIORITY_CLASS, RUNTIME_CLASS, STORAGE_CLASS, items, metadata, text};
use headroom_workloads::kinds::{self, pod_at};
use serde_json::{Value, json};

use super::Run;

/// A kind of classes with a default.
struct Defaulted {
    list: List<'static>,
    field: &'static str,
    /// A part of each quota that counts by these classes.
    asked_by: &'static str,
    default: fn(&[Value]) -> Option<&Value>,
}

const PRIORITY: Defaulted = Defaulted {
    list: (PRIORITY_CLASS.0, PRIORITY_CLASS.1, None),
    field: "priorityClassName",
    asked_by: "PriorityClass",
    default: lowest_priority,
};
const STORAGE: Defaulted = Defaulted {
    list: (STORAGE_CLASS.0, STORAGE_CLASS.1, None),
    field: "storageClassName",
    asked_by: ".storageclass.storage.k8s.io/",
    default: newest_storage,
};

impl Run {
    /// Sets them in a pod, in a workload's templates of pods and claims, or in a claim. Returns what could not be read and counts
    /// here.
    pub(super) fn set_classes(&mut self, object: &mut Value) -> Vec<String> {
        let namespace = metadata(object, "namespace").to_owned();
        if ApiKind::of(object).kind == "PersistentVolumeClaim" {
            return Vec::from_iter(self.set_storage_class(object, "", &namespace));
        }
        let mut unread: Vec<String> = (0..items(object, "/spec/volumeClaimTemplates").count())
            .flat_map(|at| self.set_storage_class(object, &format!("/spec/volumeClaimTemplates/{at}"), &namespace))
            .collect();
        if let Some(of) = kinds::of(object) {
            unread.extend(self.set_classes_of_pod(object, &format!("{}/spec", pod_at(of)), &namespace));
        }
        unread
    }

    /// The same in a pod or a template whose spec is at this place.
    pub(super) fn set_classes_of_pod(&mut self, object: &mut Value, spec: &str, namespace: &str) -> Vec<String> {
        let class = |field: &str| text(object, &format!("{spec}/{field}")).to_owned();
        let (runtime, priority) = (class("runtimeClassName"), class(PRIORITY.field));
        let mut unread = Vec::new();
        if priority.is_empty() {
            unread.extend(self.set_default(&PRIORITY, object, spec, namespace));
        }
        if runtime.is_empty() {
            return unread;
        }
        match self.cluster.get((RUNTIME_CLASS.0, RUNTIME_CLASS.1, None), &runtime) {
            Ok(class) => {
                let overhead = class.as_ref().and_then(|class| class.pointer("/overhead/podFixed"));
                if let Some((Value::Object(spec), overhead)) = object.pointer_mut(spec).zip(overhead) {
                    spec.entry("overhead").or_insert_with(|| overhead.clone());
                }
            }
            Err(problem) => unread.push(format!("overhead of RuntimeClass {runtime} is not counted: {problem}")),
        }
        unread
    }

    fn set_storage_class(&mut self, object: &mut Value, claim: &str, namespace: &str) -> Option<String> {
        let at = |field: &str| object.pointer(&format!("{claim}{field}")).filter(|class| !class.is_null());
        let class = at("/metadata/annotations/volume.beta.kubernetes.io~1storage-class")
            .or_else(|| at("/spec/storageClassName"));
        if class.is_some() { None } else { self.set_default(&STORAGE, object, &format!("{claim}/spec"), namespace) }
    }

    fn set_default(&mut self, of: &Defaulted, object: &mut Value, spec: &str, namespace: &str) -> Option<String> {
        let cluster = &mut self.cluster;
        let read = || {
            let classes = kinds::served(cluster.list(of.list))?.unwrap_or_default();
            Ok((of.default)(&classes).map(|class| metadata(class, "name").to_owned()))
        };
        match self.default_classes.entry(of.field).or_insert_with(read) {
            Ok(class) => {
                if let Some((Value::Object(spec), class)) = object.pointer_mut(spec).zip(class.as_ref()) {
                    spec.insert(of.field.to_owned(), json!(class));
                }
                None
            }
            Err(problem) => {
                let problem =
                    format!("charged as without a class, because the default {} is not known: {problem}", of.list.1);
                let quotas = self.cluster.list(("v1", "ResourceQuota", Some(namespace)));
                let asks = |quota: &Value| quota.get("spec").is_some_and(|spec| spec.to_string().contains(of.asked_by));
                quotas.is_ok_and(|quotas| quotas.iter().any(asks)).then_some(problem)
            }
        }
    }
}

/// The API server chooses the newest of several defaults.
fn newest_storage(classes: &[Value]) -> Option<&Value> {
    let is_default = |class: &&Value| {
        ["", ".beta"].iter().any(|version| {
            let name = format!("storageclass{version}.kubernetes.io~1is-default-class");
            text(class, &format!("/metadata/annotations/{name}")) == "true"
        })
    };
    let defaults = classes.iter().filter(is_default);
    defaults.min_by_key(|class| (Reverse(metadata(class, "creationTimestamp")), metadata(class, "name")))
}

/// The same: that of the lowest priority.
fn lowest_priority(classes: &[Value]) -> Option<&Value> {
    let defaults = classes.iter().filter(|class| class.get("globalDefault") == Some(&json!(true)));
    defaults.min_by_key(|class| class.get("value").and_then(Value::as_i64))
}
