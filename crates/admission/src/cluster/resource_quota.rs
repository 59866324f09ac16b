//! ResourceQuotas, read from the API's JSON.
//!
//! Admission uses the usage and the bounds in the quota's status; only the quota controller and validation use the
//! bounds in the spec. See <https://kubernetes.io/docs/concepts/policy/resource-quotas/>.

pub mod validate;

use std::borrow::Cow;

use super::label_selector::{Operator, Requirement};
use crate::amount::ResourceList;
use crate::json::{Malformed, Node};
use crate::sort;

#[derive(Debug, Clone, Default)]
pub struct ResourceQuota<'d> {
    pub name: Cow<'d, str>,
    pub namespace: Cow<'d, str>,
    /// `spec.hard`: the desired bounds.
    pub spec_hard: ResourceList<'d>,
    /// `status.hard`: the bounds in force.
    pub hard: ResourceList<'d>,
    /// `status.used`
    pub used: ResourceList<'d>,
    /// `spec.scopes`
    pub scopes: Vec<Cow<'d, str>>,
    /// `spec.scopeSelector.matchExpressions`
    pub selector: Vec<Requirement<'d>>,
    /// True if it is a TenantQuota, which covers other namespaces too.
    pub is_tenant: bool,
}

impl<'d> ResourceQuota<'d> {
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let mut quota = Self::default();
        if let Some(metadata) = node.get("metadata")? {
            quota.name = metadata.string("name")?.unwrap_or_default();
            quota.namespace = metadata.string("namespace")?.unwrap_or_default();
        }
        if let Some(spec) = node.get("spec")? {
            quota.read_spec(spec)?;
        }
        if let Some(status) = node.get("status")? {
            quota.read_status(status)?;
        }
        Ok(quota)
    }

    pub(super) fn read_spec(&mut self, spec: Node<'d>) -> Result<(), Malformed> {
        self.spec_hard = amounts(spec, "hard")?;
        self.scopes = spec.list("scopes")?.map(Node::str).collect::<Result<_, _>>()?;
        if let Some(selector) = spec.get("scopeSelector")? {
            let expressions = selector.list("matchExpressions")?.map(|node| Requirement::read(node, "scopeName"));
            self.selector = expressions.collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    pub(super) fn read_status(&mut self, status: Node<'d>) -> Result<(), Malformed> {
        self.hard = amounts(status, "hard")?;
        self.used = amounts(status, "used")?;
        Ok(())
    }

    /// Reads a list of ResourceQuotas, in name order: the order in which they are reported.
    pub fn read_list(list: Node<'d>) -> Result<Vec<Self>, Malformed> {
        let mut quotas = list.list("items")?.map(Self::read).collect::<Result<Vec<_>, _>>()?;
        sort::by_text(&mut quotas, |quota| &quota.name);
        Ok(quotas)
    }

    pub fn into_owned(self) -> ResourceQuota<'static> {
        let owned = |text: Cow<'d, str>| Cow::Owned(text.into_owned());
        let list = |list: ResourceList<'d>| list.into_iter().map(|(name, amount)| (owned(name), amount)).collect();
        ResourceQuota {
            name: owned(self.name),
            namespace: owned(self.namespace),
            spec_hard: list(self.spec_hard),
            hard: list(self.hard),
            used: list(self.used),
            scopes: self.scopes.into_iter().map(owned).collect(),
            selector: self.selector.into_iter().map(Requirement::into_owned).collect(),
            is_tenant: self.is_tenant,
        }
    }

    /// All requirements that an object must match: each scope with `Exists`, then the selector's expressions.
    pub fn requirements(&self) -> impl Iterator<Item = Cow<'_, Requirement<'d>>> {
        let exists = |scope: &Cow<'d, str>| {
            Cow::Owned(Requirement { key: scope.clone(), operator: Operator::Exists, values: Vec::new() })
        };
        self.scopes.iter().map(exists).chain(self.selector.iter().map(Cow::Borrowed))
    }
}

/// The amounts in field `name` of an object; none if it is absent.
fn amounts<'d>(node: Node<'d>, name: &str) -> Result<ResourceList<'d>, Malformed> {
    node.get(name)?.map_or_else(|| Ok(ResourceList::default()), ResourceList::read_bounds)
}
