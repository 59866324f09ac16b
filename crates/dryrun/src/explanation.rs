//! Explains a decision: the verdict, its reasons, and the origin of each value, as data for people and for programs.

use headroom_core::request::{Requirement, Role};
use serde::Serialize;
use serde_json::Value;

use crate::evaluate::{
    CheckedBound, ContainerValues, Edge, Evaluation, Measured, ObjectCharge, ResourceValue, SetBy, Verdict,
};

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub verdict: Verdict,
    /// The containers are those of the pods that the object makes.
    pub is_of_pods: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
    /// Bounds of the pod in total, or of a claim.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_all: Vec<Check>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Taken>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Container {
    pub name: String,
    pub role: &'static str,
    pub image: String,
    pub values: Vec<Field>,
}

/// A value, or that there is none.
#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Field {
    /// `requests.cpu`
    pub field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `authored`, `estimated`, `defaulted`, `repaired`, …
    pub step: &'static str,
    pub reason: String,
    /// The usage that an estimate is made from, in rising order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<Measured>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Check {
    pub resource: String,
    /// `min`, `max` or `ratio`.
    pub edge: &'static str,
    pub bound: String,
    pub range: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    pub holds: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Taken {
    pub quota: String,
    pub name: String,
    pub before: String,
    pub adds: String,
    pub after: String,
    pub hard: String,
    pub left: String,
}

/// Values that are shown even if they are unset.
const EXPECTED: [&str; 2] = ["cpu", "memory"];

impl Explanation {
    /// Explains an evaluation; that of a workload with the evaluation of a pod that it makes. `object` is as its author wrote
    /// it.
    pub fn of(evaluation: &Evaluation, pod: Option<&Evaluation>, object: &Value) -> Self {
        let of_pod = pod.unwrap_or(evaluation);
        let template = pod.map_or(object, |pod| pod.request.get("object").unwrap_or(object));
        let written = if pod.is_some() { headroom_workloads::pod_of(object) } else { None };
        let written = written.as_ref().unwrap_or(template);
        let containers = of_pod.pod.iter().flatten();
        Self {
            object: evaluation.object_name(),
            namespace: evaluation.namespace.clone(),
            verdict: evaluation.verdict,
            is_of_pods: pod.is_some(),
            reasons: evaluation.reasons.iter().map(ToString::to_string).collect(),
            warnings: evaluation.warnings.iter().map(ToString::to_string).collect(),
            estimates: evaluation.estimates.clone(),
            containers: containers.map(|container| Container::of(container, &of_pod.checked_bounds, written)).collect(),
            in_all: of_pod.checked_bounds.iter().filter(|bound| bound.container.is_none()).map(Check::of).collect(),
            quotas: evaluation.charges.iter().chain(&evaluation.pod_charges).flat_map(Taken::all).collect(),
        }
    }
}

impl Container {
    fn of(container: &ContainerValues, bounds: &[CheckedBound], written: &Value) -> Self {
        let mut values = Vec::new();
        for requirement in [Requirement::Request, Requirement::Limit] {
            let with_requirement: Vec<&ResourceValue> =
                container.values.iter().filter(|value| value.requirement == requirement).collect();
            let checks = |resource: &str| -> Vec<Check> {
                let is_about = |bound: &&CheckedBound| {
                    bound.container.as_deref() == Some(container.name.as_str())
                        && bound.resource == resource
                        && (bound.edge == Edge::Min) == (requirement == Requirement::Request)
                };
                bounds.iter().filter(is_about).map(Check::of).collect()
            };
            for value in &with_requirement {
                let is_unwritten = value.set_by == SetBy::Author
                    && !is_written(written, container, value.requirement, &value.resource);
                let is_copied = is_unwritten
                    && value.requirement == Requirement::Request
                    && is_written(written, container, Requirement::Limit, &value.resource);
                values.push(Field {
                    field: format!("{}.{}", requirement.field(), value.resource),
                    value: Some(value.quantity.clone()),
                    step: if is_copied { "copied" } else { step(value.set_by) },
                    reason: match (is_copied, is_unwritten) {
                        (true, _) => COPIED.to_owned(),
                        (false, true) => KEPT.to_owned(),
                        (false, false) => value.reason.clone(),
                    },
                    usage: value.usage.clone(),
                    checks: checks(&value.resource),
                });
            }
            for resource in
                EXPECTED.iter().filter(|name| !with_requirement.iter().any(|value| value.resource == **name))
            {
                values.push(Field {
                    field: format!("{}.{resource}", requirement.field()),
                    value: None,
                    step: "unset",
                    reason: "unset".to_owned(),
                    usage: Vec::new(),
                    checks: checks(resource),
                });
            }
        }
        // Requests before limits, each by name, whether set or not.
        values
            .sort_by(|a, b| (a.field.starts_with("limits"), &a.field).cmp(&(b.field.starts_with("limits"), &b.field)));
        let (name, image) = (container.name.clone(), container.image.clone());
        let role = match container.role {
            Role::Sidecar => "sidecar",
            role => role.noun(),
        };
        Self { name, role, image, values }
    }
}

/// The reason for a request that the API server copied from an author's limit, in the core's words.
const COPIED: &str = "copied from the limit in the manifest";
/// The reason for a value that the manifest does not have, and the object that is there keeps.
const KEPT: &str = "set in the live object";

/// True if the object has the value as its author wrote it, and not only as the API server completed it; true for a
/// container that the author did not write, which is there already.
fn is_written(object: &Value, container: &ContainerValues, requirement: Requirement, resource: &str) -> bool {
    let list = if container.role == Role::Main { "/spec/containers" } else { "/spec/initContainers" };
    let containers = object.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let mut same = containers.filter(|have| have.get("name").and_then(Value::as_str) == Some(&container.name));
    let Some(container) = same.next() else { return true };
    let resources = container.get("resources");
    resources.and_then(|resources| resources.get(requirement.field())?.get(resource)).is_some()
}

fn step(set_by: SetBy) -> &'static str {
    match set_by {
        SetBy::Author => "authored",
        SetBy::AuthorsLimit => "copied",
        SetBy::LimitRanger | SetBy::Default => "defaulted",
        SetBy::Earlier => "set before",
        SetBy::Estimate => "estimated",
        SetBy::Repaired => "repaired",
    }
}

impl Check {
    fn of(bound: &CheckedBound) -> Self {
        Self {
            resource: bound.resource.clone(),
            edge: bound.edge.name(),
            bound: bound.bound.clone(),
            range: bound.range.clone(),
            request: bound.request.clone(),
            limit: bound.limit.clone(),
            holds: bound.holds,
        }
    }
}

impl Taken {
    fn all(charge: &ObjectCharge) -> Vec<Self> {
        let taken = charge.added.iter().map(|amount| Self {
            quota: charge.quota.clone(),
            name: amount.name.clone(),
            before: amount.before.clone(),
            adds: amount.added.clone(),
            after: amount.used.clone(),
            hard: amount.hard.clone(),
            left: amount.left.clone(),
        });
        taken.collect()
    }
}
