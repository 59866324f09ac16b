//! The objects that a request's judgement needs, as calls that a policy host answers.
//!
//! A policy host keeps one watch for ever for each distinct list query, and replayed sessions want the same calls
//! in the same order. So the order is fixed, the field masks are constant, and a call is made only when a
//! subsystem that is switched on needs it.

use std::borrow::Cow;
use std::fmt;

use crate::order;
use crate::request::{Request, workload};
use crate::settings::{Mode, Settings};
use crate::subject::Subject;

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
}

/// The most quotas that are read again for one request.
const FRESH_AT_MOST: usize = 8;

/// A lookup as a call to the host: a list of a namespace, or one object by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCall<'l> {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub namespace: Option<&'l str>,
    /// The one object's name; none for a list.
    pub name: Option<&'l str>,
    pub field_masks: Vec<String>,
    /// Whether the host must not answer with what it read before.
    pub disable_cache: bool,
}

impl<'d> Lookup<'d> {
    /// Everything that judging `request` needs, in the order in which it is to be read.
    pub fn all(request: &'d Request<'d>, settings: &Settings<'_>) -> Vec<Lookup<'d>> {
        let mut lookups = Vec::new();
        let Some(subject) = Subject::of(request) else { return lookups };
        if settings.selects_by_namespace_labels() {
            lookups.push(Lookup::Namespace { name: &request.namespace });
        }
        let judges_pods = subject.pods_quota_mode(&settings.quotas) != Mode::Off
            // OK to go on with what cannot be read: the decision reads it again, and refuses it.
            && workload::rollout(request).map_or(true, |rollout| rollout.is_some());
        let fills_pods = judges_pods && settings.limit_ranges.mode != Mode::Off;
        if subject.mode(&settings.limit_ranges) != Mode::Off || fills_pods {
            lookups.push(Lookup::LimitRanges { namespace: &request.namespace });
        }
        let judges_object = subject != Subject::ClaimStatus; // Nothing is refused there.
        if judges_object && subject.quota_mode(request, &settings.quotas) != Mode::Off || judges_pods {
            lookups.push(Lookup::Quotas { namespace: &request.namespace });
        }
        if subject == Subject::Scale && judges_pods {
            lookups.extend(Self::scaled(request));
        }
        lookups
    }

    /// What to read again: quotas that the first answers show close to their bounds. Sorted, and bounded.
    pub fn again(request: &'d Request<'d>, doubtful_quotas: &[Cow<'d, str>]) -> Vec<Lookup<'d>> {
        let mut names: Vec<&Cow<'d, str>> = doubtful_quotas.iter().take(FRESH_AT_MOST).collect();
        order::sort_by(&mut names, |a, b| a.cmp(b));
        let fresh = |name: &Cow<'d, str>| Self::FreshQuota { namespace: &request.namespace, name: name.clone() };
        names.into_iter().map(fresh).collect()
    }

    fn scaled(request: &'d Request<'d>) -> Option<Self> {
        let (api_version, kind) = match request.resource.as_ref() {
            "deployments" => ("apps/v1", "Deployment"),
            "replicasets" => ("apps/v1", "ReplicaSet"),
            "statefulsets" => ("apps/v1", "StatefulSet"),
            "replicationcontrollers" => ("v1", "ReplicationController"),
            _ => return None,
        };
        Some(Self::Scaled { api_version, kind, namespace: &request.namespace, name: &request.name })
    }

    pub fn call(&self) -> HostCall<'_> {
        const QUOTA: &[&str] = &["spec.scopeSelector", "spec.scopes", "status.hard", "status.used"];
        let core = "v1";
        let (api_version, kind, namespace, name, masks): (_, _, Option<&str>, Option<&str>, &[&str]) = match self {
            Self::Namespace { name } => {
                (core, "Namespace", None, Some(*name), &["metadata.annotations", "metadata.labels"])
            }
            Self::LimitRanges { namespace } => (core, "LimitRange", Some(*namespace), None, &["spec.limits"]),
            Self::Quotas { namespace } => (core, "ResourceQuota", Some(*namespace), None, QUOTA),
            Self::FreshQuota { namespace, name } => {
                (core, "ResourceQuota", Some(*namespace), Some(name.as_ref()), QUOTA)
            }
            Self::Scaled { api_version, kind, namespace, name } => {
                (*api_version, *kind, Some(*namespace), Some(*name), &["spec.template"])
            }
        };
        let field_masks = masks.iter().map(ToString::to_string).collect();
        // Names of workloads are without end, and a host may keep for ever what it caches.
        let disable_cache = matches!(self, Self::FreshQuota { .. } | Self::Scaled { .. });
        HostCall { api_version, kind, namespace, name, field_masks, disable_cache }
    }

    /// What is not judged without the answer.
    fn consequence(&self) -> &'static str {
        match self {
            Self::Namespace { .. } => "selectors by namespace labels are not applied",
            Self::LimitRanges { .. } => "the namespace's LimitRanges are not applied",
            Self::Quotas { .. } => "the namespace's ResourceQuotas are not applied",
            Self::FreshQuota { .. } => "the quota is judged by what the host's watch knew of it",
            Self::Scaled { .. } => "the new pods are not held against the namespace's ResourceQuotas",
        }
    }
}

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
        match (call.name, call.namespace) {
            (Some(name), _) => write!(f, " `{name}`")?,
            (None, Some(namespace)) => write!(f, " in namespace `{namespace}`")?,
            (None, None) => {}
        }
        write!(
            f,
            ", so {}: {} (likely causes: the policy is a namespaced AdmissionPolicy; `contextAwareResources` or \
             `hostCapabilities` lack {}; the policy server's service account may not {verb} it)",
            self.lookup.consequence(),
            self.problem,
            call.kind
        )
    }
}
