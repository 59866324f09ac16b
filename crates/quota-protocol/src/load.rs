//! The part of a ledger that each tenant's claims take. It is limited, so that no tenant keeps the others out.
//!
//! Claims of requests that failed are kept until the requests are certainly over, so whoever makes many requests that
//! fail could fill the ledger. So a request finds room only as long as more is free than its namespace and the quotas of
//! the namespace have, added up. The root of the only tree does not count, because it has all. One namespace of that root
//! takes a half at most, two take a third each; those of one quota take less, so that they leave room for each other too. A
//! tenant without claims always finds room: of several trees, however many of them work together, [`OF_EACH_TREE`] is kept.

use std::collections::HashMap;
use std::sync::Arc;

use crate::devices::PodRef;
use crate::encoding;
use crate::footprint::Footprint;
use crate::plan::Plan;
use crate::state::{Claim, ObjectKey, State};

/// The claims of a tenant, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub claims: usize,
    pub bytes: usize,
}

/// The room that is kept for each tree in a ledger with several, enough for some requests at a time.
const OF_EACH_TREE: Load = Load { claims: 16, bytes: 4 * 1024 };

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Tenant {
    Namespace(String),
    /// A quota with a part of the ledger's namespaces.
    Quota(usize),
}

#[derive(Debug, Clone, Default)]
pub struct Loads {
    /// The roots of a ledger with several trees.
    roots: Vec<usize>,
    all: Load,
    pub spares: Load,
    tenants: HashMap<Tenant, Load>,
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
        // All quotas of one namespace are one tenant's.
        let roots = if plan.namespaces.len() > 1 { plan.roots().collect() } else { Vec::new() };
        let mut loads = Self { roots: if roots.len() > 1 { roots } else { Vec::new() }, ..Self::default() };
        // Claims that were read together share their footprints.
        let mut lengths: HashMap<*const Footprint, usize> = HashMap::new();
        let mut length = |footprint: &Arc<Footprint>| {
            let of_text = || encoding::length(footprint, usize::MAX).unwrap_or_default();
            *lengths.entry(Arc::as_ptr(footprint)).or_insert_with(of_text)
        };
        for (key, claim) in &state.claims {
            loads.add(plan, key, Load { claims: 1, bytes: bytes_of(key, claim, &mut length) });
        }
        loads
    }

    pub fn add(&mut self, plan: &Plan, key: &ObjectKey, load: Load) {
        self.all = self.all.plus(load);
        if key.is_spare() {
            self.spares = self.spares.plus(load);
        }
        for tenant in self.tenants_of(plan, &key.namespace) {
            let of_tenant = self.tenants.entry(tenant).or_default();
            *of_tenant = of_tenant.plus(load);
        }
    }

    /// The room that a request in a namespace finds in a ledger with room for `most`.
    pub fn room(&self, plan: &Plan, namespace: &str, most: Load) -> Load {
        let tenants = self.tenants_of(plan, namespace);
        let others = self.roots.iter().map(|root| Tenant::Quota(*root)).filter(|root| !tenants.contains(root));
        let kept = others.map(|root| OF_EACH_TREE.minus(self.taken_by(&root)));
        let taken = tenants.iter().map(|tenant| self.taken_by(tenant));
        kept.chain(taken).fold(most.minus(self.all), Load::minus)
    }

    fn taken_by(&self, tenant: &Tenant) -> Load {
        self.tenants.get(tenant).copied().unwrap_or_default()
    }

    fn tenants_of(&self, plan: &Plan, namespace: &str) -> Vec<Tenant> {
        let is_part =
            |node: &usize| self.roots.contains(node) || plan.nodes.get(*node).is_some_and(|node| node.parent.is_some());
        let quotas = plan.nodes_of(namespace).into_iter().filter(is_part).map(Tenant::Quota);
        [Tenant::Namespace(namespace.to_owned())].into_iter().chain(quotas).collect()
    }
}

/// The bytes of a claim's text at most: equal footprints are written once.
fn bytes_of(key: &ObjectKey, claim: &Claim, mut length: impl FnMut(&Arc<Footprint>) -> usize) -> usize {
    let mut bytes = encoding::escaped_length(&key.to_string()) + claim.base.iter().map(&mut length).sum::<usize>();
    for entry in &claim.entries {
        let uid = entry.attempt.as_ref().map_or("", |attempt| &attempt.uid);
        bytes += entry_bytes(uid, entry.pod.as_ref()) + entry.footprints.iter().map(&mut length).sum::<usize>();
    }
    bytes
}

/// The bytes of an entry's token, version and numbers of footprints, and more.
const ENTRY_BYTES: usize = 64;

/// The bytes of an entry's text at most, without its footprints.
pub fn entry_bytes(uid: &str, pod: Option<&PodRef>) -> usize {
    let pod = pod.map_or(0, |pod| encoding::escaped_length(&pod.to_string()));
    ENTRY_BYTES + encoding::escaped_length(uid) + pod
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::footprint::Footprint;
    use crate::state::{Attempt, ClaimEntry, StateLines};

    pub fn long_footprint(seed: usize, names: usize) -> Arc<Footprint> {
        let names: Vec<String> = (0..names).map(|name| format!("requests.example.com/{seed}-{name}=1")).collect();
        Arc::new(Footprint::read(&names.join(" ")).unwrap())
    }

    pub fn written(state: &State) -> usize {
        let StateLines { footprints, claims, .. } = state.write();
        footprints.iter().chain(&claims).map(String::len).sum()
    }

    #[test]
    fn the_bytes_of_claims_are_as_many_as_their_text_has_and_few_more() {
        let entry = |seed: usize, pod: Option<PodRef>| ClaimEntry {
            token: "0123456789abcdef".to_owned(),
            attempt: Some(Attempt { uid: "u".repeat(300), version: Some(u64::MAX) }),
            footprints: vec![long_footprint(seed, 9), long_footprint(seed + 1, 9)],
            pod,
        };
        let pod = PodRef { name: "p".repeat(300), uid: "b".repeat(300) };
        let merged = ClaimEntry { attempt: None, ..entry(30, None) };
        let entries = vec![entry(10, Some(pod)), entry(20, None), merged];
        let claim = Claim { base: vec![long_footprint(1, 9), long_footprint(2, 9)], entries };
        let mut state = State::default();
        for name in ["a".repeat(200), "b".repeat(200)] {
            state.claims.insert(ObjectKey::new("pods", "shop", &name), claim.clone());
        }
        let all = Loads::of(&Plan::default(), &state).all;
        assert_eq!(all.claims, 2);
        // Both claims have the same footprints, which are written once.
        let shared: usize = state.write().footprints.iter().map(String::len).sum();
        let written = written(&state) + shared;
        let slack = 2 * claim.entries.len() * ENTRY_BYTES;
        assert!((written..written + slack).contains(&all.bytes), "{} beside {written} and {slack}", all.bytes);
    }
}
