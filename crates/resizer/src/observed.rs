//! A pod as it is decided about.

use crate::decision::{
    Amounts, ComputeResource, ContainerSize, Kubelet, Mode, ObservedContainer, ObservedPod, Readiness, Used,
};
use headroom_admission::amount::Quantity;
use headroom_admission::estimate::replace::{LIMITS, SCALE};
use headroom_admission::timestamp::Timestamp;
use headroom_objects::kinds::{items, metadata};
use serde_json::Value;

/// The label or annotation of a namespace, a workload or a pod that names the most that may be done to its pods.
pub(crate) const RESIZE: &str = "headroom.dev/resize";
/// The annotation of a workload with a PromQL expression that has a result while the workload suffers, as an alert's has.
pub(crate) const ALERT: &str = "headroom.dev/resize-alert";
/// The annotation of a static pod's mirror.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The facts about a container that are not in its pod's object.
#[derive(Debug, Clone, Default)]
pub struct ContainerFacts {
    /// The requests that admission gives today.
    pub wanted: Amounts,
    /// The size in the template.
    pub author: Option<ContainerSize>,
    /// The resources for which that is an estimate from its own history. Any other value raises no running pod: authors' values
    /// come back when the history or the policy cannot be read.
    pub is_evident: Vec<ComputeResource>,
    pub days: u64,
    /// As in [`ObservedContainer`].
    pub floor: Amounts,
    pub used: Option<Used>,
    pub is_scaled_by: Vec<ComputeResource>,
}

/// Reads a pod. One with an amount that cannot be read is left alone.
pub fn observed(pod: &Value, mode: Mode, facts_of: &dyn Fn(&str) -> ContainerFacts) -> ObservedPod {
    let text = |name: &str| metadata(pod, name).to_owned();
    let containers = items(pod, "/spec/containers").map(|of| container(pod, of, facts_of));
    let (containers, unread) = match containers.collect::<Result<_, _>>() {
        Ok(containers) => (containers, None),
        Err(error) => (Vec::new(), Some(format!("it cannot be read: {error}"))),
    };
    ObservedPod {
        uid: text("uid"),
        name: text("name"),
        version: text("resourceVersion"),
        mode,
        left_alone: reason_to_leave(pod).map(str::to_owned).or(unread),
        readiness: readiness(pod),
        kubelet: kubelet(pod),
        containers,
    }
}

fn reason_to_leave(pod: &Value) -> Option<&'static str> {
    let (metadata, spec) = (at(pod, "/metadata"), at(pod, "/spec"));
    let is_any_set = |of: &Value| of.as_object().is_some_and(|of| !of.is_empty());
    if !at(metadata, "/deletionTimestamp").is_null() {
        Some("it terminates")
    } else if at(pod, "/status/phase") != "Running" {
        Some("it does not run")
    } else if at(metadata, "/annotations").get(MIRROR).is_some() {
        Some("it is a static pod")
    } else if at(spec, "/os/name") == "windows" {
        Some("it runs on Windows")
    } else if is_any_set(at(spec, "/resources")) {
        Some("it sets pod-level resources")
    } else {
        None
    }
}

/// Where it does not hear of a node, Kubernetes sets `Ready` of its pods to false, without a reason. The kubelet sets
/// `ContainersReady` too, and gives a reason.
fn readiness(pod: &Value) -> Readiness {
    let is_true = |r#type| condition(pod, r#type).is_some_and(|of| at(of, "/status") == "True");
    let reason = condition(pod, "Ready").and_then(|ready| at(ready, "/reason").as_str());
    match reason.unwrap_or_default() {
        _ if is_true("Ready") => Readiness::Ready,
        "" if is_true("ContainersReady") => Readiness::NotHeardOf,
        _ => Readiness::NotReady,
    }
}

/// The state of the last resize. A kubelet that has not seen the spec has not made it.
fn kubelet(pod: &Value) -> Kubelet {
    let pending = condition(pod, "PodResizePending").map(|pending| at(pending, "/reason").as_str());
    let generation = at(pod, "/metadata/generation").as_i64();
    let is_seen = at(pod, "/status/observedGeneration").as_i64().is_none_or(|seen| Some(seen) >= generation);
    match pending {
        _ if !is_seen => Kubelet::InProgress,
        Some(Some("Infeasible")) => Kubelet::Infeasible,
        Some(_) => Kubelet::Deferred,
        None if condition(pod, "PodResizeInProgress").is_some() => Kubelet::InProgress,
        None => Kubelet::Done,
    }
}

