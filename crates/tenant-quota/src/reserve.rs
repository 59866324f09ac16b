//! Reserving: a claim is added if there is room for it, and the request is allowed once the ledger is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::amount::{Quantity, ResourceList, ResourceName};
use headroom_core::cut::Names;
use headroom_core::quota::{Breach, Excess, Fault};

use crate::ask::Ask;
use crate::plan::{Node, Plan};
use crate::shape::Shape;
use crate::state::{Claim, Entry, Key, State};
use crate::text;

/// Most claims in one ledger. About this many are written in a second, and claims are settled sooner than that.
pub const MOST_CLAIMS: usize = 512;
/// Most bytes of the text of one claim: some thirty resources. So no single request can fill a ledger.
pub const MOST_CLAIM_BYTES: usize = 2048;
/// Most bytes of the text of all claims before requests must wait. Settling may add bases of [`MOST_BASE_BYTES`] each;
/// together they are well below the 1.5 MiB that etcd stores of one object.
pub const MOST_BYTES: usize = 512 * 1024;
/// Most bytes of a base. Without its base, a claim holds more than it needs, never less.
const MOST_BASE_BYTES: usize = 1024;
/// The bytes of an entry's token, version and numbers of shapes, and more.
const ENTRY_BYTES: usize = 64;
/// Most entries of one key before they are merged, and most shapes of a merged entry.
const MOST_ENTRIES: usize = 4;

/// A ledger opened for a batch of requests. Each request sees the claims of the requests before it.
#[derive(Debug, Clone)]
pub struct Book<'p> {
    plan: &'p Plan,
    state: State,
    /// By node: usage, plus what is claimed beyond it.
    held: Vec<ResourceList<'static>>,
    most_entries: usize,
    /// The size of the claims' text, at most; none before it is needed.
    bytes: Option<usize>,
    /// By node and name: the claims that hold part of a bound. Cached, because every refusal needs them and only a new
    /// claim changes them.
    holders: BTreeMap<(usize, ResourceName<'static>), Holders>,
}

/// Claims that hold part of a bound.
#[derive(Debug, Clone, Default)]
struct Holders {
    claims: usize,
    tokens: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The claim was added to the state. It is valid once the state is written.
    Granted,
    Refused(Refusal),
    /// No ledger can hold a claim for this object, however much room there is.
    Unfit(Unfit),
    Busy(Busy),
}

/// Why no ledger can hold a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// The amount under this name is too large to be counted.
    Amount(String),
    /// The object's name and so many resources would take too much of a ledger.
    Size { resources: usize },
}

/// Why a request must be retried although there may be room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    Claims,
    /// The claims are too long together.
    Bytes,
    Key,
}

/// Why there is no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The nearest quota first, then ancestors.
    pub quotas: Vec<Short>,
    /// Tokens of the entries that block the request, if it would fit without them.
    pub waits_for: Vec<String>,
}

/// A quota that refuses the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Short {
    pub node: usize,
    pub breach: Breach<'static>,
    /// For each exceeded bound: the amount that unfinished requests hold, and their number.
    pub reserved: Vec<(Quantity, usize)>,
}

impl<'p> Book<'p> {
    pub fn open(plan: &'p Plan, state: State) -> Self {
        let (held, most_entries) = (state.used.clone(), MOST_ENTRIES);
        let mut book = Self { plan, held, state, most_entries, bytes: None, holders: BTreeMap::new() };
        book.held.resize(plan.nodes.len(), ResourceList::default());
        for (key, claim) in &book.state.claims {
            for node in plan.nodes_of(&key.namespace) {
                if let (Some(held), Some(node)) = (book.held.get_mut(node), plan.nodes.get(node)) {
                    held.add_all(&beyond(claim, node));
                }
            }
        }
        book
    }

