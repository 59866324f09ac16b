//! Reservation: a claim is added if there is room for it, and the request is allowed once the ledger is written.

use std::collections::HashMap;
use std::sync::Arc;

use headroom_admission::amount::{Quantity, ResourceList, ResourceName};
use headroom_admission::quota::{Breach, Excess, QuotaFault};
use headroom_admission::truncate::{Names, shortened};

use crate::encoding;
use crate::footprint::Footprint;
use crate::load::{Load, Loads, entry_bytes};
use crate::plan::{Plan, PlanNode};
use crate::reservation_request::ReservationRequest;
use crate::state::{Claim, ClaimEntry, State};

/// The maximum number of claims in one ledger, of which a tenant has a share. About this many are written in a second,
/// and claims are resolved sooner than that.
pub const MAX_CLAIMS: usize = 512;
/// The maximum bytes of the text of one claim: some thirty resources. So no single request can fill a ledger.
pub const MAX_CLAIM_BYTES: usize = 2048;
/// The maximum bytes of the text of all claims before requests must wait: twice as much as the claims of ordinary pods
/// need, because all of it is written each time. A recount may add bases of [`MAX_BASE_BYTES`] each; together they are well
/// below the 1.5 MiB that etcd stores of one object.
pub const MAX_BYTES: usize = 128 * 1024;
/// The maximum bytes of a base. Without its base, a claim holds more than it needs, never less.
const MAX_BASE_BYTES: usize = 1024;
/// The maximum number of entries of one key before they are merged, and of footprints of a merged entry.
pub(crate) const MAX_ENTRIES: usize = 4;

/// A ledger that is open for a batch of requests. Each request sees the claims of the requests before it.
#[derive(Debug, Clone)]
pub struct OpenLedger<'p> {
    pub(crate) plan: &'p Plan,
    state: State,
    /// By node: usage, plus what is claimed beyond it.
    pub(crate) usage_with_claims: Vec<ResourceList<'static>>,
    /// By node: the part of it that spares hold.
    pub(crate) in_spares: Vec<ResourceList<'static>>,
    max_entries: usize,
    max_claims: usize,
    /// The room that each tenant's claims take; none before it is needed.
    loads: Option<Loads>,
    /// By node and name: the number of claims that hold part of a bound, and the tokens of their entries. Cached, because
    /// every refusal needs them and only a new claim changes them.
    blocking_claims: HashMap<(usize, ResourceName<'static>), (usize, Vec<String>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerVerdict {
    /// The claim was added to the state. It is valid once the state is written.
    Granted,
    Refused(Refusal),
    /// No ledger can hold a claim for this object, however much room there is, and why.
    TooLarge(String),
    Retry(Retry),
}

/// A request that must be retried although there may be room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    Claims,
    /// The claims are too long together.
    Bytes,
    Key,
    /// Another resource claim of the same pod is unfinished, and only one of them has the pod's share.
    Pod,
}

/// The quotas without room for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The nearest quota first, then ancestors.
    pub quotas: Vec<Shortage>,
    /// Tokens of the entries that block the request, if it would fit without them.
    pub waits_for: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    pub node: usize,
    pub breach: Breach<'static>,
    /// For each exceeded bound: the amount that unfinished requests hold, and their number.
    pub reserved: Vec<(Quantity, usize)>,
}

impl<'p> OpenLedger<'p> {
    pub fn new(plan: &'p Plan, state: State) -> Self {
        let mut usage_with_claims = state.used.clone();
        usage_with_claims.resize(plan.nodes.len(), ResourceList::default());
        let mut in_spares = vec![ResourceList::default(); plan.nodes.len()];
        for (key, claim) in &state.claims {
            for at in plan.nodes_of(&key.namespace) {
                let Some(amounts) = plan.nodes.get(at).map(|node| reserved(claim, node)) else { continue };
                add(&mut usage_with_claims, at, &amounts);
                if key.is_spare() {
                    add(&mut in_spares, at, &amounts);
                }
            }
        }
        Self {
            plan,
            state,
            usage_with_claims,
            in_spares,
            max_entries: MAX_ENTRIES,
            max_claims: MAX_CLAIMS,
            loads: None,
            blocking_claims: HashMap::new(),
        }
    }

