//! The objects that a request's judgement needs, as calls that a policy host answers.
//!
//! A policy host keeps one watch for ever for each distinct list query, and replayed sessions want the same calls
//! in the same order. So the order is fixed, the field masks are constant, and a call is made only when a
//! subsystem that is switched on needs it.

use std::borrow::Cow;
use std::fmt;

use super::Context;
use super::usage::address::{API_VERSION, KIND, Place, Scope};
use crate::json::Malformed;
use crate::order;
use crate::request::{Request, workload};
use crate::settings::{Mode, Settings};
use crate::stage::{authored, estimate};
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
    /// For leaving alone what an autoscaler scales by.
    Autoscalers {
        namespace: &'d str,
    },
    /// What images have used before, of the namespace or of a share of all.
    UsageProfile {
        scope: Scope,
        namespace: Cow<'d, str>,
        /// Of the images concerned.
        places: Vec<Place>,
        field_masks: Vec<String>,
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
    pub name: Option<Cow<'l, str>>,
    pub field_masks: Vec<Cow<'l, str>>,
    /// Whether the host must not answer with what it read before.
    pub disable_cache: bool,
}

impl<'d> Lookup<'d> {
    /// Everything that judging `request` needs, in the order in which it is to be read.
    ///
    /// History comes after that, see [`WantedHistory`](super::wanted_history::WantedHistory).
    pub fn all(request: &'d Request<'d>, settings: &Settings<'_>) -> Vec<Lookup<'d>> {
        let mut lookups = Vec::new();
        let Some(subject) = Subject::of(request) else { return lookups };
        let wants_estimates = estimate::is_on(subject, settings) && wants_estimates(request, settings);
        if settings.selects_by_namespace_labels() || wants_estimates {
            lookups.push(Lookup::Namespace { name: &request.namespace });
        }
        let judges_pods = subject.pods_quota_mode(&settings.quotas) != Mode::Off
            // OK to go on with what cannot be read: the decision reads it again, and refuses it.
            && workload::rollout(request).map_or(true, |rollout| rollout.is_some());
        let fills_pods = judges_pods && settings.limit_ranges.mode != Mode::Off;
        if subject.mode(&settings.limit_ranges) != Mode::Off || fills_pods || wants_estimates {
            lookups.push(Lookup::LimitRanges { namespace: &request.namespace });
        }
        let judges_object = subject != Subject::ClaimStatus; // Nothing is refused there.
        if judges_object && subject.quota_mode(request, &settings.quotas) != Mode::Off || judges_pods {
            lookups.push(Lookup::Quotas { namespace: &request.namespace });
        }
        if subject == Subject::Scale && judges_pods {
            lookups.extend(Self::scaled(request));
        }
        if wants_estimates && settings.estimates.skip_autoscaled {
            lookups.push(Lookup::Autoscalers { namespace: &request.namespace });
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
        let constant = |masks: &[&'static str]| masks.iter().map(|mask| Cow::Borrowed(*mask)).collect();
        let quota = || constant(&["spec.scopeSelector", "spec.scopes", "status.hard", "status.used"]);
        let (api_version, kind, namespace, name, field_masks) = match self {
            Self::Namespace { name } => {
                let masks = constant(&["metadata.annotations", "metadata.labels"]);
                ("v1", "Namespace", None, Some(Cow::Borrowed(*name)), masks)
            }
            Self::LimitRanges { namespace } => ("v1", "LimitRange", Some(*namespace), None, constant(&["spec.limits"])),
            Self::Quotas { namespace } => ("v1", "ResourceQuota", Some(*namespace), None, quota()),
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
            Self::UsageProfile { scope, namespace, field_masks, .. } => {
                let name = Some(Cow::Owned(scope.object_name()));
                let masks = field_masks.iter().map(|mask| Cow::Borrowed(mask.as_str())).collect();
                (API_VERSION, KIND, Some(namespace.as_ref()), name, masks)
            }
        };
        // Names of workloads are without end, and a host may keep for ever what it caches.
        let disable_cache = matches!(self, Self::FreshQuota { .. } | Self::Scaled { .. });
        HostCall { api_version, kind, namespace, name, field_masks, disable_cache }
    }

    /// Whether a failure only says that there is no such thing: a namespace without history, or a cluster in which
    /// nobody collects any.
    pub(super) fn is_absent(&self, problem: &str) -> bool {
        let kind_is_unknown = problem.contains("error finding resource")
            && ["404", "not found", "could not find"].iter().any(|sign| problem.contains(sign));
        matches!(self, Self::UsageProfile { .. }) && (problem.contains("Cannot find") || kind_is_unknown)
    }

    /// What is not judged without the answer.
    fn consequence(&self) -> &'static str {
        match self {
            Self::Namespace { .. } => "its labels select nothing, and its choice of estimates is not known",
            Self::LimitRanges { .. } => "the namespace's LimitRanges are not applied",
            Self::Quotas { .. } => "the namespace's ResourceQuotas are not applied",
            Self::FreshQuota { .. } => "the quota is judged by what the host's watch knew of it",
            Self::Scaled { .. } => "the new pods are not held against the namespace's ResourceQuotas",
            Self::Autoscalers { .. } => "estimates are made whatever the namespace's autoscalers scale by",
            Self::UsageProfile { .. } => "estimates are made without it",
        }
    }
}

/// Whether any container lacks what an estimate could supply, as far as the request tells.
fn wants_estimates(request: &Request<'_>, settings: &Settings<'_>) -> bool {
    let wants = || -> Result<bool, Malformed> {
        let Some(pod) = request.pod()? else { return Ok(false) };
        let pod = authored::marked(pod.clone(), request, None)?;
        let mode = estimate::want::mode(&pod, &Context::default(), &settings.estimates, &mut Vec::new())?;
        Ok(!estimate::want::all(&pod, mode, &settings.estimates).is_empty())
    };
    // A request that cannot be read is refused by the decision, which says why.
    wants().unwrap_or(false)
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
        match (&call.name, call.namespace) {
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
