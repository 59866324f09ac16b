//! Where each kind keeps its pod, and the pod's resources read from there.
//!
//! A pod is read as a view: what matters is taken out, and each part remembers its place in the request's own
//! text, so that a value we set later is written there and nothing else moves.

use std::borrow::Cow;
use std::fmt;

use super::Request;
use crate::amount::{ByResource, Quantity, ResourceList, read_quantity};
use crate::json::{Malformed, Node};

/// A kind that makes pods: its API groups, its plural name and the way from the object to the pod in it.
struct PodMaker {
    groups: &'static [&'static str],
    resource: &'static str,
    path: &'static [&'static str],
}

/// Any served version of a kind keeps its pod in the same place, so versions do not matter here.
const POD_MAKERS: [PodMaker; 8] = [
    PodMaker { groups: &[""], resource: "pods", path: &[] },
    PodMaker { groups: &["apps", "extensions"], resource: "deployments", path: &["spec", "template"] },
    PodMaker { groups: &["apps", "extensions"], resource: "replicasets", path: &["spec", "template"] },
    PodMaker { groups: &["apps", "extensions"], resource: "daemonsets", path: &["spec", "template"] },
    PodMaker { groups: &["apps"], resource: "statefulsets", path: &["spec", "template"] },
    PodMaker { groups: &["batch"], resource: "jobs", path: &["spec", "template"] },
    PodMaker { groups: &["batch"], resource: "cronjobs", path: &["spec", "jobTemplate", "spec", "template"] },
    PodMaker { groups: &[""], resource: "replicationcontrollers", path: &["spec", "template"] },
];

/// Where the pod of a request stands: the path to it in the object, or none if its kind makes no pods.
pub fn path_to_pod(request: &Request<'_>) -> Option<&'static [&'static str]> {
    let maker = POD_MAKERS.iter().find(|maker| maker.resource == request.resource);
    maker.filter(|maker| maker.groups.contains(&request.group.as_ref())).map(|maker| maker.path)
}

/// A pod, or the pod that a controller would make.
#[derive(Debug, Clone)]
pub struct PodTemplate<'d> {
    /// The object that has `metadata` and `spec`.
    pub node: Node<'d>,
    pub spec: Node<'d>,
    pub annotations: Option<Node<'d>>,
    /// In the order in which Kubernetes speaks of them: containers, then init containers.
    pub containers: Vec<Container<'d>>,
    /// Pod-level resources, which replace the sum over the containers name by name.
    pub resources: Resources<'d>,
    pub overhead: ResourceList<'d>,
}

/// One container.
#[derive(Debug, Clone)]
pub struct Container<'d> {
    pub node: Node<'d>,
    pub name: Cow<'d, str>,
    pub image: Cow<'d, str>,
    pub role: Role,
    pub resources: Resources<'d>,
    /// Estimates beside what the author set, which stays.
    pub told: ByResource<'d, Value<'d>>,
}

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Main,
    /// Runs to its end before the main containers start.
    Init,
    /// An init container that is restarted for ever: a sidecar.
    Sidecar,
}

impl Role {
    /// What Kubernetes calls such a container.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Main => "container",
            Self::Init | Self::Sidecar => "init container",
        }
    }
}

/// Requests and limits.
#[derive(Debug, Clone, Default)]
pub struct Resources<'d> {
    pub requests: ByResource<'d, Value<'d>>,
    pub limits: ByResource<'d, Value<'d>>,
}

/// Request or limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    Request,
    Limit,
}

impl Bound {
    /// The field that holds such values.
    pub fn field(self) -> &'static str {
        match self {
            Self::Request => "requests",
            Self::Limit => "limits",
        }
    }

    pub fn noun(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Limit => "limit",
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}

/// An amount and who spoke it.
#[derive(Debug, Clone)]
pub struct Value<'d> {
    pub quantity: Quantity,
    pub origin: Origin<'d>,
}

/// Who spoke a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin<'d> {
    /// The person who wrote the object, as far as anyone can tell. Never changed.
    Author,
    /// What the API server makes of an author's limit without a request: a request of the same amount.
    AuthorsLimit,
    /// The API server's own LimitRanger, before us. May be replaced.
    LimitRanger,
    /// We ourselves, when we judged this object before; with the reason we gave then.
    Earlier(Cow<'d, str>),
    /// What the image has used before: which history, and which were looked at in vain. Without the latter in `{:#}`.
    Estimate { basis: String, passed_over: String },
    /// The default of a LimitRange or of a rule of the settings; its name.
    Default(RangeName<'d>),
    /// A default limit that stood below the request, raised to it; and whose default it was, where that is known.
    Repaired { from: Quantity, range: Option<RangeName<'d>> },
}

impl Origin<'_> {
    /// Whether the value is new: decided now, and to be written into the object.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::Estimate { .. } | Self::Default(_) | Self::Repaired { .. })
    }

    /// Whether the value is an author's, directly or by what the API server derives from it.
    pub fn is_authored(&self) -> bool {
        matches!(self, Self::Author | Self::AuthorsLimit)
    }
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Author => f.write_str("what the author wrote"),
            Self::AuthorsLimit => f.write_str("copied from the author's limit"),
            Self::LimitRanger => f.write_str("put in by the API server's LimitRanger"),
            Self::Earlier(reason) => f.write_str(reason),
            Self::Estimate { basis, passed_over } => {
                f.write_str(basis)?;
                if passed_over.is_empty() || f.alternate() { Ok(()) } else { write!(f, "; passed over: {passed_over}") }
            }
            Self::Default(range) => write!(f, "default of {range}"),
            Self::Repaired { from, range: Some(range) } => {
                write!(f, "raised to the request from {from}, the default of {range}")
            }
            Self::Repaired { from, range: None } => write!(f, "raised to the request from the default {from}"),
        }
    }
}

