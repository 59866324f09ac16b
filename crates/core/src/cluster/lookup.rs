//! The objects and lists to read for a request, as calls to the policy host.
//!
//! A policy host keeps one watch for ever for each distinct list query, and replayed sessions need the same calls in
//! the same order. So the field masks are constant, and [`crate::evaluation`] fixes the order.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use super::usage::profile_layout::{API_VERSION, KIND, ProfileKey, ProfileName};

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
    /// For the quotas that the namespace shares with other namespaces.
    TenantQuotas,
    /// A quota of that list again, with live usage.
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
    /// To leave out estimates of requests that an autoscaler scales by.
    Autoscalers {
        namespace: &'d str,
    },
    /// For the extended resources of device classes.
    DeviceClasses,
    /// The pod that a resource claim was made for, which was charged already.
    PodOfClaim {
        namespace: &'d str,
        name: Cow<'d, str>,
    },
    /// To find out which of several claims was made for a pod first.
    ResourceClaims {
        namespace: &'d str,
    },
    /// The usage history of images.
    UsageProfile {
        name: ProfileName,
        namespace: Cow<'d, str>,
        /// The places of the images.
        places: Vec<Rc<ProfileKey>>,
        /// The namespace whose own history is wanted.
        of: &'d str,
        field_masks: Vec<String>,
    },
}

/// A lookup as a call to the host: for a list, or for one object by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCall<'l> {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// None for cluster-scoped objects.
    pub namespace: Option<&'l str>,
    /// The one object's name; none for a list.
    pub name: Option<Cow<'l, str>>,
    pub field_masks: Vec<Cow<'l, str>>,
    /// True if the host must not answer from its cache.
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
            Self::PodOfClaim { namespace, name } => {
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
        // There are ever new names of workloads and pods, and a host may keep cached objects for ever.
        let disable_cache = matches!(self, Self::FreshQuota { .. } | Self::Scaled { .. } | Self::PodOfClaim { .. });
        HostCall { api_version, kind, namespace, name, field_masks, disable_cache }
    }

    /// True if a failure only means that the object or kind does not exist: a cluster without a collector, a quota or a
    /// pod that was deleted.
    pub(super) fn is_absent(&self, problem: &str) -> bool {
        let is_not_found = problem.contains("Cannot find");
        let kind_is_unknown = || {
            problem.contains("error finding resource")
                && ["404", "not found", "could not find"].iter().any(|sign| problem.contains(sign))
        };
        match self {
            Self::UsageProfile { .. } => is_not_found || kind_is_unknown(),
            Self::FreshQuota { .. } | Self::PodOfClaim { .. } => is_not_found,
            // Older clusters have no device classes of this version, and so none with an extended resource. A cluster
            // without the ledger has no TenantQuotas.
            Self::DeviceClasses | Self::TenantQuotas => kind_is_unknown(),
            Self::Namespace { .. }
            | Self::LimitRanges { .. }
            | Self::Quotas { .. }
            | Self::Scaled { .. }
            | Self::Autoscalers { .. }
            | Self::ResourceClaims { .. } => false,
        }
    }

    /// The consequence of a failed lookup.
    fn consequence(&self) -> &'static str {
        match self {
            Self::Namespace { .. } => "namespace selectors match nothing, and the namespace's estimate mode is unknown",
            Self::LimitRanges { .. } => "LimitRanges are not applied",
            Self::Quotas { .. } => "ResourceQuotas are not applied",
            Self::TenantQuotas => "the pods are not checked against TenantQuotas",
            Self::FreshQuota { .. } => "falling back to cached usage",
            Self::Scaled { .. } => "the new pods are not checked against the namespace's ResourceQuotas",
            Self::Autoscalers { .. } => "estimates ignore the namespace's autoscalers",
            Self::DeviceClasses => "devices are not charged as extended resources",
            Self::PodOfClaim { .. } | Self::ResourceClaims { .. } => "the claim is charged in full",
            Self::UsageProfile { .. } => "usage history is ignored",
        }
    }
}

/// The fields that are read of a TenantQuota.
const TENANT_QUOTA: [&str; 8] = [
    "spec.namespaces",
    "spec.parent",
    "spec.quota.scopeSelector",
    "spec.quota.scopes",
    "status.exemptNamespaces",
    "status.hard",
    "status.reserved",
    "status.used",
];

/// The version that has extended resource names.
const RESOURCE_API: &str = "resource.k8s.io/v1";

/// A lookup that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing<'d> {
    pub lookup: Lookup<'d>,
    pub problem: String,
}

impl Missing<'_> {
    /// The text of a warning, which is shorter than that of a refusal.
    pub fn warning(&self) -> String {
        format!("{self:#}")
    }
}

/// The alternate form is that of warnings.
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
        write!(f, ", so {}", self.lookup.consequence())?;
        if f.alternate() {
            // The problem comes last, because it may be long.
            return write!(f, " (check `contextAwareResources` and RBAC): {}", self.problem);
        }
        write!(
            f,
            ": {} (likely causes: the policy is a namespaced AdmissionPolicy; `contextAwareResources` does not list {}; \
             the policy server's service account may not {verb} it)",
            self.problem, call.kind
        )
    }
}
