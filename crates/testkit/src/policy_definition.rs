//! A deployed policy: the parts of a ClusterAdmissionPolicy or AdmissionPolicy that decide how its wasm is run.
//!
//! As in `kwctl run`, rules, selectors and match conditions are ignored.

use std::{collections::BTreeSet, path::PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::metadata::ContextAwareResource;

/// A policy in a cluster: its settings and permissions.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyDefinition {
    pub id: String,
    pub wasm: PathBuf,
    pub settings: Value,
    pub context_aware: ContextAware,
    pub mutating: bool,
    pub monitor: bool,
    /// Replaces the policy's own message in a refusal.
    pub message: Option<String>,
}

/// The kinds that the policy may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextAware {
    NoAccess,
    /// The kinds in the wasm's own metadata.
    TrustPolicyMetadata,
    AllowList(BTreeSet<ContextAwareResource>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    metadata: Meta,
    spec: Spec,
}

#[derive(Deserialize)]
struct Meta {
    name: String,
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    module: String,
    #[serde(default)]
    settings: Value,
    #[serde(default)]
    context_aware_resources: BTreeSet<ContextAwareResource>,
    #[serde(default)]
    mutating: bool,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

impl PolicyDefinition {
    /// Every policy of a YAML file, in order.
    pub fn from_yaml(text: &str) -> Result<Vec<Self>, String> {
        serde_yaml::Deserializer::from_str(text)
            .map(|document| {
                let document =
                    Document::deserialize(document).map_err(|error| format!("not a Kubewarden policy: {error}"))?;
                Self::from_document(document)
            })
            .collect()
    }

    fn from_document(Document { api_version, kind, metadata, spec }: Document) -> Result<Self, String> {
        if api_version != "policies.kubewarden.io/v1" {
            return Err(format!("apiVersion is `{api_version}`: expected `policies.kubewarden.io/v1`"));
        }
        let (id, context_aware) = match (kind.as_str(), &metadata.namespace) {
            ("ClusterAdmissionPolicy", _) => {
                (format!("clusterwide-{}", metadata.name), ContextAware::AllowList(spec.context_aware_resources))
            }
            // A namespaced policy never reads the cluster.
            ("AdmissionPolicy", namespace) => (
                format!("namespaced-{}-{}", namespace.as_deref().unwrap_or("default"), metadata.name),
                ContextAware::NoAccess,
            ),
            _ => return Err(format!("kind is `{kind}`: expected `ClusterAdmissionPolicy` or `AdmissionPolicy`")),
        };
        Ok(Self {
            id,
            wasm: local_path(&spec.module)?,
            settings: settings(spec.settings)?,
            context_aware,
            mutating: spec.mutating,
            monitor: spec.mode.as_deref() == Some("monitor"),
            message: spec.message,
        })
    }
}

/// The local file of a module; this host does not pull from registries.
pub fn local_path(module: &str) -> Result<PathBuf, String> {
    match module.split_once("://") {
        None => Ok(PathBuf::from(module)),
        Some(("file", path)) => Ok(PathBuf::from(path)),
        Some((scheme, _)) => Err(format!("module `{module}` has scheme `{scheme}`: give the path of a wasm file")),
    }
}

/// Checks that settings are an object or null.
pub fn settings(settings: Value) -> Result<Value, String> {
    match settings {
        Value::Null => Ok(json!({})),
        Value::Object(_) => Ok(settings),
        other => Err(format!("the settings are `{other}`: expected an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_admission_policy_brings_settings_access_and_mode() {
        let policies = PolicyDefinition::from_yaml(
            "
apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: {name: headroom}
spec:
  module: file://annotated-policy.wasm
  mutating: true
  mode: monitor
  settings: {quotas: {mode: 'off'}}
  contextAwareResources: [{apiVersion: v1, kind: LimitRange}]
  rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
---
apiVersion: policies.kubewarden.io/v1
kind: AdmissionPolicy
metadata: {name: headroom, namespace: shop}
spec: {module: policy.wasm}
",
        )
        .unwrap();
        let limit_range = ContextAwareResource { api_version: "v1".into(), kind: "LimitRange".into() };
        assert_eq!(
            policies,
            [
                PolicyDefinition {
                    id: "clusterwide-headroom".into(),
                    wasm: "annotated-policy.wasm".into(),
                    settings: json!({"quotas": {"mode": "off"}}),
                    context_aware: ContextAware::AllowList([limit_range].into()),
                    mutating: true,
                    monitor: true,
                    message: None,
                },
                PolicyDefinition {
                    id: "namespaced-shop-headroom".into(),
                    wasm: "policy.wasm".into(),
                    settings: json!({}),
                    context_aware: ContextAware::NoAccess,
                    mutating: false,
                    monitor: false,
                    message: None,
                },
            ]
        );
    }

    #[test]
    fn unsupported_definitions_are_refused() {
        let check = |yaml: &str, expected: &str| {
            let error = PolicyDefinition::from_yaml(yaml).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        let head = "apiVersion: policies.kubewarden.io/v1\nmetadata: {name: p}";
        check(&format!("{head}\nkind: Pod\nspec: {{module: p.wasm}}"), "kind is `Pod`");
        check(
            &format!("{head}\nkind: AdmissionPolicy\nspec: {{module: 'registry://r/p:v1'}}"),
            "give the path of a wasm file",
        );
        check(&format!("{head}\nkind: AdmissionPolicy\nspec: {{module: p.wasm, settings: [1]}}"), "expected an object");
    }
}
