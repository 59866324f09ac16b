//! Host calls of a policy: the Kubernetes reads of the Kubewarden SDK, as typed requests.
//!
//! The enum is serialized like in `kwctl`'s session files, so that a request from the wire can be compared with one
//! from such a file. Implementations of [`HostCalls`] answer the calls; [`crate::access`] decides whether they are
//! allowed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A Kubernetes read that a policy requests from its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallbackRequest {
    /// Operation `list_resources_by_namespace`.
    KubernetesListResourceNamespace {
        api_version: String,
        kind: String,
        namespace: String,
        label_selector: Option<String>,
        field_selector: Option<String>,
        field_masks: Option<BTreeSet<String>>,
    },
    /// Operation `list_resources_all`.
    KubernetesListResourceAll {
        api_version: String,
        kind: String,
        label_selector: Option<String>,
        field_selector: Option<String>,
        field_masks: Option<BTreeSet<String>>,
    },
    /// Operation `get_resource`.
    KubernetesGetResource {
        api_version: String,
        kind: String,
        name: String,
        namespace: Option<String>,
        disable_cache: bool,
        field_masks: Option<BTreeSet<String>>,
    },
}

/// Answers host calls. Errors have the texts of the real host's callback handler.
pub trait HostCalls {
    fn call(&mut self, request: &CallbackRequest) -> Result<Vec<u8>, String>;
}

/// A host without a cluster or session file, so that every host call fails.
pub struct NoCluster;

impl HostCalls for NoCluster {
    fn call(&mut self, _request: &CallbackRequest) -> Result<Vec<u8>, String> {
        Err("kube::Client was not initialized properly".to_owned())
    }
}

impl CallbackRequest {
    /// Reads the payload of one waPC host call of binding `kubewarden`.
    pub fn read(namespace: &str, operation: &str, payload: &[u8]) -> Result<Self, String> {
        if namespace != "kubernetes" {
            return Err(format!("unknown namespace: {namespace}"));
        }
        // The payload has the fields without the variant's name, which follows from the operation.
        let variant = match operation {
            "list_resources_by_namespace" => "KubernetesListResourceNamespace",
            "list_resources_all" => "KubernetesListResourceAll",
            "get_resource" => "KubernetesGetResource",
            _ => return Err(format!("unknown operation: {operation}")),
        };
        let fields: serde_json::Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        serde_json::from_value(serde_json::json!({ variant: fields })).map_err(|error| error.to_string())
    }

    pub fn api_version(&self) -> &str {
        match self {
            Self::KubernetesListResourceNamespace { api_version, .. }
            | Self::KubernetesListResourceAll { api_version, .. }
            | Self::KubernetesGetResource { api_version, .. } => api_version,
        }
    }

    pub fn kind(&self) -> &str {
        match self {
            Self::KubernetesListResourceNamespace { kind, .. }
            | Self::KubernetesListResourceAll { kind, .. }
            | Self::KubernetesGetResource { kind, .. } => kind,
        }
    }

    pub fn field_masks(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::KubernetesListResourceNamespace { field_masks, .. }
            | Self::KubernetesListResourceAll { field_masks, .. }
            | Self::KubernetesGetResource { field_masks, .. } => field_masks.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operation_decides_how_a_payload_is_read() {
        let payload = br#"{"api_version":"v1","kind":"LimitRange","namespace":"shop","label_selector":null,
            "field_selector":null,"field_masks":["spec.limits","metadata.name"]}"#;
        let request = CallbackRequest::read("kubernetes", "list_resources_by_namespace", payload).unwrap();
        assert_eq!(
            request,
            CallbackRequest::KubernetesListResourceNamespace {
                api_version: "v1".into(),
                kind: "LimitRange".into(),
                namespace: "shop".into(),
                label_selector: None,
                field_selector: None,
                field_masks: Some(["metadata.name".to_owned(), "spec.limits".to_owned()].into()),
            }
        );
    }

    #[test]
    fn unknown_namespaces_and_operations_are_refused_with_the_hosts_texts() {
        let check = |namespace, operation, expected: &str| {
            assert_eq!(CallbackRequest::read(namespace, operation, b"{}").unwrap_err(), expected);
        };
        check("oci", "v1/verify", "unknown namespace: oci");
        check("kubernetes", "delete", "unknown operation: delete");
    }

    #[test]
    fn a_payload_without_a_required_field_names_it() {
        let error = CallbackRequest::read("kubernetes", "get_resource", br#"{"api_version":"v1"}"#).unwrap_err();
        assert!(error.contains("missing field `kind`"), "{error}");
    }
}
