//! How much of a ledger the claims of each tenant take, so that none can keep the others out.
//!
//! Claims of requests that failed are kept until the requests are certainly over, so whoever makes many requests that
//! fail could fill the ledger. So a request finds room only as long as more is free than its namespace and the quotas of
//! the namespace below the root have, added up. One namespace of the root takes a half at most, two take a third each; those
//! of one quota take less, so that they leave room for each other too. A tenant without claims always finds room.

use std::collections::BTreeMap;

use crate::encoding;
use crate::plan::Plan;
use crate::state::{Claim, Key, State};

/// The claims of a tenant, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub claims: usize,
    pub bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Tenant {
    Namespace(String),
    /// A quota below the root.
    Quota(usize),
}

#[derive(Debug, Clone, Default)]
pub struct Loads {
    all: Load,
    tenants: BTreeMap<Tenant, Load>,
}

impl Load {
    fn plus(self, other: Self) -> Self {
        Self { claims: self.claims + other.claims, bytes: self.bytes + other.bytes }
    }

    fn minus(self, other: Self) -> Self {
        Self { claims: self.claims.saturating_sub(other.claims), bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

impl Loads {
    pub fn of(plan: &Plan, state: &State) -> Self {
        let mut loads = Self::default();
        for (key, claim) in &state.claims {
            loads.add(plan, &key.namespace, Load { claims: 1, bytes: bytes_of(key, claim) });
        }
        loads
    }

    pub fn add(&mut self, plan: &Plan, namespace: &str, load: Load) {
        self.all = self.all.plus(load);
        for tenant in tenants_of(plan, namespace) {
            let of_tenant = self.tenants.entry(tenant).or_default();
            *of_tenant = of_tenant.plus(load);
        }
    }

    /// The room that a request in a namespace finds in a ledger with room for `most`.
    pub fn room(&self, plan: &Plan, namespace: &str, most: Load) -> Load {
        let taken = tenants_of(plan, namespace).filter_map(|tenant| self.tenants.get(&tenant).copied());
        taken.fold(most.minus(self.all), Load::minus)
    }
}

fn tenants_of(plan: &Plan, namespace: &str) -> impl Iterator<Item = Tenant> {
    let below_root = |node: &usize| plan.nodes.get(*node).is_some_and(|node| node.parent.is_some());
    let quotas = plan.nodes_of(namespace).into_iter().filter(below_root).map(Tenant::Quota);
    [Tenant::Namespace(namespace.to_owned())].into_iter().chain(quotas)
}

/// The bytes of a claim's text at most: equal footprints are written once.
fn bytes_of(key: &Key, claim: &Claim) -> usize {
    let length = |footprint| encoding::length(footprint, usize::MAX).unwrap_or_default();
    let entries = claim.entries.iter().map(|entry| {
        let uid = entry.attempt.as_ref().map_or(0, |attempt| encoding::escape(&attempt.uid).len());
        let pod = entry.pod.as_ref().map_or(0, |pod| pod.name.len() + pod.uid.len() + 2);
        entry.token.len() + uid + pod + entry.footprints.iter().map(length).sum::<usize>()
    });
    encoding::escape(&key.to_string()).len() + claim.base.iter().map(length).sum::<usize>() + entries.sum::<usize>()
}
