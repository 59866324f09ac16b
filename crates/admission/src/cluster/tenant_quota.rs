//! TenantQuotas: quotas for several namespaces, each optionally with a parent that is charged too.
//!
//! `headroom-controller enforce-quotas` enforces them by ledgers, which know more than it publishes in their status. The
//! policy uses the status only to evaluate the pods that a workload would create.

use std::borrow::{Borrow, Cow};

use super::label_selector::{LabelSelector, Labels};
use super::resource_quota::{ResourceQuota, validate};
use crate::amount::ResourceList;
use crate::json::{Malformed, Node};
use crate::sort;

/// One TenantQuota. The ledger keeps its label selector, and the policy reads it only where it is needed.
#[derive(Debug, Clone)]
pub struct TenantQuota<'d, S = LabelSelector<'d>> {
    /// Name and bounds: `spec.quota` has the fields of a ResourceQuota's spec. With a status, `used` includes what is
    /// reserved, and a suspended quota has no bounds.
    pub quota: ResourceQuota<'d>,
    pub generation: u64,
    /// `metadata.creationTimestamp`; empty if it is not stored yet.
    pub created: Cow<'d, str>,
    pub parent: Option<Cow<'d, str>>,
    /// Namespaces by name and by label. With neither, only children are charged.
    pub names: Vec<Cow<'d, str>>,
    pub selector: Option<S>,
    /// Usage is counted, but nothing is refused.
    pub is_suspended: bool,
    /// Namespaces that the ledger does not charge although the quota covers them, by the status.
    pub exempt: Vec<Cow<'d, str>>,
}

impl<S> Default for TenantQuota<'_, S> {
    fn default() -> Self {
        Self {
            quota: ResourceQuota { is_tenant: true, ..ResourceQuota::default() },
            generation: 0,
            created: Cow::Borrowed(""),
            parent: None,
            names: Vec::new(),
            selector: None,
            is_suspended: false,
            exempt: Vec::new(),
        }
    }
}

/// Namespaces that no TenantQuota covers, because the cluster needs them to start.
pub const NEVER_CHARGED: [&str; 3] = ["kube-system", "kube-node-lease", "kube-public"];

/// The maximum number of namespaces by name; for more, use a selector.
const MAX_NAMES: usize = 1000;
/// The maximum number of bounded names; every claim and every count iterates over all of them.
const MAX_BOUNDS: usize = 100;

impl<'d, S> TenantQuota<'d, S> {
    fn read_bounds(node: Node<'d>, selector: fn(Node<'d>) -> Result<S, Malformed>) -> Result<Self, Malformed> {
        let mut read = Self::default();
        if let Some(metadata) = node.get("metadata")? {
            read.quota.name = metadata.string("name")?.unwrap_or_default();
        }
        let Some(spec) = node.get("spec")? else { return Ok(read) };
        if let Some(quota) = spec.get("quota")? {
            read.quota.read_spec(quota)?;
        }
        read.parent = spec.string("parent")?;
        if let Some(covered) = spec.get("namespaces")? {
            read.names = covered.list("names")?.map(Node::str).collect::<Result<_, _>>()?;
            read.selector = covered.get("selector")?.map(selector).transpose()?;
        }
        Ok(read)
    }

    pub fn read_status(&mut self, node: Node<'d>) -> Result<(), Malformed> {
        if let Some(status) = node.get("status")? {
            self.quota.read_status(status)?;
            self.quota.used.add_all(&ResourceList::in_field(status, "reserved")?);
            self.exempt = status.list("exemptNamespaces")?.map(Node::str).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.quota.name
    }

    /// True if the ledger never charges a namespace to this quota.
    pub fn exempts(&self, namespace: &str) -> bool {
        NEVER_CHARGED.contains(&namespace) || self.exempt.iter().any(|exempt| exempt == namespace)
    }

    pub fn names_namespace(&self, namespace: &str) -> bool {
        self.names.iter().any(|name| name == namespace)
    }
}

impl<'d> TenantQuota<'d, Node<'d>> {
    /// Reads a list of TenantQuotas with their status, in name order.
    pub fn read_list(list: Node<'d>) -> Result<Vec<Self>, Malformed> {
        let mut quotas = Vec::new();
        for node in list.list("items")? {
            let mut quota = Self::read_bounds(node, Ok)?;
            quota.read_status(node)?;
            quotas.push(quota);
        }
        sort::by_text(&mut quotas, |quota| &quota.quota.name);
        Ok(quotas)
    }
}

