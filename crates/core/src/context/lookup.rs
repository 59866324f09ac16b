//! The objects that a request's judgement needs, as calls that a policy host answers.
//!
//! A policy host keeps one watch for ever for each distinct list query, and replayed sessions want the same calls
//! in the same order. So the order is fixed, the field masks are constant, and a call is made only when a
//! subsystem that is switched on needs it.

use std::fmt;

use crate::request::Request;
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
}

/// A lookup as a call to the host: a list of a namespace, or one object by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCall<'d> {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub namespace: Option<&'d str>,
    /// The one object's name; none for a list.
    pub name: Option<&'d str>,
    pub field_masks: Vec<String>,
}

impl<'d> Lookup<'d> {
    /// Everything that judging `request` needs, in the order in which it is to be read.
    pub fn all(request: &'d Request<'d>, settings: &Settings<'_>) -> Vec<Lookup<'d>> {
        let mut lookups = Vec::new();
        let Some(subject) = Subject::of(request) else { return lookups };
        if settings.selects_by_namespace_labels() {
            lookups.push(Lookup::Namespace { name: &request.namespace });
        }
        if subject.mode(&settings.limit_ranges) != Mode::Off {
            lookups.push(Lookup::LimitRanges { namespace: &request.namespace });
        }
        lookups
    }

    pub fn call(&self) -> HostCall<'d> {
        let (kind, namespace, name, masks): (_, _, _, &[&str]) = match self {
            Self::Namespace { name } => ("Namespace", None, Some(*name), &["metadata.annotations", "metadata.labels"]),
            Self::LimitRanges { namespace } => ("LimitRange", Some(*namespace), None, &["spec.limits"]),
        };
        let field_masks = masks.iter().map(ToString::to_string).collect();
        HostCall { api_version: "v1", kind, namespace, name, field_masks }
    }

    /// What is not judged without the answer.
    fn consequence(&self) -> &'static str {
        match self {
            Self::Namespace { .. } => "selectors by namespace labels are not applied",
            Self::LimitRanges { .. } => "the namespace's LimitRanges are not applied",
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