    /// Sets how many entries a key may have before they are merged, and how many claims the ledger may have.
    pub fn with_limits(self, max_entries: usize, max_claims: usize) -> Self {
        Self { max_entries, max_claims, ..self }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn into_state(self) -> State {
        self.state
    }

    pub fn usage_with_claims(&self) -> &[ResourceList<'static>] {
        &self.usage_with_claims
    }

    /// Adds a claim if there is room for it; otherwise changes nothing.
    pub fn reserve(&mut self, request: &ReservationRequest) -> LedgerVerdict {
        let was = self.state.claims.get(&request.key).cloned();
        let was = was.as_ref();
        if was.is_some_and(|claim| claim.has(&request.token)) {
            // An earlier write succeeded, but its response was lost.
            return LedgerVerdict::Granted;
        }
        let Some(added) = bytes_of(request) else {
            let (name, resources) = (request.key.name.len(), request.footprint.amounts.len());
            return LedgerVerdict::TooLarge(format!(
                "its name ({name} bytes) and {resources} counted resources need more than {MAX_CLAIM_BYTES} bytes in the \
                 ledger: use a shorter name or fewer resources"
            ));
        };
        if let Some((name, _)) = request.footprint.amounts.iter().find(|(_, amount)| encoding::is_capped(amount)) {
            let problem = "is 1e20 or more, which quotas cannot count: set a smaller amount";
            return LedgerVerdict::TooLarge(format!("{} {problem}", shortened(name)));
        }
        if let Some(pod) = &request.pod
            && self.state.entries().any(|(key, entry)| *key != request.key && entry.pod.as_ref() == Some(pod))
        {
            return LedgerVerdict::Retry(Retry::Pod);
        }
        let room = self.room(&request.key.namespace);
        let added = Load { claims: usize::from(was.is_none()), bytes: added };
        if added.claims > room.claims {
            return LedgerVerdict::Retry(Retry::Claims);
        }
        if added.bytes > room.bytes {
            return LedgerVerdict::Retry(Retry::Bytes);
        }
        let Some(now) = with_entry(was, request, self.max_entries) else { return LedgerVerdict::Retry(Retry::Key) };
        let mut growths = Vec::new();
        let mut quotas = Vec::new();
        let mut fits_without_claims = true;
        let plan = self.plan;
        for at in plan.nodes_of(&request.key.namespace) {
            let Some(node) = plan.nodes.get(at) else { continue };
            let before = was.map(|was| reserved(was, node)).unwrap_or_default();
            let growth: ResourceList<'static> = reserved(&now, node)
                .paired_with(&before)
                .map(|(name, after, before)| (name.clone(), before.map_or(after.clone(), |before| after.minus(before))))
                .filter(|(_, growth)| growth.is_positive())
                .collect();
            let may_refuse = !node.is_suspended && !request.may_exceed;
            if may_refuse && let Some((short, fits)) = self.short(at, node, &growth) {
                quotas.push(short);
                fits_without_claims &= fits;
            }
            growths.push((at, growth));
        }
        if !quotas.is_empty() {
            let waits_for = if fits_without_claims { self.blocking_tokens(&quotas) } else { Vec::new() };
            return LedgerVerdict::Refused(Refusal { quotas, waits_for });
        }
        self.blocking_claims.clear();
        for (at, growth) in growths {
            add(&mut self.usage_with_claims, at, &growth);
            if request.key.is_spare() {
                add(&mut self.in_spares, at, &growth);
            }
        }
        self.state.claims.insert(request.key.clone(), now);
        if let Some(loads) = &mut self.loads {
            loads.add(plan, &request.key, added);
        }
        LedgerVerdict::Granted
    }

    pub(crate) fn room(&mut self, namespace: &str) -> Load {
        let most = Load { claims: self.max_claims, bytes: MAX_BYTES };
        let plan = self.plan;
        self.loads().room(plan, namespace, most)
    }

    pub(crate) fn loads(&mut self) -> &Loads {
        self.loads.get_or_insert_with(|| Loads::of(self.plan, &self.state))
    }

    /// The shortage at a node; none if the growth fits. Also returns true if it would fit without claims.
    fn short(&mut self, at: usize, node: &PlanNode, growth: &ResourceList<'static>) -> Option<(Shortage, bool)> {
        let used = self.state.used.get(at);
        let is_unknown = |name: &&ResourceName<'static>| !used.is_some_and(|used| used.contains(name));
        let names: Vec<String> = growth.names().filter(is_unknown).map(ToString::to_string).collect();
        if !names.is_empty() {
            let breach = node.breach(QuotaFault::UnknownStatus { names });
            return Some((Shortage { node: at, breach, reserved: Vec::new() }, false));
        }
        let (mut excesses, mut reserved, mut fits_without_claims) = (Vec::new(), Vec::new(), true);
        for (name, requested) in growth.iter() {
            let total = self.usage_with_claims.get(at).and_then(|total| total.get(name));
            let used = self.state.used.get(at).and_then(|used| used.get(name));
            let (Some(hard), Some(total), Some(used)) = (node.hard.get(name), total, used) else { continue };
            if total.plus(requested) <= *hard {
                continue;
            }
            fits_without_claims &= used.plus(requested) <= *hard;
            let claimed = total.minus(used);
            excesses.push(Excess {
                name: name.clone(),
                requested: requested.clone(),
                used: total.clone(),
                hard: hard.clone(),
                origins: Names::default(),
            });
            let (claims, _) = self.blocking_claims(at, node, name);
            reserved.push((claimed, *claims));
        }
        if excesses.is_empty() {
            return None;
        }
        let fault = QuotaFault::Exceeded { excesses, forecast: None };
        Some((Shortage { node: at, breach: node.breach(fault), reserved }, fits_without_claims))
    }

    fn blocking_claims(&mut self, at: usize, node: &PlanNode, name: &ResourceName<'static>) -> &(usize, Vec<String>) {
        self.blocking_claims.entry((at, name.clone())).or_insert_with(|| {
            let (mut claims, mut tokens) = (0, Vec::new());
            for (key, claim) in &self.state.claims {
                if self.plan.nodes_of(&key.namespace).contains(&at) && reserved(claim, node).contains(name) {
                    claims += 1;
                    tokens.extend(claim.entries.iter().map(|entry| entry.token.clone()));
                }
            }
            (claims, tokens)
        })
    }

    fn blocking_tokens(&mut self, quotas: &[Shortage]) -> Vec<String> {
        let mut tokens: Vec<String> = Vec::new();
        let plan = self.plan;
        for short in quotas {
            let (Some(node), QuotaFault::Exceeded { excesses, .. }) = (plan.nodes.get(short.node), &short.breach.fault)
            else {
                continue;
            };
            for excess in excesses {
                let (_, of_bound) = self.blocking_claims(short.node, node, &excess.name);
                tokens.extend_from_slice(of_bound);
            }
        }
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }
}

fn add(totals: &mut [ResourceList<'static>], at: usize, amounts: &ResourceList<'static>) {
    if let Some(total) = totals.get_mut(at) {
        total.add_all(amounts);
    }
}

/// The amounts that a claim adds to `used` at a node: the largest that may be stored, minus what is certainly counted.
pub fn reserved(claim: &Claim, node: &PlanNode) -> ResourceList<'static> {
    let footprints = || claim.entries.iter().flat_map(|entry| entry.footprints.iter());
    let at = |footprint: &Arc<Footprint>, name: &str| -> Option<Quantity> {
        footprint.amounts.get(name).filter(|_| footprint.matches(&node.requirements)).cloned()
    };
    let amount = |name: &ResourceName<'static>| {
        let largest = footprints().filter_map(|footprint| at(footprint, name)).max()?;
        let counted = claim.base.iter().map(|footprint| at(footprint, name).unwrap_or(Quantity::ZERO)).min();
        let reserved = counted.map_or(largest.clone(), |counted| largest.minus(&counted));
        reserved.is_positive().then(|| (name.clone(), reserved))
    };
    ResourceList::in_order(node.hard.names().filter_map(amount))
}

