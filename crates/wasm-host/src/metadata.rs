//! A policy's metadata: the file, and the custom section that `kwctl annotate` adds to the wasm.
//!
//! The section `io.kubewarden.metadata` contains the metadata as JSON. The host reads the kinds that a policy may read;
//! Artifact Hub and `kwctl scaffold` read the rest.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wasm_encoder::Section;

pub const SECTION: &str = "io.kubewarden.metadata";
/// Annotation with the README.
pub const USAGE: &str = "io.kubewarden.policy.usage";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Read from the policy when it is annotated, never written by hand.
    pub protocol_version: Option<String>,
    pub rules: Vec<Rule>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    pub mutating: bool,
    #[serde(default = "yes")]
    pub background_audit: bool,
    #[serde(default)]
    pub context_aware_resources: BTreeSet<ContextAwareResource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_capabilities: Option<Vec<String>>,
    #[serde(default = "wapc")]
    pub execution_mode: String,
    #[serde(default = "kubernetes")]
    pub policy_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_kubewarden_version: Option<String>,
}

/// A kind of Kubernetes object that a policy may read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextAwareResource {
    pub api_version: String,
    pub kind: String,
}

/// The admission requests that a policy receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    pub api_groups: Vec<String>,
    pub api_versions: Vec<String>,
    pub resources: Vec<String>,
    pub operations: Vec<String>,
}

fn yes() -> bool {
    true
}

fn wapc() -> String {
    "kubewarden-wapc".to_owned()
}

fn kubernetes() -> String {
    "kubernetes".to_owned()
}

impl Metadata {
    /// Reads the metadata file, and checks its rules like `kwctl`.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let metadata: Self =
            serde_yaml::from_str(text).map_err(|error| format!("the metadata cannot be read: {error}"))?;
        metadata.rules.iter().try_for_each(Rule::check)?;
        Ok(metadata)
    }

    /// Reads the metadata of an annotated policy; `None` if the policy is not annotated.
    pub fn from_wasm(wasm: &[u8]) -> Result<Option<Self>, String> {
        for payload in wasmparser::Parser::new(0).parse_all(wasm) {
            let payload = payload.map_err(|error| format!("the wasm cannot be read: {error}"))?;
            if let wasmparser::Payload::CustomSection(section) = payload
                && section.name() == SECTION
            {
                return serde_json::from_slice(section.data())
                    .map(Some)
                    .map_err(|error| format!("section `{SECTION}` cannot be read: {error}"));
            }
        }
        Ok(None)
    }

    pub fn annotate(&self, wasm: &[u8]) -> Result<Vec<u8>, String> {
        if Self::from_wasm(wasm)?.is_some() {
            return Err(format!("the wasm already has a section `{SECTION}`: annotate the plain build"));
        }
        let json = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let mut annotated = wasm.to_vec();
        wasm_encoder::CustomSection { name: SECTION.into(), data: json.into() }.append_to(&mut annotated);
        Ok(annotated)
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        let lists = [
            ("apiGroups", &self.api_groups),
            ("apiVersions", &self.api_versions),
            ("resources", &self.resources),
            ("operations", &self.operations),
        ];
        for (name, list) in lists {
            if list.is_empty() {
                return Err(format!("a rule has no `{name}`: name at least one"));
            }
            if list.len() > 1 && list.iter().any(|entry| entry == "*") {
                return Err(format!("a rule has `*` and other values in `{name}`: `*` must be the only one"));
            }
        }
        let known = ["CREATE", "UPDATE", "DELETE", "CONNECT", "*"];
        match self.operations.iter().find(|entry| !known.contains(&entry.as_str())) {
            Some(unknown) => {
                Err(format!("a rule has operation `{unknown}`: expected CREATE, UPDATE, DELETE, CONNECT or `*`"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "
rules:
  - {apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}
mutating: true
contextAwareResources:
  - {apiVersion: v1, kind: LimitRange}
hostCapabilities: [kubernetes/get_resource]
annotations: {io.kubewarden.policy.title: headroom}
";
    /// The smallest module: the magic number and the version.
    const EMPTY_WASM: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn annotated_metadata_is_read_back() {
        let metadata = Metadata::from_yaml(YAML).unwrap();
        assert_eq!(Metadata::from_wasm(EMPTY_WASM).unwrap(), None);
        let annotated = metadata.annotate(EMPTY_WASM).unwrap();
        assert_eq!(Metadata::from_wasm(&annotated).unwrap(), Some(metadata.clone()));
        assert!(metadata.annotate(&annotated).unwrap_err().contains("already"));
    }

    #[test]
    fn the_section_has_the_json_that_kwctl_writes() {
        let json = serde_json::to_value(Metadata::from_yaml(YAML).unwrap()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "protocolVersion": null,
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
                "annotations": {"io.kubewarden.policy.title": "headroom"},
                "mutating": true,
                "backgroundAudit": true,
                "contextAwareResources": [{"apiVersion": "v1", "kind": "LimitRange"}],
                "hostCapabilities": ["kubernetes/get_resource"],
                "executionMode": "kubewarden-wapc",
                "policyType": "kubernetes"
            })
        );
    }

    #[test]
    fn rules_that_kwctl_refuses_are_refused() {
        let check = |from: &str, to: &str, expected: &str| {
            let error = Metadata::from_yaml(&YAML.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("[pods]", "[]", "no `resources`");
        check("['']", "['', '*']", "must be the only one");
        check("[CREATE]", "[create]", "operation `create`");
    }
}