/// A LimitRange of the cluster or a rule of the settings, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeName<'d> {
    LimitRange(Cow<'d, str>),
    Rule(Cow<'d, str>),
}

impl fmt::Display for RangeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitRange(name) => write!(f, "LimitRange {name}"),
            Self::Rule(name) => write!(f, "rule {name}"),
        }
    }
}

impl<'d> Resources<'d> {
    pub fn of(&self, bound: Bound) -> &ByResource<'d, Value<'d>> {
        match bound {
            Bound::Request => &self.requests,
            Bound::Limit => &self.limits,
        }
    }

    pub fn of_mut(&mut self, bound: Bound) -> &mut ByResource<'d, Value<'d>> {
        match bound {
            Bound::Request => &mut self.requests,
            Bound::Limit => &mut self.limits,
        }
    }

    pub fn quantity(&self, bound: Bound, name: &str) -> Option<&Quantity> {
        self.of(bound).get(name).map(|value| &value.quantity)
    }

    /// Reads the `resources` of a container or of a pod spec.
    fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let mut resources = Self::default();
        for bound in [Bound::Request, Bound::Limit] {
            let Some(list) = node.get(bound.field())? else { continue };
            for (name, value) in list.fields()? {
                let quantity = read_quantity(value)?;
                resources.of_mut(bound).set(name.str()?, Value { quantity, origin: Origin::Author });
            }
        }
        Ok(resources)
    }
}

impl<'d> PodTemplate<'d> {
    /// The pod of a request; none if the kind makes no pods.
    pub(super) fn locate(request: &Request<'d>) -> Result<Option<Self>, Malformed> {
        match (path_to_pod(request), request.object) {
            (Some(path), Some(object)) => Self::within(object, path),
            _ => Ok(None),
        }
    }

    /// The pod at the end of `path` in an object. A template that is absent is none: the API server refuses it.
    pub fn within(object: Node<'d>, path: &[&str]) -> Result<Option<Self>, Malformed> {
        object.at(path)?.map(Self::read).transpose()
    }

    /// Reads a pod from the object that has `metadata` and `spec`.
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let spec = node.get("spec")?.ok_or_else(|| node.wrong("`spec` is missing"))?;
        let mut containers = Vec::new();
        for (field, is_init) in [("containers", false), ("initContainers", true)] {
            for container in spec.list(field)? {
                containers.push(Container::read(container, is_init)?);
            }
        }
        Ok(Self {
            node,
            spec,
            annotations: node.at(&["metadata", "annotations"])?,
            containers,
            resources: spec.get("resources")?.map_or_else(|| Ok(Resources::default()), Resources::read)?,
            overhead: ResourceList::in_field(spec, "overhead")?,
        })
    }

    /// The pod as we would meet it: one in a template has not been through the API server yet.
    pub fn as_the_api_server_completes_it(mut self, request: &Request<'_>) -> Self {
        if path_to_pod(request).is_some_and(|path| !path.is_empty()) {
            self.copy_limits_to_requests();
        }
        self
    }

    /// What the API server makes of a new pod: a limit without a request is a request of the same amount.
    fn copy_limits_to_requests(&mut self) {
        for container in &mut self.containers {
            let Resources { requests, limits } = &mut container.resources;
            for (name, limit) in limits.iter() {
                if !requests.contains(name) {
                    let quantity = limit.quantity.clone();
                    requests.set(name.clone(), Value { quantity, origin: Origin::AuthorsLimit });
                }
            }
        }
    }

    /// An annotation of the pod.
    pub fn annotation(&self, name: &str) -> Result<Option<Cow<'d, str>>, Malformed> {
        let annotation = self.annotations.map(|annotations| annotations.get(name)).transpose()?.flatten();
        annotation.map(Node::str).transpose()
    }
}

impl<'d> Container<'d> {
    fn read(node: Node<'d>, is_init: bool) -> Result<Self, Malformed> {
        let mut container = Self {
            node,
            name: Cow::Borrowed(""),
            image: Cow::Borrowed(""),
            role: if is_init { Role::Init } else { Role::Main },
            resources: Resources::default(),
            told: ByResource::default(),
        };
        for (key, value) in node.fields()?.filter(|(_, value)| !value.is_null()) {
            match key.str()?.as_ref() {
                "name" => container.name = value.str()?,
                "image" => container.image = value.str()?,
                "resources" => container.resources = Resources::read(value)?,
                "restartPolicy" if is_init && value.str()? == "Always" => container.role = Role::Sidecar,
                _ => {}
            }
        }
        Ok(container)
    }
}
