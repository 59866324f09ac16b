//! TenantQuotas: bounds over several namespaces, as `headroom-controller enforce-quotas` publishes them.
//!
//! The ledger enforces them, and knows more than it publishes. So here they are used only to evaluate the pods that a
//! workload would create.

use std::borrow::Cow;

use super::resource_quota::ResourceQuota;
use crate::amount::ResourceList;
use crate::json::{Malformed, Node};
use crate::sort;

/// One TenantQuota.
#[derive(Debug, Clone)]
pub struct TenantQuota<'d> {
    /// Its bounds; `used` includes what is reserved. A suspended quota has no bounds in its status.
    pub quota: ResourceQuota<'d>,
    /// The name of the parent quota, which is charged, too.
    pub parent: Option<Cow<'d, str>>,
    /// The namespaces by name.
    pub namespaces: Vec<Cow<'d, str>>,
    /// The namespaces by their labels.
    pub selector: Option<Node<'d>>,
    /// Namespaces that the ledger does not charge although the quota covers them.
    pub exempt: Vec<Cow<'d, str>>,
}

/// Namespaces that no TenantQuota covers, because the cluster needs them to start.
pub const NEVER_CHARGED: [&str; 3] = ["kube-system", "kube-node-lease", "kube-public"];

impl<'d> TenantQuota<'d> {
    fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let spec = node.get("spec")?;
        let part = |name| spec.map_or(Ok(None), |spec| spec.get(name));
        let mut quota = ResourceQuota::read_with_spec(node, part("quota")?)?;
        quota.is_tenant = true;
        let mut exempt = Vec::new();
        if let Some(status) = node.get("status")? {
            quota.used.add_all(&ResourceList::in_field(status, "reserved")?);
            exempt = status.list("exemptNamespaces")?.map(Node::str).collect::<Result<_, _>>()?;
        }
        let parent = part("parent")?.map(Node::str).transpose()?;
        let mut read = Self { quota, parent, namespaces: Vec::new(), selector: None, exempt };
        if let Some(covered) = part("namespaces")? {
            read.namespaces = covered.list("names")?.map(Node::str).collect::<Result<_, _>>()?;
            read.selector = covered.get("selector")?;
        }
        Ok(read)
    }

    /// True if the ledger never charges a namespace to this quota.
    pub fn exempts(&self, namespace: &str) -> bool {
        NEVER_CHARGED.contains(&namespace) || self.exempt.iter().any(|exempt| exempt == namespace)
    }

    /// Reads a list of TenantQuotas, in name order.
    pub fn read_list(list: Node<'d>) -> Result<Vec<Self>, Malformed> {
        let mut quotas = list.list("items")?.map(Self::read).collect::<Result<Vec<_>, _>>()?;
        sort::by_text(&mut quotas, |quota| &quota.quota.name);
        Ok(quotas)
    }
}
