//! The ledgers of the model: real states, identified by number and changed only by the real functions. Results are
//! cached, because many states of the world share a ledger.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cache::{Cache, CachedObject};
use crate::plan::{Plan, PlanNode};
use crate::reservation_request::ReservationRequest;
use crate::state::{Attempt, ObjectKey};
use crate::{Footprint, LedgerVerdict, OpenLedger, State, recount, spare};
use headroom_admission::amount::{Quantity, ResourceList};

use super::scenarios::{Flaw, Scenario};

/// The bounded name. No object has this kind.
const NAME: &str = "pods";

pub const SPARE: u8 = 60;

/// The object stored under a key. `version` counts the writes to the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thing {
    pub uid: Option<u8>,
    pub version: u8,
    pub charge: u8,
}

/// The reservation that a handler asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reservation {
    pub key: usize,
    pub token: u8,
    pub uid: u8,
    pub charge: u8,
    /// For an update: the object that it replaces.
    pub old: Option<Thing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaderCache {
    pub things: Vec<Thing>,
    /// Uids that were stored and have been deleted, as bits.
    pub deleted: u16,
    /// Released tokens, as bits.
    pub released: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct KnownEntry {
    pub key: usize,
    pub token: u8,
    /// The uid of a create.
    pub creates: Option<u8>,
    /// True if several entries were merged into it.
    pub is_merged: bool,
}

pub struct Ledgers {
    plans: Vec<Plan>,
    flaw: Flaw,
    max_entries: usize,
    max_claims: usize,
    states: Vec<State>,
    numbers: HashMap<String, usize>,
    reserved: HashMap<(usize, usize, Reservation), Option<usize>>,
    recounted: HashMap<(usize, usize, LeaderCache), Option<usize>>,
}

fn kind(key: usize) -> String {
    format!("k{key}")
}

fn footprint(charge: u8) -> Arc<Footprint> {
    let amounts = [(NAME.into(), Quantity::from_units(charge.into()))].into_iter().filter(|_| charge > 0);
    Arc::new(Footprint { amounts: amounts.collect(), ..Footprint::default() })
}

fn stored(uid: u8, version: u8, charge: u8) -> CachedObject {
    let (uid, version) = (format!("u{uid}"), version.into());
    CachedObject { uid, version, footprint: footprint(charge), ends: None, link: None }
}

fn key(key: usize) -> ObjectKey {
    ObjectKey::new(&kind(key), &format!("n{key}"), "o")
}

fn spare_key(at: usize) -> ObjectKey {
    ObjectKey { name: spare::name("r", "s"), ..key(at) }
}

fn request(reservation: Reservation) -> ReservationRequest {
    ReservationRequest {
        key: key(reservation.key),
        token: format!("t{}", reservation.token),
        attempt: Attempt {
            uid: format!("u{}", reservation.uid),
            version: reservation.old.map(|old| old.version.into()),
        },
        footprint: footprint(reservation.charge),
        counted: reservation.old.map(|old| footprint(old.charge)),
        ..ReservationRequest::default()
    }
}

fn number(text: &str) -> usize {
    text[1..].parse().unwrap()
}

impl Ledgers {
    pub fn new(scenario: &Scenario, flaw: Flaw) -> Self {
        let plan = |ledger: usize| {
            let node = |at: usize| {
                let mut hard: ResourceList<'static> = ResourceList::default();
                hard.set(NAME.into(), Quantity::from_units(scenario.hard[ledger][at].into()));
                // Each key has its own kind, so the key's version is the kind's revision.
                for at in 0..scenario.objects.len() {
                    hard.set(format!("count/{}", kind(at)).into(), Quantity::from_units(9));
                }
                let parent = scenario.parents[ledger][at];
                PlanNode { quota: format!("q{at}"), generation: 1, parent, hard, ..PlanNode::default() }
            };
            let places = scenario.places.iter().enumerate();
            let namespaces = places.filter_map(|(key, places)| {
                let (_, node) = places.iter().find(|(place, _)| *place == ledger)?;
                Some((format!("n{key}"), vec![*node]))
            });
            let nodes = (0..scenario.hard[ledger].len()).map(node).collect();
            Plan { number: 1, nodes, namespaces: namespaces.collect() }
        };
        Self {
            plans: (0..scenario.hard.len()).map(plan).collect(),
            flaw,
            max_entries: scenario.max_entries,
            max_claims: scenario.max_claims,
            states: Vec::new(),
            numbers: HashMap::new(),
            reserved: HashMap::new(),
            recounted: HashMap::new(),
        }
    }

    fn keep(&mut self, state: State) -> usize {
        let lines = state.write();
        let number = *self.numbers.entry(format!("{lines:?}")).or_insert(self.states.len());
        if number == self.states.len() {
            self.states.push(state);
        }
        number
    }

    pub fn first(&mut self, ledger: usize, things: &[Thing]) -> usize {
        let seen = LeaderCache { things: things.to_vec(), deleted: 0, released: 0 };
        let start = State { plan: 1, ..State::default() };
        let state = self.recount_now(ledger, &start, &seen).unwrap().unwrap();
        self.keep(state)
    }

    fn cache(&self, seen: &LeaderCache) -> Cache {
        let mut cache = Cache::default();
        cache.list(NAME, 0, []);
        // A deleted object must have been stored before.
        for uid in (0..16).filter(|uid| seen.deleted & (1 << uid) != 0) {
            let gone = ObjectKey::new("k0", "n0", "gone");
            cache.put(gone.clone(), stored(uid, 0, 0));
            cache.remove(&gone, 0);
        }
        for (at, thing) in seen.things.iter().enumerate() {
            cache.advance(&kind(at), thing.version.into());
            if let Some(uid) = thing.uid {
                cache.put(key(at), stored(uid, thing.version, thing.charge));
            }
        }
        cache
    }

    /// The ledger with the entry; none if there is no room.
    pub fn reserve(&mut self, ledger: usize, state: usize, reservation: Reservation) -> Option<usize> {
        if let Some(known) = self.reserved.get(&(ledger, state, reservation)) {
            return *known;
        }
        let after = self.reserve_now(ledger, self.states[state].clone(), reservation).map(|after| self.keep(after));
        self.reserved.insert((ledger, state, reservation), after);
        after
    }

    fn reserve_now(&self, ledger: usize, state: State, reservation: Reservation) -> Option<State> {
        let was = state.claims.get(&key(reservation.key)).cloned();
        if was.is_none() && self.is_full(&state) {
            return None;
        }
        let mut request = request(reservation);
        match (self.flaw, &was) {
            (Flaw::BaseOfFirstEntry, Some(was)) => request.counted = was.base.first().cloned(),
            (Flaw::ClaimedByUid, Some(was)) => {
                let is_known = |known: &Attempt| known.uid == request.attempt.uid;
                if was.entries.iter().any(|entry| entry.attempt.as_ref().is_some_and(is_known)) {
                    return Some(state);
                }
            }
            _ => {}
        }
        let mut open = self.open(ledger, state);
        if open.reserve(&request) != LedgerVerdict::Granted {
            return None;
        }
        let mut state = open.into_state();
        if let (Flaw::DecreasesCredited, Some(old)) = (self.flaw, reservation.old)
            && old.charge > reservation.charge
        {
            let less = Quantity::from_units((old.charge - reservation.charge).into());
            for node in self.plans[ledger].nodes_of(&format!("n{}", reservation.key)) {
                let used = state.used[node].get_mut(NAME).unwrap();
                *used = used.minus(&less);
            }
        }
        Some(state)
    }

    /// The ledger with the spare for creates of this key; none if there is no room.
    pub fn add_spare(&mut self, ledger: usize, state: usize, at: usize, charge: u8) -> Option<usize> {
        let like = ReservationRequest::spare(&kind(at), &format!("n{at}"), &footprint(charge));
        let spare = ReservationRequest { key: spare_key(at), token: format!("t{SPARE}"), ..like };
        let mut open = self.open(ledger, self.states[state].clone());
        let is_granted = open.reserve(&spare) == LedgerVerdict::Granted;
        let state = open.into_state();
        is_granted.then(|| self.keep(state))
    }

    /// The ledger with the claim of a create in the place of the spare that it took; none if its key has too many.
    pub fn replace_spare(&mut self, state: usize, at: usize, by: Reservation) -> Option<usize> {
        let mut state = self.states[state].clone();
        if self.flaw == Flaw::SpareNotReplaced {
            state.claims.remove(&spare_key(at));
            return Some(self.keep(state));
        }
        state.replace_spare(&spare_key(at), &request(by)).then(|| self.keep(state))
    }

    pub fn remove_spare(&mut self, state: usize, at: usize) -> usize {
        let mut state = self.states[state].clone();
        state.claims.remove(&spare_key(at));
        self.keep(state)
    }

    pub fn cancel(&mut self, state: usize, at: usize, tokens: &[u8]) -> usize {
        let mut state = self.states[state].clone();
        for token in tokens {
            state.cancel(&key(at), &format!("t{token}"));
        }
        self.keep(state)
    }

    /// Returns true if a create of a key without a claim would have to wait for claims of others.
    pub fn is_crowded_out(&self, ledger: usize, state: usize, at: usize) -> bool {
        let state = &self.states[state];
        let reservation = Reservation { key: at, token: u8::MAX, uid: u8::MAX, charge: 0, old: None };
        let request = request(reservation);
        !state.claims.contains_key(&request.key)
            && (self.is_full(state)
                || matches!(self.open(ledger, state.clone()).reserve(&request), LedgerVerdict::Retry(_)))
    }

    /// Without shares, a full ledger is full for everybody.
    fn is_full(&self, state: &State) -> bool {
        self.flaw == Flaw::NoShares && state.claims.len() >= self.max_claims
    }

    fn open(&self, ledger: usize, state: State) -> OpenLedger<'_> {
        let max_claims = if self.flaw == Flaw::NoShares { usize::MAX } else { self.max_claims };
        OpenLedger::new(&self.plans[ledger], state).with_limits(self.max_entries, max_claims)
    }

    /// The ledger as recounted by a leader; none if the leader has seen too little.
    pub fn recount(&mut self, ledger: usize, state: usize, seen: &LeaderCache) -> Option<usize> {
        let question = (ledger, state, seen.clone());
        if let Some(known) = self.recounted.get(&question) {
            return *known;
        }
        let before = self.states[state].clone();
        let after = self.recount_now(ledger, &before, seen).map(|after| match after {
            Some(after) => self.keep(after),
            None => state,
        });
        self.recounted.insert(question, after);
        after
    }

    fn recount_now(&self, ledger: usize, state: &State, seen: &LeaderCache) -> Option<Option<State>> {
        let cache = self.cache(seen);
        let mut released: BTreeSet<String> =
            (0..64).filter(|token| seen.released & (1 << token) != 0).map(|token| format!("t{token}")).collect();
        for (at, entry) in state.entries() {
            let stored = cache.get(at);
            let Some(attempt) = &entry.attempt else { continue };
            let is_resolved = match self.flaw {
                Flaw::SettledByName => stored.is_some(),
                Flaw::UpdatesSettledByUid => {
                    attempt.version.is_some() && stored.is_some_and(|stored| stored.uid == attempt.uid)
                }
                Flaw::VersionsOnlyDiffer => attempt.version.is_some_and(|version| {
                    stored.map_or(cache.revision(&at.kind), |s| Some(s.version)) != Some(version)
                }),
                _ => false,
            };
            if is_resolved {
                released.insert(entry.token.clone());
            }
        }
        let plan = &self.plans[ledger];
        let mut recounted = recount(plan, state, &cache, &cache.count_by_namespace(plan), &released).ok()?;
        if let (Flaw::NoFence, Some(recounted)) = (self.flaw, &mut recounted) {
            recounted.counted_at.clear();
        }
        Some(recounted)
    }

    pub fn entries(&self, state: usize) -> impl Iterator<Item = KnownEntry> {
        self.states[state].entries().map(|(key, entry)| KnownEntry {
            key: number(&key.kind),
            token: u8::try_from(number(&entry.token)).unwrap(),
            creates: entry
                .attempt
                .as_ref()
                .filter(|attempt| attempt.version.is_none() && !key.is_spare())
                .map(|attempt| u8::try_from(number(&attempt.uid)).unwrap()),
            is_merged: entry.attempt.is_none(),
        })
    }

    pub fn has_claims(&self, state: usize) -> bool {
        !self.states[state].claims.is_empty()
    }

    fn amounts(lists: &[ResourceList<'static>]) -> Vec<i64> {
        lists.iter().map(|list| list.get(NAME).map_or(0, Quantity::value)).collect()
    }

    pub fn used(&self, state: usize) -> Vec<i64> {
        Self::amounts(&self.states[state].used)
    }

    pub fn usage_with_claims(&self, ledger: usize, state: usize) -> Vec<i64> {
        Self::amounts(OpenLedger::new(&self.plans[ledger], self.states[state].clone()).usage_with_claims())
    }

    pub fn nodes(&self, ledger: usize, key: usize) -> Vec<usize> {
        self.plans[ledger].nodes_of(&format!("n{key}"))
    }
}
