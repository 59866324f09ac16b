//! The objects and lists to read for a request, as calls to the policy host.
//!
//! A policy host keeps one watch for ever for each distinct list query, and replayed sessions need the same calls in
//! the same order. So the field masks are constant, and [`crate::evaluation`] fixes the order.
//!
//! One object is read as a list of it, too: Kubewarden answers `get_resource` for one request after the other behind one
//! lock, asks the API server every five seconds, and if one of these calls hangs, every request does.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use super::usage::profile_layout::{API_VERSION, KIND, ProfileKey, ProfileName, ProfileParts};
use crate::find;
use crate::json::{Document, Part};

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
    UsageProfile {
        name: ProfileName,
        namespace: Cow<'d, str>,
        places: Vec<Rc<ProfileKey>>,
        /// The namespace whose own history is wanted.
        of: &'d str,
        parts: ProfileParts,
    },
}

/// A lookup as a call to the host: for a list, or for one object by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCall<'l> {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// None for cluster-scoped objects.
    pub namespace: Option<&'l str>,
    /// The one object's name; none for all objects.
    pub name: Option<Cow<'l, str>>,
    pub field_masks: &'static [&'static str],
    /// True if the API server has to be asked for the object. Otherwise it is listed, so that the host watches it.
    pub is_live: bool,
}

impl Lookup<'_> {
    pub fn call(&self) -> HostCall<'_> {
        let (api_version, kind, namespace, name, field_masks): (_, _, _, _, &[&str]) = match self {
            Self::Namespace { name } => ("v1", "Namespace", None, Some(Cow::Borrowed(*name)), &["metadata"]),
            Self::LimitRanges { namespace } => ("v1", "LimitRange", Some(*namespace), None, &["spec.limits"]),
            Self::Quotas { namespace } => ("v1", "ResourceQuota", Some(*namespace), None, &QUOTA),
            Self::TenantQuotas => (API_VERSION, "TenantQuota", None, None, &TENANT_QUOTA),
            Self::FreshQuota { namespace, name } => {
                ("v1", "ResourceQuota", Some(*namespace), Some(Cow::Borrowed(name.as_ref())), &QUOTA)
            }
            Self::Scaled { api_version, kind, namespace, name } => {
                (*api_version, *kind, Some(*namespace), Some(Cow::Borrowed(*name)), &SCALED)
            }
            Self::Autoscalers { namespace } => {
                let masks = &["spec.metrics", "spec.scaleTargetRef"];
                ("autoscaling/v2", "HorizontalPodAutoscaler", Some(*namespace), None, masks)
            }
            Self::DeviceClasses => (RESOURCE_API, "DeviceClass", None, None, &["spec.extendedResourceName"]),
            Self::PodOfClaim { namespace, name } => {
                let masks = &["metadata.uid", "spec.containers", "spec.initContainers", "spec.overhead", "status"];
                ("v1", "Pod", Some(*namespace), Some(Cow::Borrowed(name.as_ref())), masks)
            }
            Self::ResourceClaims { namespace } => {
                let masks = &["metadata.annotations", "metadata.creationTimestamp", "metadata.ownerReferences"];
                (RESOURCE_API, "ResourceClaim", Some(*namespace), None, masks)
            }
            Self::UsageProfile { name, namespace, .. } => {
                (API_VERSION, KIND, Some(namespace.as_ref()), Some(Cow::Owned(name.to_string())), &["spec"])
            }
        };
        // There are ever new names of workloads and pods, and a host keeps each watch for ever.
        let is_live = matches!(self, Self::FreshQuota { .. } | Self::Scaled { .. } | Self::PodOfClaim { .. });
        HostCall { api_version, kind, namespace, name, field_masks, is_live }
    }

    /// Reads the host's answer. Of an object that was listed, only what is needed is read.
    pub(crate) fn read(&self, answer: Vec<u8>) -> Result<Document<'static>, String> {
        let object = match self {
            Self::UsageProfile { places, of, parts, .. } => {
                Document::own_first_item(answer, &mut parts.chooser(places, of)).transpose()
            }
            Self::Namespace { .. } => Document::own_first_item(answer, &mut |_, _| Part::Whole).transpose(),
            _ => Some(Document::own(answer)),
        };
        match (object, self) {
            (Some(object), _) => object.map_err(|error| error.to_string()),
            // The host's own words for an object that it cannot get.
            (None, Self::Namespace { name }) => {
                Err(["Cannot find v1/Namespace named '", name, "' inside of namespace 'None'"].concat())
            }
            (None, _) => Err(NOT_LISTED.to_owned()),
        }
    }

    /// True if a failure only means that the object or kind does not exist: a cluster without a collector, a quota or a
    /// pod that was deleted.
    pub(super) fn is_absent(&self, problem: &str) -> bool {
        let is_not_found = find::contains(problem, NOT_FOUND);
        let kind_is_unknown = || {
            find::contains(problem, "error finding resource")
                && ["404", "not found", "could not find"].iter().any(|sign| find::contains(problem, sign))
        };
        match self {
            Self::UsageProfile { .. } => is_not_found || kind_is_unknown(),
            Self::FreshQuota { .. } | Self::PodOfClaim { .. } => is_not_found,
            // The settings say if the cluster has the others: no answer of the host may lift what they guard.
            _ => false,
        }
    }

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

const QUOTA: [&str; 4] = ["spec.scopeSelector", "spec.scopes", "status.hard", "status.used"];

const SCALED: [&str; 3] = ["spec.template", "spec.volumeClaimTemplates", "status.terminatingReplicas"];

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

/// The problem with an object that is not in its list.
const NOT_LISTED: &str = "Cannot find it";

/// It stands in the words of all hosts for an object that is not there.
pub(super) const NOT_FOUND: &str = "Cannot find";

/// The version that has extended resource names.
const RESOURCE_API: &str = "resource.k8s.io/v1";

/// A lookup that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing<'d> {
    pub lookup: Lookup<'d>,
    pub problem: String,
    /// True if the host answered, and the problem is in the answer.
    pub was_found: bool,
}

/// The alternate form is that of warnings, which is shorter than that of refusals.
impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = self.lookup.call();
        let verb = match &call.name {
            _ if self.was_found => "read",
            Some(_) => "get",
            None => "list",
        };
        write!(f, "cannot {verb} {}", call.kind)?;
        match (&call.name, call.namespace) {
            (Some(name), _) => write!(f, " `{name}`")?,
            (None, Some(namespace)) => write!(f, " in namespace `{namespace}`")?,
            (None, None) => {}
        }
        let (consequence, problem) = (self.lookup.consequence(), &self.problem);
        match (self.was_found, f.alternate()) {
            (true, false) => write!(f, ": {problem}"),
            (true, true) => write!(f, ", so {consequence}: {problem}"),
            // The problem comes last, because it may be long.
            (false, true) => write!(f, ", so {consequence} (check `contextAwareResources` and RBAC): {problem}"),
            (false, false) => write!(
                f,
                ", so {consequence}: {problem} (likely causes: the policy is a namespaced AdmissionPolicy; \
                 `contextAwareResources` does not list {}; the policy server's service account may not {verb} it)",
                call.kind
            ),
        }
    }
}
