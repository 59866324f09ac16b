//! A pod, or the pod that a controller would create.
//!
//! A pod is read as a view: only the fields that matter are parsed, and each part keeps its place in the request's
//! text, so that a value we set later is written there and the rest stays as it is.

use std::borrow::Cow;

use super::origin::ValueOrigin;
use crate::amount::{ByResource, Quantity, Requirement, ResourceList, read_quantity};
use crate::json::{Malformed, Node};
use crate::sort;

#[derive(Debug, Clone)]
pub struct Pod<'d> {
    /// The object that has `metadata` and `spec`.
    pub node: Node<'d>,
    pub spec: Node<'d>,
    /// The trusted part of the status.
    pub status: Option<Node<'d>>,
    pub annotations: Option<Node<'d>>,
    /// In Kubernetes' order: containers, then init containers.
    pub containers: Vec<Container<'d>>,
    /// Pod-level resources, which replace the sum over the containers name by name.
    pub resources: Resources<'d>,
    pub overhead: ResourceList<'d>,
    pub infeasible_spec: InfeasibleSpec,
    /// True if a resize in progress counts by the largest amounts of each container, as up to Kubernetes 1.36.
    pub is_largest_by_container: bool,
}

/// The treatment of a spec whose resize the node has reported as infeasible.
///
/// The report is about an earlier spec, so Kubernetes, which always leaves the spec out, can be led past a quota by two
/// resizes: one that is infeasible, and while its report stands, any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfeasibleSpec {
    /// The object of a request: the node has not seen its spec.
    Counts,
    /// A stored object: the spec is left out if the report is about it.
    LeftOutIfReported,
    /// The object that a request replaces: the spec is left out, because the quota's usage may lack it.
    LeftOut,
}

#[derive(Debug, Clone)]
pub struct Container<'d> {
    pub node: Node<'d>,
    pub name: Cow<'d, str>,
    pub image: Cow<'d, str>,
    pub role: Role,
    pub resources: Resources<'d>,
    /// Estimates that are only reported, because the author set a value.
    pub reported: ByResource<'d, Value<'d>>,
}

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Main,
    /// Runs to its end before the main containers start.
    Init,
    /// An init container that is always restarted: a sidecar.
    Sidecar,
}

impl Role {
    /// Kubernetes' name for such a container.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Main => "container",
            Self::Init | Self::Sidecar => "init container",
        }
    }

    /// The same, but a sidecar by its own name.
    pub fn name(self) -> &'static str {
        if self == Self::Sidecar { "sidecar" } else { self.noun() }
    }

    pub fn is_init(self) -> bool {
        self != Self::Main
    }
}

#[derive(Debug, Clone, Default)]
pub struct Resources<'d> {
    pub requests: ByResource<'d, Value<'d>>,
    pub limits: ByResource<'d, Value<'d>>,
}

#[derive(Debug, Clone)]
pub struct Value<'d> {
    pub quantity: Quantity,
    pub origin: ValueOrigin<'d>,
}

/// True if a pod has a deadline. The quota scope `Terminating` means this, not deletion.
pub fn has_deadline(spec: Node<'_>) -> Result<bool, Malformed> {
    let deadline = spec.get("activeDeadlineSeconds")?.map(Node::integer).transpose()?;
    Ok(deadline.is_some_and(|seconds| seconds >= 0))
}

impl<'d> Resources<'d> {
    pub fn of(&self, requirement: Requirement) -> &ByResource<'d, Value<'d>> {
        match requirement {
            Requirement::Request => &self.requests,
            Requirement::Limit => &self.limits,
        }
    }

    pub fn of_mut(&mut self, requirement: Requirement) -> &mut ByResource<'d, Value<'d>> {
        match requirement {
            Requirement::Request => &mut self.requests,
            Requirement::Limit => &mut self.limits,
        }
    }

    pub fn quantity(&self, requirement: Requirement, name: &str) -> Option<&Quantity> {
        self.of(requirement).get(name).map(|value| &value.quantity)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.requests.contains(name) || self.limits.contains(name)
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }

    fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let list = |requirement: Requirement| -> Result<ByResource<'d, Value<'d>>, Malformed> {
            let Some(list) = node.get(requirement.field())? else { return Ok(ByResource::default()) };
            let value = |node| Ok(Value { quantity: read_quantity(node)?, origin: ValueOrigin::Author });
            ByResource::read_with(list, value)
        };
        Ok(Self { requests: list(Requirement::Request)?, limits: list(Requirement::Limit)? })
    }
}

impl<'d> Pod<'d> {
    /// Reads a pod from the object that has `metadata` and `spec`. `status` is the trusted part of its status.
    pub fn read(node: Node<'d>, status: Option<Node<'d>>) -> Result<Self, Malformed> {
        let spec = node.get("spec")?.ok_or_else(|| node.error("`spec` is missing"))?;
        let mut containers: Vec<Container<'d>> = Vec::new();
        for (field, is_init) in [("containers", false), ("initContainers", true)] {
            for container in spec.list(field)? {
                if containers.len() == MAX_CONTAINERS {
                    return Err(
                        spec.error(format!("more than {MAX_CONTAINERS} containers, which no API server stores"))
                    );
                }
                containers.push(Container::read(container, is_init)?);
            }
        }
        Ok(Self {
            node,
            spec,
            status,
            annotations: node.at(&["metadata", "annotations"])?,
            containers,
            resources: spec.get("resources")?.map_or_else(|| Ok(Resources::default()), Resources::read)?,
            overhead: ResourceList::in_field(spec, "overhead")?,
            infeasible_spec: InfeasibleSpec::LeftOutIfReported,
            is_largest_by_container: false,
        })
    }

    /// Copies the resources of another pod's containers by name; pod-level resources only where both pods have some.
    pub(super) fn take_resources_of(&mut self, other: Self) {
        let index = ContainerIndex::of(&self.containers);
        for container in other.containers {
            let place = index.find(&self.containers, container.role.is_init(), &container.name);
            if let Some(own) = place.and_then(|place| self.containers.get_mut(place)) {
                own.resources = container.resources;
            }
        }
        if !self.resources.is_empty() && !other.resources.is_empty() {
            self.resources = other.resources;
        }
    }

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
            reported: ByResource::default(),
        };
        for (key, value) in node.fields()? {
            match key.str()?.as_ref() {
                "name" => container.name = value.opt_str()?.unwrap_or_default(),
                "image" => container.image = value.opt_str()?.unwrap_or_default(),
                "resources" => {
                    container.resources = value.present().map(Resources::read).transpose()?.unwrap_or_default()
                }
                "restartPolicy" if is_init => {
                    let always = value.opt_str()?.is_some_and(|policy| policy == "Always");
                    container.role = if always { Role::Sidecar } else { Role::Init };
                }
                _ => {}
            }
        }
        Ok(container)
    }
}

/// More containers than fit into a stored object, with the fields that the API server adds to each.
const MAX_CONTAINERS: usize = 10_000;

/// Finds containers by name. Of several with one name it finds the first.
#[derive(Debug)]
pub struct ContainerIndex(Vec<usize>);

/// Up to this many containers a scan is cheaper than an index.
const FEW: usize = 8;

impl ContainerIndex {
    pub fn of(containers: &[Container<'_>]) -> Self {
        if containers.len() <= FEW {
            return Self(Vec::new());
        }
        let mut places: Vec<(usize, &Container<'_>)> = containers.iter().enumerate().collect();
        sort::by_text(&mut places, |(_, container)| &container.name);
        sort::by_number(&mut places, |(_, container)| container.role.is_init().into());
        Self(places.into_iter().map(|(place, _)| place).collect())
    }

    /// The place of a container among those that were indexed.
    pub fn find(&self, containers: &[Container<'_>], is_init: bool, name: &str) -> Option<usize> {
        let is_it = |container: &Container<'_>| container.role.is_init() == is_init && container.name == name;
        if self.0.is_empty() {
            return containers.iter().position(is_it);
        }
        let is_before = |have: &Container<'_>| (have.role.is_init(), &*have.name) < (is_init, name);
        let is_before = |place: &usize| containers.get(*place).is_some_and(is_before);
        let place = *self.0.get(self.0.partition_point(is_before))?;
        containers.get(place).filter(|found| is_it(found)).map(|_| place)
    }
}
