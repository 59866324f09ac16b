//! What of a request is ours to judge. Everything else is let through untouched, and cheaply.

use crate::json::{Malformed, Node};
use crate::request::{Operation, Request, template};
use crate::settings::{LimitRangeSettings, Mode, QuotaSettings};

/// What a request puts before us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A new pod.
    Pod,
    /// A pod that gets a deadline or loses it, by which quotas tell pods apart.
    Deadline,
    /// New resources for a running pod (`pods/resize`).
    Resize,
    /// A controller that will make pods from a template.
    Workload,
    /// More replicas for such a controller (`deployments/scale` and the like).
    Scale,
    /// A PersistentVolumeClaim.
    Claim,
    /// A claim whose volume was resized or changed: told, not asked.
    ClaimStatus,
    /// Anything else that quotas count.
    Counted,
}

impl Subject {
    pub fn of(request: &Request<'_>) -> Option<Self> {
        let is_create = match request.operation {
            Operation::Create => true,
            Operation::Update { .. } => false,
            Operation::Delete | Operation::Connect => return None,
        };
        if request.namespace.is_empty() {
            return None;
        }
        match (request.group.as_ref(), request.resource.as_ref(), request.subresource.as_ref()) {
            ("", "pods", "") if is_create => Some(Self::Pod),
            // OK to go on with what cannot be read: the decision reads it again, and refuses it.
            ("", "pods", "") => changes_deadline(request).unwrap_or(true).then_some(Self::Deadline),
            ("", "pods", "resize") => (!is_create).then_some(Self::Resize),
            ("", "persistentvolumeclaims", "") => Some(Self::Claim),
            ("", "persistentvolumeclaims", "status") => {
                (!is_create && changes_volume(request).unwrap_or(true)).then_some(Self::ClaimStatus)
            }
            (_, _, "scale") => {
                let is_ours = !is_create && template::path_to_pod(request).is_some();
                is_ours.then_some(Self::Scale)
            }
            (_, _, "") if template::path_to_pod(request).is_some() => Some(Self::Workload),
            ("", "services", "") | ("resource.k8s.io", "resourceclaims", "") => Some(Self::Counted),
            (_, _, "") if is_create && !is_uncounted(request) => Some(Self::Counted),
            _ => None,
        }
    }

    /// What is done about breaches of LimitRanges by such a subject.
    pub fn mode(self, settings: &LimitRangeSettings<'_>) -> Mode {
        match (self, settings.mode) {
            (_, Mode::Off) => Mode::Off,
            (Self::Workload, _) => settings.workloads,
            (Self::Pod | Self::Resize | Self::Claim, mode) => mode,
            (Self::Deadline | Self::Scale | Self::ClaimStatus | Self::Counted, _) => Mode::Off,
        }
    }

    /// What is done about breaches of quotas by the object itself.
    pub fn quota_mode(self, request: &Request<'_>, settings: &QuotaSettings<'_>) -> Mode {
        match self {
            Self::Scale => Mode::Off,
            // A workload is an object that is counted when it is made, like any other.
            Self::Workload if !matches!(request.operation, Operation::Create) => Mode::Off,
            _ => settings.mode,
        }
    }

    /// What is done about breaches of quotas by the pods that the subject would bring.
    pub fn pods_quota_mode(self, settings: &QuotaSettings<'_>) -> Mode {
        match (self, settings.mode) {
            (_, Mode::Off) => Mode::Off,
            (Self::Workload | Self::Scale, _) => settings.workloads,
            _ => Mode::Off,
        }
    }
}

/// Kinds that are no objects in a namespace, or so many and so short-lived that quotas leave them alone.
fn is_uncounted(request: &Request<'_>) -> bool {
    matches!(
        (request.group.as_ref(), request.resource.as_ref()),
        ("", "bindings" | "componentstatuses" | "events" | "namespaces")
            | ("authentication.k8s.io", "tokenreviews" | "selfsubjectreviews")
            | (
                "authorization.k8s.io",
                "subjectaccessreviews"
                    | "localsubjectaccessreviews"
                    | "selfsubjectaccessreviews"
                    | "selfsubjectrulesreviews"
            )
    )
}

fn changes_deadline(request: &Request<'_>) -> Result<bool, Malformed> {
    let has_deadline = |object: Option<Node<'_>>| {
        let deadline = object.map(|object| object.at(&["spec", "activeDeadlineSeconds"])).transpose()?.flatten();
        Ok::<_, Malformed>(deadline.map(Node::integer).transpose()?.is_some_and(|seconds| seconds >= 0))
    };
    Ok(has_deadline(request.object)? != has_deadline(request.old())?)
}

/// Whether the size or the attributes class of a claim's volume are other ones.
fn changes_volume(request: &Request<'_>) -> Result<bool, Malformed> {
    const PATHS: [&[&str]; 3] = [
        &["status", "allocatedResources", "storage"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let text = |object: Option<Node<'_>>, path| {
        let value = object.map(|object| object.at(path)).transpose()?.flatten();
        Ok::<_, Malformed>(value.map(|value| value.text().to_owned()))
    };
    for path in PATHS {
        if text(request.object, path)? != text(request.old(), path)? {
            return Ok(true);
        }
    }
    Ok(false)
}
