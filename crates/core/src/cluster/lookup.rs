//! What must be read of the cluster for a request: objects and lists, as calls that a policy host answers.
//!
//! A policy host keeps one watch for ever for each distinct list query, and replayed sessions want the same calls
//! in the same order. So the field masks are constant; the order is fixed by [`crate::inquiry`].

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::find;

use super::usage::address::{API_VERSION, KIND, Place, ProfileName};

/// One object or list to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<'d> {
    /// For selectors over the labels of namespaces.
    Namespace {
        name: &'d str,
    },
    LimitRanges {
        namespace: &'d str,
    },
    Quotas {
        namespace: &'d str,
    },
    /// For what the namespace shares with others.
    TenantQuotas,
    /// A quota of that list again, as it is now.
    FreshQuota {
        namespace: &'d str,
        name: Cow<'d, str>,
    },
    /// The workload that a `scale` is about, for its pod template.
    Scaled {
        api_version: &'static str,
        kind: &'static str,
        namespace: &'d str,
        name: &'d str,
    },
    /// For leaving alone what an autoscaler scales by.
    Autoscalers {
        namespace: &'d str,
    },
    /// For the extended resources that device classes stand for.
    DeviceClasses,
    /// The pod that a resource claim was made for, and was charged already.
    ClaimedFor {
        namespace: &'d str,
        name: Cow<'d, str>,
    },
    /// For which of several claims was made for a pod first.
    ResourceClaims {
        namespace: &'d str,
    },
    /// What images have used before.
    UsageProfile {
        name: ProfileName,
        namespace: Cow<'d, str>,
        /// Of the images concerned.
        places: Vec<Rc<Place>>,
        /// The namespace whose own history is wanted.
        of: &'d str,
        field_masks: Vec<String>,
    },
}

/// A lookup as a call to the host: a list, or one object by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCall<'l> {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// None for objects of the cluster.
    pub namespace: Option<&'l str>,
    /// The one object's name; none for a list.
    pub name: Option<Cow<'l, str>>,
    pub field_masks: Vec<Cow<'l, str>>,
    /// Whether the host must not answer with what it read before.
    pub disable_cache: bool,
}

