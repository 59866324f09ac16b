//! Finds the pods that custom resources create: Rollouts, Knative Services, JobSets, RayClusters, Kubeflow jobs.
//!
//! Such kinds follow the conventions of Kubernetes: a pod template has `spec.containers`, and fields named `replicas` or
//! `parallelism` on the way to it say how many pods are created. A kind that does not is given by a rule.

use serde_json::{Map, Value, json};

use headroom_objects::kinds::{ApiKind, lifecycle, metadata};

/// Pods of one template.
#[derive(Debug, Clone, PartialEq)]
pub struct PodTemplate {
    /// `spec.workerGroupSpecs[0].template`
    pub path: String,
    pub replicas: u64,
    pub template: Value,
}

/// The place of the pods in the objects of a kind, as given to `--pods-at`: `Sandbox=spec.podTemplate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodsAt {
    pub kind: String,
    /// `*` stands for each field or item.
    pub path: Vec<String>,
}

impl std::str::FromStr for PodsAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, path) = text.split_once('=').ok_or("expected KIND=PATH, such as `Sandbox=spec.podTemplate`")?;
        let path: Vec<String> = path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        if kind.is_empty() || path.is_empty() {
            return Err("expected KIND=PATH, such as `Sandbox=spec.podTemplate`".to_owned());
        }
        Ok(Self { kind: kind.to_owned(), path })
    }
}

/// At most this many templates of an object are evaluated.
const MAX: usize = 64;

/// The templates in a custom resource; none for kinds of Kubernetes itself, whose pods the core knows.
pub fn of(object: &Value, rules: &[PodsAt]) -> Vec<PodTemplate> {
    let kind = ApiKind::of(object);
    let mut found = Vec::new();
    let rule = rules.iter().find(|rule| rule.kind.eq_ignore_ascii_case(&kind.kind));
    match rule {
        Some(rule) => follow(object, &rule.path, "", 1, &mut found),
        None if lifecycle::is_built_in(&kind.group) => {}
        None => search(object, "", 1, &mut found),
    }
    found
}

/// The object as the ReplicaSet that would create the pods of a template.
pub fn replica_set(object: &Value, pods: &PodTemplate) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": metadata(object, "name"), "namespace": metadata(object, "namespace")},
        "spec": {"replicas": pods.replicas, "template": pods.template},
    })
}

/// Goes the way of a rule to pod templates or pod specs.
fn follow(value: &Value, path: &[String], at: &str, replicas: u64, found: &mut Vec<PodTemplate>) {
    let Some((first, rest)) = path.split_first() else {
        let template = if value.get("containers").is_some() { json!({"spec": value}) } else { value.clone() };
        if is_template(&template) && found.len() < MAX {
            found.push(PodTemplate { path: at.to_owned(), replicas, template });
        }
        return;
    };
    let replicas = multiplied(value, replicas);
    for (name, place, part) in parts(value, at) {
        if first == "*" || *first == name {
            follow(part, rest, &place, replicas, found);
        }
    }
}

/// Looks for pod templates below a value, which is none itself.
fn search(value: &Value, at: &str, replicas: u64, found: &mut Vec<PodTemplate>) {
    let replicas = multiplied(value, replicas);
    for (name, place, part) in parts(value, at) {
        // A status repeats the spec of some kinds.
        if found.len() == MAX || at.is_empty() && name != "spec" {
            continue;
        }
        if is_template(part) {
            found.push(PodTemplate { path: place, replicas, template: part.clone() });
        } else {
            search(part, &place, replicas, found);
        }
    }
}

/// The fields or items of a value, with their places.
fn parts<'v>(value: &'v Value, at: &str) -> Vec<(String, String, &'v Value)> {
    match value {
        Value::Object(fields) => {
            let place = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
            fields.iter().map(|(name, part)| (name.clone(), place(name), part)).collect()
        }
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.map(|(index, part)| (index.to_string(), format!("{at}[{index}]"), part)).collect()
        }
        _ => Vec::new(),
    }
}