    /// Sets how many entries a key may have before they are merged.
    pub fn merging_beyond(self, most_entries: usize) -> Self {
        Self { most_entries, ..self }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn close(self) -> State {
        self.state
    }

    /// Usage and claims, by node.
    pub fn held(&self) -> &[ResourceList<'static>] {
        &self.held
    }

    /// Adds a claim if there is room for it; otherwise changes nothing.
    pub fn reserve(&mut self, ask: &Ask) -> Verdict {
        let was = self.state.claims.get(&ask.key).cloned();
        let was = was.as_ref();
        if was.is_some_and(|claim| claim.entries.iter().any(|entry| entry.token == ask.token)) {
            // An earlier write succeeded, but its response was lost.
            return Verdict::Granted;
        }
        let Some(added) = bytes_of(ask) else {
            return Verdict::Unfit(Unfit::Size { resources: ask.shape.amounts.len() });
        };
        if let Some(name) = ask.shape.uncountable() {
            return Verdict::Unfit(Unfit::Amount(name.to_owned()));
        }
        if was.is_none() && self.state.claims.len() >= MOST_CLAIMS {
            return Verdict::Busy(Busy::Claims);
        }
        let bytes = *self.bytes.get_or_insert_with(|| self.state.claim_bytes()) + added;
        if bytes > MOST_BYTES {
            return Verdict::Busy(Busy::Bytes);
        }
        let Some(now) = with_entry(was, ask, self.most_entries) else { return Verdict::Busy(Busy::Key) };
        let mut growths = Vec::new();
        let mut quotas = Vec::new();
        let mut fits_without_claims = true;
        let plan = self.plan;
        for at in plan.nodes_of(&ask.key.namespace) {
            let Some(node) = plan.nodes.get(at) else { continue };
            let before = was.map(|was| beyond(was, node)).unwrap_or_default();
            let growth: ResourceList<'static> = beyond(&now, node)
                .paired_with(&before)
                .map(|(name, after, before)| (name.clone(), before.map_or(after.clone(), |before| after.minus(before))))
                .filter(|(_, growth)| growth.is_positive())
                .collect();
            if node.is_suspended || ask.may_exceed {
                growths.push((at, growth));
                continue;
            }
            if let Some(short) = self.unknown_usage(at, node, &growth) {
                quotas.push(short);
                fits_without_claims = false;
            } else if let Some(short) = self.short(at, node, &growth) {
                fits_without_claims &= self.fits_in_used(at, node, &growth);
                quotas.push(short);
            }
            growths.push((at, growth));
        }
        if !quotas.is_empty() {
            let waits_for = if fits_without_claims { self.blocking_tokens(&quotas) } else { Vec::new() };
            return Verdict::Refused(Refusal { quotas, waits_for });
        }
        self.holders.clear();
        for (at, growth) in growths {
            if let Some(held) = self.held.get_mut(at) {
                held.add_all(&growth);
            }
        }
        self.state.claims.insert(ask.key.clone(), now);
        self.bytes = Some(bytes);
        Verdict::Granted
    }

    /// Removes the entry with this token: the reservation made before another ledger refused the request.
    pub fn take_back(&mut self, key: &Key, token: &str) {
        let Some(claim) = self.state.claims.get_mut(key) else { return };
        // A merged entry belongs to other requests too.
        claim.entries.retain(|entry| entry.token != token || entry.attempt.is_none());
        if claim.entries.is_empty() {
            self.state.claims.remove(key);
        }
        *self = Self::open(self.plan, std::mem::take(&mut self.state)).merging_beyond(self.most_entries);
    }

    /// The breach for bounds that grow but whose usage is unknown.
    fn unknown_usage(&self, at: usize, node: &Node, growth: &ResourceList<'static>) -> Option<Short> {
        let used = self.state.used.get(at);
        let is_unknown = |name: &&ResourceName<'static>| !used.is_some_and(|used| used.contains(name));
        let names: Vec<String> = growth.names().filter(is_unknown).map(ToString::to_string).collect();
        let fault = Fault::UnknownStatus { names };
        let is_any = matches!(&fault, Fault::UnknownStatus { names } if !names.is_empty());
        is_any.then(|| Short { node: at, breach: node.breach(fault), reserved: Vec::new() })
    }

    fn short(&mut self, at: usize, node: &Node, growth: &ResourceList<'static>) -> Option<Short> {
        let (mut excesses, mut reserved) = (Vec::new(), Vec::new());
        for (name, requested) in growth.iter() {
            let held = self.held.get(at).and_then(|held| held.get(name));
            let (Some(hard), Some(held)) = (node.hard.get(name), held) else { continue };
            if held.plus(requested) <= *hard {
                continue;
            }
            let used = self.state.used.get(at).and_then(|used| used.get(name));
            let beyond_used = used.map_or(Quantity::ZERO, |used| held.minus(used));
            excesses.push(Excess {
                name: name.clone(),
                requested: requested.clone(),
                used: held.clone(),
                hard: hard.clone(),
                origins: Names::default(),
            });
            reserved.push((beyond_used, self.holders(at, node, name).claims));
        }
        if excesses.is_empty() {
            return None;
        }
        let fault = Fault::Exceeded { excesses, growth: None };
        Some(Short { node: at, breach: node.breach(fault), reserved })
    }

    fn fits_in_used(&self, at: usize, node: &Node, growth: &ResourceList<'static>) -> bool {
        let used = self.state.used.get(at);
        growth.iter().all(|(name, growth)| match (used.and_then(|used| used.get(name)), node.hard.get(name)) {
            (Some(used), Some(hard)) => used.plus(growth) <= *hard,
            _ => true,
        })
    }

    fn holders(&mut self, at: usize, node: &Node, name: &ResourceName<'static>) -> &Holders {
        self.holders.entry((at, name.clone())).or_insert_with(|| {
            let mut holders = Holders::default();
            for (key, claim) in &self.state.claims {
                if self.plan.nodes_of(&key.namespace).contains(&at) && beyond(claim, node).contains(name) {
                    holders.claims += 1;
                    holders.tokens.extend(claim.entries.iter().map(|entry| entry.token.clone()));
                }
            }
            holders
        })
    }

    fn blocking_tokens(&mut self, quotas: &[Short]) -> Vec<String> {
        let mut tokens: Vec<String> = Vec::new();
        let plan = self.plan;
        for short in quotas {
            let (Some(node), Fault::Exceeded { excesses, .. }) = (plan.nodes.get(short.node), &short.breach.fault)
            else {
                continue;
            };
            for excess in excesses {
                tokens.extend_from_slice(&self.holders(short.node, node, &excess.name).tokens);
            }
        }
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }
}

/// What a claim holds at a node beyond `used`: the most that may be stored, minus what is certainly counted.
pub fn beyond(claim: &Claim, node: &Node) -> ResourceList<'static> {
    let shapes = || claim.entries.iter().flat_map(|entry| entry.shapes.iter());
    let at = |shape: &Arc<Shape>, name: &str| -> Option<Quantity> {
        shape.get(name).filter(|_| shape.matches(&node.requirements)).cloned()
    };
    let amount = |name: &ResourceName<'static>| {
        let most = shapes().filter_map(|shape| at(shape, name)).max()?;
        let least = claim.base.iter().map(|shape| at(shape, name).unwrap_or(Quantity::ZERO)).min();
        let beyond = least.map_or(most.clone(), |least| most.minus(&least));
        beyond.is_positive().then(|| (name.clone(), beyond))
    };
    ResourceList::in_order(node.hard.names().filter_map(amount))
}