/// The part of `used` that certainly belongs to the key of this object, if it is short enough to be kept.
pub fn base_of(stored: &Arc<Footprint>) -> Option<Arc<Footprint>> {
    encoding::length(stored, MAX_BASE_BYTES).map(|_| Arc::clone(stored))
}

/// The upper bound of the bytes that a request adds to the ledger's text; none if they are too many.
fn bytes_of(request: &ReservationRequest) -> Option<usize> {
    let key = encoding::escaped_length(&request.key.to_string());
    let entry = key + entry_bytes(&request.attempt.uid, request.pod.as_ref());
    let rest = MAX_CLAIM_BYTES.checked_sub(entry)?;
    let footprint = encoding::length(&request.footprint, rest)?;
    let base = request.counted.as_ref().and_then(|old| encoding::length(old, MAX_BASE_BYTES)).unwrap_or_default();
    Some(entry + footprint + base)
}

/// The claim with an added entry; none if too many requests for its key are unfinished.
pub(crate) fn with_entry(was: Option<&Claim>, request: &ReservationRequest, max_entries: usize) -> Option<Claim> {
    let mut claim = match (was, request.counted.as_ref().and_then(base_of)) {
        (None, old) => Claim { base: old.into_iter().collect(), entries: Vec::new() },
        // The base is the least that any of the requests found: the others may be too late to be stored.
        (Some(was), None) => Claim { base: Vec::new(), ..was.clone() },
        (Some(was), Some(old)) => {
            let mut claim = was.clone();
            if !claim.base.is_empty() && !claim.base.contains(&old) {
                claim.base.push(old);
            }
            if claim.base.len() > MAX_ENTRIES {
                claim.base.clear();
            }
            claim
        }
    };
    let (attempt, footprints) = (Some(request.attempt.clone()), vec![Arc::clone(&request.footprint)]);
    let (token, pod) = (request.token.clone(), request.pod.clone());
    claim.entries.push(ClaimEntry { token, attempt, footprints, pod });
    if claim.entries.len() > max_entries {
        let pod = request.pod.clone();
        if claim.entries.iter().any(|entry| entry.pod != pod) {
            // A merged entry can name one pod, and a pod that none names would give its share to another claim too.
            return None;
        }
        let mut footprints: Vec<Arc<Footprint>> = Vec::new();
        for footprint in claim.entries.into_iter().flat_map(|entry| entry.footprints) {
            if !footprints.contains(&footprint) {
                footprints.push(footprint);
            }
        }
        if footprints.len() > MAX_ENTRIES {
            return None;
        }
        // The merged entry's age starts again, because the newest of the requests may last longest.
        claim.entries = vec![ClaimEntry { token: request.token.clone(), attempt: None, footprints, pod }];
    }
    Some(claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::PodRef;
    use crate::load::tests::{long_footprint, written};
    use crate::state::{Attempt, ObjectKey};

    /// A request for a claim that takes exactly so many bytes.
    fn of_bytes(bytes: usize, number: usize) -> ReservationRequest {
        let named = |length: usize| ReservationRequest {
            key: ObjectKey::new("pods", "shop", &format!("{number}-{}", "a".repeat(length))),
            token: number.to_string(),
            footprint: long_footprint(1, 1),
            ..ReservationRequest::default()
        };
        named(bytes - bytes_of(&named(0)).unwrap())
    }

    #[test]
    fn the_room_for_claims_is_used_to_the_byte() {
        let plan = Plan::read(1, &["team 1 -"], &["shop 0"]).unwrap();
        let mut ledger = OpenLedger::new(&plan, State::default());
        // Each claim of the only namespace takes its bytes twice.
        let (long, count) = (1970, 33);
        for number in 0..count {
            assert_eq!(ledger.reserve(&of_bytes(long, number)), LedgerVerdict::Granted);
        }
        let rest = MAX_BYTES - 2 * count * long;
        assert_eq!(ledger.reserve(&of_bytes(rest + 1, count)), LedgerVerdict::Retry(Retry::Bytes));
        assert_eq!(ledger.reserve(&of_bytes(rest, count)), LedgerVerdict::Granted);
    }

    #[test]
    fn entries_of_a_key_are_merged_once_there_are_more_than_four() {
        let one = |number: usize, footprint: usize| ReservationRequest {
            footprint: long_footprint(footprint, 1),
            counted: Some(long_footprint(100 + number, 1)),
            ..of_bytes(300, number)
        };
        let with = |numbers: &[usize]| {
            let mut claim = None;
            for (number, footprint) in numbers.iter().enumerate() {
                claim = Some(with_entry(claim.as_ref(), &one(number, *footprint), MAX_ENTRIES)?);
            }
            claim.map(|Claim { base, entries }| (base.len(), entries.len(), entries.last().unwrap().footprints.len()))
        };
        assert_eq!(with(&[1, 2, 3, 4]), Some((4, 4, 1)));
        // A fifth object that may be stored makes the bases useless too.
        assert_eq!(with(&[1, 2, 3, 4, 4]), Some((0, 1, 4)));
        assert_eq!(with(&[1, 2, 3, 4, 5]), None);
    }

    #[test]
    fn a_request_adds_as_many_bytes_as_it_is_taken_for_or_a_few_less() {
        let plan = Plan::default();
        let pod = PodRef { name: "p".repeat(150), uid: "b".repeat(150) };
        for (pod, counted) in [(None, None), (Some(pod), None), (None, Some(long_footprint(2, 20)))] {
            let request = ReservationRequest {
                key: ObjectKey::new("pods", "shop", &"a".repeat(200)),
                token: "0123456789abcdef".to_owned(),
                attempt: Attempt { uid: "u".repeat(200), version: Some(u64::MAX) },
                footprint: long_footprint(1, 20),
                counted,
                pod,
                may_exceed: false,
            };
            let taken_for = bytes_of(&request).unwrap();
            let mut ledger = OpenLedger::new(&plan, State::default());
            assert_eq!(ledger.reserve(&request), LedgerVerdict::Granted);
            let added = written(ledger.state());
            assert!((added..added + 64).contains(&taken_for), "{taken_for} beside {added}");
        }
    }
}