fn multiplied(value: &Value, replicas: u64) -> u64 {
    let count = |field: &str| value.get(field).and_then(Value::as_u64).unwrap_or(1);
    replicas.saturating_mul(count("replicas")).saturating_mul(count("parallelism"))
}

/// A template has containers, at least one of which has an image: lists of containers without one are patches.
fn is_template(value: &Value) -> bool {
    let containers = value.pointer("/spec/containers").and_then(Value::as_array);
    let has_image = |container: &Value| container.get("image").is_some_and(Value::is_string);
    containers.is_some_and(|containers| containers.iter().all(is_object) && containers.iter().any(has_image))
}

fn is_object(value: &Value) -> bool {
    value.as_object().is_some_and(|fields: &Map<String, Value>| !fields.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each template's path, number of pods and image.
    fn check(object: Value, rules: &[&str], expected: &[(&str, u64, &str)]) {
        let rules: Vec<PodsAt> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let found = of(&object, &rules);
        let told = found.iter().map(|pods| {
            let image = pods.template.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap();
            (pods.path.as_str(), pods.replicas, image)
        });
        assert_eq!(told.collect::<Vec<_>>(), expected, "{object}");
    }

    fn template(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": image}]}})
    }

    #[test]
    fn pods_of_custom_resources_are_found_by_the_conventions_of_their_fields() {
        let object =
            |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "spec": spec});
        check(
            object("argoproj.io/v1alpha1", "Rollout", json!({"replicas": 3, "template": template("web")})),
            &[],
            &[("spec.template", 3, "web")],
        );
        check(
            object(
                "serving.knative.dev/v1",
                "Service",
                json!({"template": {"spec": {"containers": [{"image": "fn"}]}}}),
            ),
            &[],
            &[("spec.template", 1, "fn")],
        );
        check(
            object(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                json!({"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": template("train")}}}]}),
            ),
            &[],
            &[("spec.replicatedJobs[0].template.spec.template", 8, "train")],
        );
        check(
            object(
                "ray.io/v1",
                "RayCluster",
                json!({"headGroupSpec": {"template": template("head")},
                    "workerGroupSpecs": [{"replicas": 5, "template": template("worker")}]}),
            ),
            &[],
            &[("spec.headGroupSpec.template", 1, "head"), ("spec.workerGroupSpecs[0].template", 5, "worker")],
        );
        check(
            object(
                "kubeflow.org/v1",
                "PyTorchJob",
                json!({"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template("m")}, "Worker": {"replicas": 2, "template": template("w")}}}),
            ),
            &[],
            &[
                ("spec.pytorchReplicaSpecs.Master.template", 1, "m"),
                ("spec.pytorchReplicaSpecs.Worker.template", 2, "w"),
            ],
        );
    }

    #[test]
    fn a_rule_names_the_pods_of_other_kinds() {
        let sandbox = json!({"apiVersion": "example.com/v1", "kind": "Sandbox",
            "spec": {"groups": [{"replicas": 2, "pod": {"containers": [{"image": "a"}]}}]}});
        check(sandbox.clone(), &[], &[]);
        check(sandbox, &["sandbox=spec.groups.*.pod"], &[("spec.groups[0].pod", 2, "a")]);
        assert!("Sandbox".parse::<PodsAt>().is_err() && "Sandbox=".parse::<PodsAt>().is_err());
    }

    #[test]
    fn what_is_no_template_is_passed_over() {
        let of_kind = |api_version: &str, spec: Value| json!({"apiVersion": api_version, "kind": "Any", "spec": spec});
        check(of_kind("v1", json!({"template": template("a")})), &[], &[]);
        check(
            of_kind("example.com/v1", json!({"template": {"spec": {"containers": [{"name": "patched"}]}}})),
            &[],
            &[],
        );
        check(of_kind("example.com/v1", json!({"template": {"spec": {"containers": "none"}}})), &[], &[]);
    }
}