impl Lookup<'_> {
    pub fn call(&self) -> HostCall<'_> {
        let constant = |masks: &[&'static str]| masks.iter().map(|mask| Cow::Borrowed(*mask)).collect();
        let quota = || constant(&["spec.scopeSelector", "spec.scopes", "status.hard", "status.used"]);
        let (api_version, kind, namespace, name, field_masks) = match self {
            Self::Namespace { name } => {
                let masks = constant(&["metadata.annotations", "metadata.labels"]);
                ("v1", "Namespace", None, Some(Cow::Borrowed(*name)), masks)
            }
            Self::LimitRanges { namespace } => ("v1", "LimitRange", Some(*namespace), None, constant(&["spec.limits"])),
            Self::Quotas { namespace } => ("v1", "ResourceQuota", Some(*namespace), None, quota()),
            Self::TenantQuotas => (API_VERSION, "TenantQuota", None, None, constant(&TENANT_QUOTA)),
            Self::FreshQuota { namespace, name } => {
                ("v1", "ResourceQuota", Some(*namespace), Some(Cow::Borrowed(name.as_ref())), quota())
            }
            Self::Scaled { api_version, kind, namespace, name } => {
                (*api_version, *kind, Some(*namespace), Some(Cow::Borrowed(*name)), constant(&["spec.template"]))
            }
            Self::Autoscalers { namespace } => {
                let masks = constant(&["spec.metrics", "spec.scaleTargetRef"]);
                ("autoscaling/v2", "HorizontalPodAutoscaler", Some(*namespace), None, masks)
            }
            Self::DeviceClasses => (RESOURCE_API, "DeviceClass", None, None, constant(&["spec.extendedResourceName"])),
            Self::ClaimedFor { namespace, name } => {
                let masks =
                    constant(&["metadata.uid", "spec.containers", "spec.initContainers", "spec.overhead", "status"]);
                ("v1", "Pod", Some(*namespace), Some(Cow::Borrowed(name.as_ref())), masks)
            }
            Self::ResourceClaims { namespace } => {
                let masks =
                    constant(&["metadata.annotations", "metadata.creationTimestamp", "metadata.ownerReferences"]);
                (RESOURCE_API, "ResourceClaim", Some(*namespace), None, masks)
            }
            Self::UsageProfile { name, namespace, field_masks, .. } => {
                let name = Some(Cow::Owned(name.to_string()));
                let masks = field_masks.iter().map(|mask| Cow::Borrowed(mask.as_str())).collect();
                (API_VERSION, KIND, Some(namespace.as_ref()), name, masks)
            }
        };
        // Names of workloads and pods are without end, and a host may keep for ever what it caches.
        let disable_cache = matches!(self, Self::FreshQuota { .. } | Self::Scaled { .. } | Self::ClaimedFor { .. });
        HostCall { api_version, kind, namespace, name, field_masks, disable_cache }
    }

    /// Whether a failure only says that there is no such thing: a cluster in which nobody collects history, a quota or a
    /// pod that was deleted.
    pub(super) fn is_absent(&self, problem: &str) -> bool {
        let is_not_found = find::contains(problem, "Cannot find");
        let kind_is_unknown = || {
            find::contains(problem, "error finding resource")
                && ["404", "not found", "could not find"].iter().any(|sign| find::contains(problem, sign))
        };
        match self {
            Self::UsageProfile { .. } => is_not_found || kind_is_unknown(),
            Self::FreshQuota { .. } | Self::ClaimedFor { .. } => is_not_found,
            // Older clusters have no device classes of this version, and so none that stands for an extended resource.
            // So is a cluster without the ledger one without such quotas.
            Self::DeviceClasses | Self::TenantQuotas => kind_is_unknown(),
            Self::Namespace { .. }
            | Self::LimitRanges { .. }
            | Self::Quotas { .. }
            | Self::Scaled { .. }
            | Self::Autoscalers { .. }
            | Self::ResourceClaims { .. } => false,
        }
    }

    /// What is not judged without the answer.
    fn consequence(&self) -> &'static str {
        match self {
            Self::Namespace { .. } => "namespace selectors match nothing, and the namespace's estimate mode is unknown",
            Self::LimitRanges { .. } => "the namespace's LimitRanges are not applied",
            Self::Quotas { .. } => "the namespace's ResourceQuotas are not applied",
            Self::TenantQuotas => "the pods are not checked against TenantQuotas",
            Self::FreshQuota { .. } => "falling back to cached usage",
            Self::Scaled { .. } => "the new pods are not checked against the namespace's ResourceQuotas",
            Self::Autoscalers { .. } => "estimates ignore the namespace's autoscalers",
            Self::DeviceClasses => "devices are not charged as extended resources",
            Self::ClaimedFor { .. } | Self::ResourceClaims { .. } => "the claim is charged in full",
            Self::UsageProfile { .. } => "usage history is ignored",
        }
    }
}

/// All that is read of a TenantQuota.
const TENANT_QUOTA: [&str; 7] = [
    "spec.namespaces",
    "spec.parent",
    "spec.quota.scopeSelector",
    "spec.quota.scopes",
    "status.hard",
    "status.reserved",
    "status.used",
];

/// The version that knows extended resource names.
const RESOURCE_API: &str = "resource.k8s.io/v1";

/// A lookup that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing<'d> {
    pub lookup: Lookup<'d>,
    pub problem: String,
}

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = self.lookup.call();
        let verb = if call.name.is_some() { "get" } else { "list" };
        write!(f, "cannot {verb} {}", call.kind)?;
        match (&call.name, call.namespace) {
            (Some(name), _) => write!(f, " `{name}`")?,
            (None, Some(namespace)) => write!(f, " in namespace `{namespace}`")?,
            (None, None) => {}
        }
        write!(
            f,
            ", so {}: {} (likely causes: the policy is a namespaced AdmissionPolicy; `contextAwareResources` does not \
             list {}; the policy server's service account may not {verb} it)",
            self.lookup.consequence(),
            self.problem,
            call.kind
        )
    }
}