impl<'d> TenantQuota<'d> {
    /// Reads a quota as its author wrote it, without its status.
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let mut read = Self::read_bounds(node, LabelSelector::read)?;
        if let Some(metadata) = node.get("metadata")? {
            read.created = metadata.string("creationTimestamp")?.unwrap_or_default();
            let generation = metadata.get("generation")?.map(Node::integer).transpose()?;
            read.generation = generation.and_then(|generation| u64::try_from(generation).ok()).unwrap_or_default();
        }
        read.parent = read.parent.filter(|parent| !parent.is_empty());
        read.is_suspended = node.at(&["spec", "suspend"])?.map(Node::bool).transpose()?.unwrap_or_default();
        Ok(read)
    }

    /// True if it covers a namespace directly, not only through its children.
    pub fn covers(&self, namespace: &str, labels: &Labels) -> bool {
        self.names_namespace(namespace) || self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// All problems of this quota alone. Its parent is checked by the ledger.
    pub fn problems(&self) -> Vec<Malformed> {
        let mut problems = Vec::new();
        let mut add = |path: &str, problem: String| problems.push(Malformed { path: path.to_owned(), problem });
        if self.parent.as_deref() == Some(self.name()) {
            add("spec.parent", "must not be the quota itself".to_owned());
        }
        if self.names.len() > MAX_NAMES {
            add("spec.namespaces.names", format!("has more than {MAX_NAMES} names: select namespaces by a label"));
        }
        if self.quota.spec_hard.is_empty() {
            add("spec.quota.hard", "must bound at least one name".to_owned());
        }
        if self.quota.spec_hard.len() > MAX_BOUNDS {
            add("spec.quota.hard", format!("bounds more than {MAX_BOUNDS} names"));
        }
        if let Some(selector) = &self.selector {
            problems.extend(selector.problems("spec.namespaces.selector"));
        }
        problems.extend(validate::quota(&self.quota).into_iter().map(|Malformed { path, problem }| {
            // A ResourceQuota's `spec` is `spec.quota` here.
            Malformed { path: path.replacen("spec.", "spec.quota.", 1), problem }
        }));
        problems
    }

    pub fn into_owned(self) -> TenantQuota<'static> {
        let owned = |text: Cow<'d, str>| Cow::Owned(text.into_owned());
        TenantQuota {
            quota: self.quota.into_owned(),
            generation: self.generation,
            created: owned(self.created),
            parent: self.parent.map(owned),
            names: self.names.into_iter().map(owned).collect(),
            selector: self.selector.map(LabelSelector::into_owned),
            is_suspended: self.is_suspended,
            exempt: self.exempt.into_iter().map(owned).collect(),
        }
    }
}

/// The place of a quota's parent in quotas that are in name order. Parents may form a cycle.
pub fn parent_of<'d, S>(quotas: &[impl Borrow<TenantQuota<'d, S>>], place: usize) -> Option<usize> {
    let parent = quotas.get(place)?.borrow().parent.as_deref()?;
    quotas.binary_search_by(|other| sort::order(other.borrow().name(), parent)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Document;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let document = Document::read(text).unwrap();
        let quota = TenantQuota::read(document.root()).unwrap();
        assert_eq!(quota.problems().iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        check(
            r#"{"metadata": {"name": "a.b"}, "spec": {"parent": "a.b",
                "namespaces": {"selector": {"matchExpressions": [{"key": "team", "operator": "In"}]}},
                "quota": {"hard": {"pods": "1.5"}, "scopes": ["Sometimes"]}}}"#,
            &[
                "spec.parent: must not be the quota itself",
                "spec.namespaces.selector[0].values: must have at least one value for In and NotIn",
                "spec.quota.hard[pods]: must be an integer",
                "spec.quota.scopes: unsupported scope",
            ],
        );
        check(r#"{"metadata": {"name": "a"}, "spec": {}}"#, &["spec.quota.hard: must bound at least one name"]);
        let bounding = |names: usize| {
            let hard: Vec<_> = (0..names).map(|name| format!(r#""requests.example.com/{name}": 1"#)).collect();
            format!(r#"{{"metadata": {{"name": "a"}}, "spec": {{"quota": {{"hard": {{{}}}}}}}}}"#, hard.join(","))
        };
        check(&bounding(MAX_BOUNDS), &[]);
        check(&bounding(MAX_BOUNDS + 1), &["spec.quota.hard: bounds more than 100 names"]);
    }
}
