//! Selects the requests that this policy evaluates. All others are admitted unchanged, and cheaply.

use crate::json::{Malformed, Node};
use crate::request::pod;
use crate::request::{Object, Operation, Request};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A new pod.
    Pod,
    /// A pod whose `activeDeadlineSeconds` is added or removed, which quota scopes depend on.
    Deadline,
    /// New resources for a running pod (`pods/resize`).
    Resize,
    /// A controller that creates pods from a template.
    Workload,
    /// More replicas for such a controller (`deployments/scale` and the like).
    Scale,
    Claim,
    /// A claim whose volume was resized or changed. This has already happened, so it is not refused.
    ClaimStatus,
    /// Anything else that quotas count.
    Counted,
}

impl RequestKind {
    pub fn of(request: &Request<'_>) -> Result<Option<Self>, Malformed> {
        let is_create = match request.operation {
            Operation::Create => true,
            Operation::Update { .. } => false,
            Operation::Other => return Ok(None),
        };
        if request.namespace.is_empty() {
            return Ok(None);
        }
        Ok(match (request.group.as_ref(), request.resource.as_ref(), request.subresource.as_ref()) {
            ("", "pods", "") if is_create => Some(Self::Pod),
            ("", "pods", "") => changes_deadline(request)?.then_some(Self::Deadline),
            ("", "pods", "resize") => (!is_create).then_some(Self::Resize),
            ("", "persistentvolumeclaims", "") => Some(Self::Claim),
            ("", "persistentvolumeclaims", "status") if is_create => None,
            ("", "persistentvolumeclaims", "status") => changes_volume(request)?.then_some(Self::ClaimStatus),
            (_, _, "scale") if is_create => None,
            (_, _, "scale") => request.pod_kind().filter(|kind| kind.is_scalable()).map(|_| Self::Scale),
            (_, _, "") if request.pod_kind().is_some() => Some(Self::Workload),
            ("", "services", "") | ("resource.k8s.io", "resourceclaims", "") => Some(Self::Counted),
            (_, _, "") => (is_create && !is_uncounted(request)).then_some(Self::Counted),
            _ => None,
        })
    }

    pub fn is_pod(self) -> bool {
        matches!(self, Self::Pod | Self::Deadline | Self::Resize)
    }

    /// True if it creates pods, whose requests can be estimated.
    pub fn makes_pods(self) -> bool {
        matches!(self, Self::Pod | Self::Workload | Self::Scale)
    }

    /// True if the object itself is charged to quotas.
    pub fn is_counted(self, request: &Request<'_>) -> bool {
        match self {
            Self::Scale => false,
            // A workload is counted when it is created, like any other object.
            Self::Workload => request.is_create(),
            _ => true,
        }
    }
}

/// Kinds that are not namespaced objects, or so numerous and short-lived that quotas do not count them.
fn is_uncounted(request: &Request<'_>) -> bool {
    matches!(
        (request.group.as_ref(), request.resource.as_ref()),
        ("", "bindings" | "componentstatuses" | "events" | "namespaces")
            | ("events.k8s.io", "events")
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
    let has_deadline =
        |object: Option<&Object<'_>>| object.and_then(|object| object.spec).map_or(Ok(false), pod::has_deadline);
    Ok(has_deadline(request.object.as_ref())? != has_deadline(request.old())?)
}

/// True if the size or the attributes class of a claim's volume changes.
fn changes_volume(request: &Request<'_>) -> Result<bool, Malformed> {
    const PATHS: [&[&str]; 3] = [
        &["allocatedResources", "storage"],
        &["currentVolumeAttributesClassName"],
        &["modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    for path in PATHS {
        let text = |object: Option<&Object<'_>>| -> Result<Option<String>, Malformed> {
            let value = object.map(|object| object.status_at(path)).transpose()?.flatten();
            Ok(value.map(Node::text).map(str::to_owned))
        };
        if text(request.object.as_ref())? != text(request.old())? {
            return Ok(true);
        }
    }
    Ok(false)
}
