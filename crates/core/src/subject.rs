//! What of a request is ours to judge. Everything else is let through untouched, and cheaply.

use crate::request::{Operation, Request, template};
use crate::settings::{LimitRangeSettings, Mode};

/// What a request puts before us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A new pod.
    Pod,
    /// New resources for a running pod (`pods/resize`).
    Resize,
    /// A controller that will make pods from a template.
    Workload,
    /// A PersistentVolumeClaim.
    Claim,
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
        if request.is("", "pods", "resize") {
            return (!is_create).then_some(Self::Resize);
        }
        if !request.subresource.is_empty() {
            return None;
        }
        if request.is("", "pods", "") {
            return is_create.then_some(Self::Pod);
        }
        if request.is("", "persistentvolumeclaims", "") {
            return Some(Self::Claim);
        }
        template::path_to_pod(request).map(|_| Self::Workload)
    }

    /// What is done about breaches of LimitRanges by such a subject.
    pub fn mode(self, settings: &LimitRangeSettings<'_>) -> Mode {
        match (self, settings.mode) {
            (_, Mode::Off) => Mode::Off,
            (Self::Workload, _) => settings.workloads,
            (Self::Pod | Self::Resize | Self::Claim, mode) => mode,
        }
    }
}
