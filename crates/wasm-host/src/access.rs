//! The access of a policy: the context-aware resources and host capabilities granted to it.
//!
//! Kubewarden checks both before it reads a call. The error texts are Kubewarden's.

use std::collections::BTreeSet;

use crate::host_call::CallbackRequest;
use crate::metadata::{ContextAwareResource, Metadata};

const REPORTED: &str = "The violation has been reported.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub resources: BTreeSet<ContextAwareResource>,
    /// Patterns such as `kubernetes/get_resource`, `kubernetes/*` or `*`.
    pub capabilities: Vec<String>,
}

impl Access {
    /// The access of `kwctl run` without `--allow-context-aware`: every capability, but no kinds.
    pub fn to_no_resource() -> Self {
        Self { resources: BTreeSet::new(), capabilities: vec!["*".to_owned()] }
    }

    /// Exactly what a policy declares, as granted by an operator who follows the metadata.
    pub fn declared(metadata: &Metadata) -> Self {
        Self {
            resources: metadata.context_aware_resources.clone(),
            capabilities: metadata.host_capabilities.clone().unwrap_or_default(),
        }
    }

    /// Returns the guest's error for a capability that was not granted.
    pub fn check_capability(&self, namespace: &str, operation: &str) -> Result<(), String> {
        let path = format!("{namespace}/{operation}");
        let allowed = self.capabilities.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => *pattern == path,
        });
        if allowed {
            return Ok(());
        }
        Err(format!("Policy has not been granted access to the '{path}' host capability. {REPORTED}"))
    }

    /// Returns the guest's error for a kind that was not granted.
    pub fn check_resource(&self, request: &CallbackRequest) -> Result<(), String> {
        let (api_version, kind) = (request.api_version(), request.kind());
        let is_granted = |granted: &ContextAwareResource| granted.api_version == api_version && granted.kind == kind;
        if self.resources.iter().any(is_granted) {
            return Ok(());
        }
        Err(format!("Policy has not been granted access to Kubernetes {api_version}/{kind} resources. {REPORTED}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_granted_by_path_prefix_or_wildcard() {
        let check = |patterns: &[&str], granted| {
            let capabilities = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            let access = Access { resources: BTreeSet::new(), capabilities };
            assert_eq!(access.check_capability("kubernetes", "get_resource").is_ok(), granted, "{patterns:?}");
        };
        check(&["*"], true);
        check(&["kubernetes/*"], true);
        check(&["oci/*", "kubernetes/get_resource"], true);
        check(&["kubernetes/get_resource_plural"], false);
        check(&["oci/*"], false);
        check(&[], false);
    }
}