/// The part of `used` that certainly belongs to the key of this object, if it is short enough to be kept.
pub fn base_of(stored: &Arc<Shape>) -> Option<Arc<Shape>> {
    text::length(stored, MOST_BASE_BYTES).map(|_| Arc::clone(stored))
}

/// What a request adds to the text of a ledger, at most; none if it is too much.
fn bytes_of(ask: &Ask) -> Option<usize> {
    let escaped = |word: &str| (word.len() < MOST_CLAIM_BYTES).then(|| text::escape(word).len());
    let entry = escaped(&ask.key.to_string())? + escaped(&ask.attempt.uid)? + ENTRY_BYTES;
    let rest = MOST_CLAIM_BYTES.checked_sub(entry)?;
    let shape = text::length(&ask.shape, rest)?;
    let base = ask.old.as_ref().and_then(|old| text::length(old, MOST_BASE_BYTES)).unwrap_or_default();
    Some(MOST_CLAIM_BYTES - rest + shape + base)
}

/// The claim with an added entry; none if too many requests for its key are unfinished.
fn with_entry(was: Option<&Claim>, ask: &Ask, most_entries: usize) -> Option<Claim> {
    let mut claim = match (was, ask.old.as_ref().and_then(base_of)) {
        (None, old) => Claim { base: old.into_iter().collect(), entries: Vec::new() },
        // The base is the least that any of the requests found: the others may be too late to be stored.
        (Some(was), None) => Claim { base: Vec::new(), ..was.clone() },
        (Some(was), Some(old)) => {
            let mut claim = was.clone();
            if !claim.base.is_empty() && !claim.base.contains(&old) {
                claim.base.push(old);
            }
            if claim.base.len() > MOST_ENTRIES {
                claim.base.clear();
            }
            claim
        }
    };
    let (attempt, shapes) = (Some(ask.attempt.clone()), vec![Arc::clone(&ask.shape)]);
    claim.entries.push(Entry { token: ask.token.clone(), attempt, shapes });
    if claim.entries.len() > most_entries {
        let mut shapes: Vec<Arc<Shape>> = Vec::new();
        for shape in claim.entries.into_iter().flat_map(|entry| entry.shapes) {
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        if shapes.len() > MOST_ENTRIES {
            return None;
        }
        // The merged entry's age starts again, because the newest of the requests may last longest.
        claim.entries = vec![Entry { token: ask.token.clone(), attempt: None, shapes }];
    }
    Some(claim)
}