fn container(
    pod: &Value,
    container: &Value,
    facts_of: &dyn Fn(&str) -> ContainerFacts,
) -> Result<ObservedContainer, String> {
    let name = at(container, "/name").as_str().ok_or("a container has no name")?;
    let status = items(pod, "/status/containerStatuses").find(|status| at(status, "/name") == name);
    let status = status.unwrap_or(&Value::Null);
    let ContainerFacts { mut wanted, author, is_evident, days, floor, used, is_scaled_by } = facts_of(name);
    let is_left = |resource: &ComputeResource| {
        let mut policies = items(container, "/resizePolicy").filter(|of| at(of, "/resourceName") == resource.name());
        is_scaled_by.contains(resource) || policies.any(|of| at(of, "/restartPolicy") == "RestartContainer")
    };
    let size = size(container).map_err(|error| format!("container {name}: {error}"))?;
    for resource in ComputeResource::ALL.into_iter().filter(|resource| !is_evident.contains(resource)) {
        if let (Some(amount), Some(request)) = (wanted.of(resource), size.requests.of(resource)) {
            wanted.set(resource, amount.min(request));
        }
    }
    Ok(ObservedContainer {
        name: name.to_owned(),
        size,
        wanted,
        days,
        floor,
        used,
        killed: ["state", "lastState"]
            .iter()
            .filter_map(|state| killed(at(status, &format!("/{state}/terminated"))))
            .max(),
        runs_with: runs_with(status).map_err(|error| format!("container {name}: {error}"))?,
        restarts: at(status, "/restartCount").as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        is_left: ComputeResource::ALL.into_iter().filter(is_left).collect(),
        scales: author.filter(|_| at(pod, "/metadata/annotations").get(LIMITS).is_some_and(|of| of == SCALE)),
    })
}

pub(crate) fn size(container: &Value) -> Result<ContainerSize, String> {
    let amounts = |kind: &str| amounts(at(container, kind));
    Ok(ContainerSize { requests: amounts("/resources/requests")?, limits: amounts("/resources/limits")? })
}

/// The status of what does not run has the limits that were allocated, not those that it ran with.
fn runs_with(status: &Value) -> Result<Option<u64>, String> {
    let runs = !at(status, "/state/running").is_null();
    Ok(amounts(at(status, "/resources/limits"))?.memory.filter(|_| runs))
}

fn killed(terminated: &Value) -> Option<i64> {
    if at(terminated, "/reason") != "OOMKilled" {
        return None;
    }
    let finished: Timestamp = at(terminated, "/finishedAt").as_str()?.parse().ok()?;
    Some(finished.unix_seconds())
}

/// The amounts in a list of resources. The error says what cannot be read.
pub(crate) fn amounts(of: &Value) -> Result<Amounts, String> {
    let mut amounts = Amounts::default();
    for resource in ComputeResource::ALL {
        let name = resource.name();
        match of.get(name).unwrap_or(&Value::Null) {
            Value::Null => {}
            Value::String(text) => {
                let quantity: Quantity = text.parse().map_err(|error| format!("{name} of `{text}`: {error}"))?;
                amounts.set(resource, amount(&quantity, resource));
            }
            other => return Err(format!("{name} of `{other}` is no quantity")),
        }
    }
    Ok(amounts)
}

/// Millicores or bytes, rounded up.
pub(crate) fn amount(quantity: &Quantity, resource: ComputeResource) -> u64 {
    let amount = match resource {
        ComputeResource::Cpu => quantity.milli_value(),
        ComputeResource::Memory => quantity.value(),
    };
    u64::try_from(amount).unwrap_or(0)
}

fn condition<'v>(pod: &'v Value, r#type: &str) -> Option<&'v Value> {
    items(pod, "/status/conditions").find(|condition| at(condition, "/type") == r#type)
}

/// The value at a JSON pointer; null if there is none.
pub(crate) fn at<'v>(value: &'v Value, pointer: &str) -> &'v Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}
