//! The kinds of the API: their plural names, and whether they live in a namespace.
//!
//! Kubernetes' own kinds are known without asking a cluster. Another kind's plural is guessed as API
//! authors form it, and it is taken to live in a namespace.

pub mod lifecycle;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::label_selector::Labels;
use headroom_admission::cluster::usage::profile_layout::GROUP;
use headroom_admission::request::kinds::POD_KINDS;
use serde_json::{Map, Value};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiKind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Such as `pods`.
    pub plural: String,
    pub is_namespaced: bool,
}

/// The part of a snapshot besides objects, for the UI: the policy's settings, and recommendations. No cluster has such an object.
pub const SNAPSHOT: (&str, &str) = ("headroom.dev/v1alpha1", "Snapshot");

/// Kinds in no namespace: Kubernetes' own, and those of others that are often met.
const CLUSTER_WIDE: [&str; 38] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterAnalysisTemplate",
    "ClusterIssuer",
    "ClusterQueue",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterAdmissionPolicy",
    "ClusterAdmissionPolicyGroup",
    "ClusterSecretStore",
    "ClusterServingRuntime",
    "ClusterTask",
    "ClusterTrainingRuntime",
    "ClusterWorkflowTemplate",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "GatewayClass",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PolicyServer",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceFlavor",
    "RuntimeClass",
    "StorageClass",
    "TenantQuota",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeSnapshotClass",
];

/// The classes by which the API server completes pods and claims.
pub const PRIORITY_CLASS: (&str, &str) = ("scheduling.k8s.io/v1", "PriorityClass");
pub const RUNTIME_CLASS: (&str, &str) = ("node.k8s.io/v1", "RuntimeClass");
pub const STORAGE_CLASS: (&str, &str) = ("storage.k8s.io/v1", "StorageClass");

/// Kubernetes' own kinds that quotas count beside those with pods, with the version that every cluster serves.
const COUNTED: [(&str, &str); 13] = [
    ("v1", "ConfigMap"),
    ("v1", "Endpoints"),
    ("v1", "LimitRange"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "ResourceQuota"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("networking.k8s.io/v1", "Ingress"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("resource.k8s.io/v1", "ResourceClaim"),
];

impl ApiKind {
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural(kind),
            is_namespaced: !CLUSTER_WIDE.contains(&kind) && (api_version, kind) != SNAPSHOT,
        }
    }

    pub fn of(object: &Value) -> Self {
        Self::new(text(object, "/apiVersion"), text(object, "/kind"))
    }

    /// The kind of a qualified name such as `deployments.apps`, if quotas count it or need it to count others.
    pub fn counted(qualified: &str) -> Option<Self> {
        let with_pods = POD_KINDS.iter().map(|kind| (kind.api_version, kind.kind));
        let kinds = with_pods.chain(COUNTED).chain([("resource.k8s.io/v1", "DeviceClass")]);
        kinds.map(|(api_version, kind)| Self::new(api_version, kind)).find(|kind| kind.qualified() == qualified)
    }

    /// True if the plural follows from Kubernetes' own naming.
    pub fn is_kubernetes_own(&self) -> bool {
        !self.group.contains('.') || self.group.ends_with(".k8s.io") || self.group == GROUP
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods`, or `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The name of an object of the kind, as kubectl prints it: `pod/db-0`, `deployment.apps/web`.
    pub fn object_name(&self, name: &str) -> String {
        let kind = self.kind.to_lowercase();
        if self.group.is_empty() { format!("{kind}/{name}") } else { format!("{kind}.{}/{name}", self.group) }
    }
}

/// The plural as authors of APIs form it.
fn plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    // A resource that is named like its kind: the one of Kubernetes' own that has no other plural.
    if name == "endpoints" {
        return name;
    }
    if ["s", "x", "z", "ch", "sh"].iter().any(|ending| name.ends_with(ending)) {
        return name + "es";
    }
    match name.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => name + "s",
    }
}

/// A text in an object's metadata, empty if it is not there.
pub fn metadata<'o>(object: &'o Value, field: &str) -> &'o str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// A text in an object, empty if it is not there.
pub fn text<'o>(object: &'o Value, at: &str) -> &'o str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

pub fn number(object: &Value, at: &str) -> Option<u64> {
    object.pointer(at).and_then(Value::as_u64)
}

/// The items of a list in an object, none if it is not there.
pub fn items<'o>(object: &'o Value, at: &str) -> impl Iterator<Item = &'o Value> + use<'o> {
    object.pointer(at).and_then(Value::as_array).into_iter().flatten()
}

/// The longest reference to a controller: its kind has 63 letters at most, its name and API version 253 each.
pub const LONGEST_REFERENCE: usize = 1_024;

/// The controller among an object's owners. A longer reference is to nothing, but API servers accept names of a megabyte.
pub fn controller_of(object: &Value) -> Option<&Value> {
    let controller = items(object, "/metadata/ownerReferences").find(|owner| owner["controller"] == true)?;
    (controller.to_string().len() <= LONGEST_REFERENCE).then_some(controller)
}

/// Removes all other fields. The page, which is downloaded, has the code of it once.
pub fn keep(fields: &mut Map<String, Value>, is_kept: &mut dyn FnMut(&str, &mut Value) -> bool) {
    fields.retain(|name, value| is_kept(name, value));
}

pub fn set(object: &mut Value, field: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(field.to_owned(), value);
    }
}

pub fn labels_of(object: &Value) -> Labels {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

/// Amounts by name, as a quota's status has them; nothing for what is no amount.
pub fn amounts_at(object: &Value, at: &str) -> ResourceList<'static> {
    let amounts = object.pointer(at).and_then(Value::as_object);
    let pair = |(name, amount): (&String, &Value)| Some((name.clone().into(), amount.as_str()?.parse().ok()?));
    amounts.into_iter().flatten().filter_map(pair).collect()
}

/// The consumers that a TenantQuota's status names, under `/status/namespaces` or `/status/children`, each with what it uses of
/// a resource.
pub fn shares_at<'o>(
    quota: &'o Value,
    at: &str,
    resource: &'o str,
) -> impl Iterator<Item = (String, Quantity)> + use<'o> {
    items(quota, at).filter_map(move |share| {
        let amount = share.get("used")?.get(resource)?.as_str()?.parse().ok()?;
        Some((share.get("name")?.as_str()?.to_owned(), amount))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_does() {
        assert_eq!(ApiKind::new("v1", "Pod").object_name("db-0"), "pod/db-0");
        assert_eq!(ApiKind::new("apps/v1", "Deployment").object_name("web"), "deployment.apps/web");
        assert_eq!(ApiKind::new("networking.k8s.io/v1", "NetworkPolicy").plural, "networkpolicies");
        assert!(!ApiKind::new("v1", "Namespace").is_namespaced);
    }
}
