//! The states of the model, their possible next steps, and the properties that are checked.

use std::fmt;

use super::ledgers::{KnownEntry, LeaderCache, Ledgers, Reservation, SPARE, Thing};
use super::scenarios::{Flaw, Scenario, Verb};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Review,
    Admitted,
    Stored,
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Request {
    phase: Phase,
    old: Option<Thing>,
    handlers: Vec<Handler>,
    deliveries: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Reserve,
    Undo,
    Allow,
    Deny,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Handler {
    token: u8,
    /// True if the API server still waits for its response.
    attached: bool,
    stage: Stage,
    /// The index of the next ledger, among those that the key is charged to.
    at: usize,
    /// The ledger that it has read, in the variant without compare-and-swap.
    read: Option<usize>,
    /// The old object in the review.
    old: Option<Thing>,
}

/// The one spare of the model, in the first ledger of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Spare {
    phase: SparePhase,
    /// The token of the handler that took it.
    by: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SparePhase {
    Unwritten,
    /// Handlers may take it.
    Free,
    Taken,
    /// Nobody takes or replaces it any more: its time is over, or its replica has crashed.
    Left,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LeaderPhase {
    Inactive,
    List,
    Run,
    /// Not a leader, but the cache of an API server that lags.
    LaggingServer,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Leader {
    phase: LeaderPhase,
    seen: Option<LeaderCache>,
    pending: Vec<(usize, Thing)>,
    /// The version of the spare's key when the spare was over.
    noted: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    store: Vec<Thing>,
    requests: Vec<Request>,
    ledgers: Vec<usize>,
    spare: Spare,
    leaders: Vec<Leader>,
    lease: u8,
    deletes: Vec<usize>,
}

const INACTIVE: Leader = Leader { phase: LeaderPhase::Inactive, seen: None, pending: Vec::new(), noted: None };

/// A step: the actor, its number, and what it does.
#[derive(Debug, Clone, Copy)]
pub struct Step(&'static str, usize, &'static str);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.0, self.1, self.2)
    }
}

/// The first uid of objects that are stored at the start.
const FIRST_UID: u8 = 100;
/// The maximum number of reviews of one request.
const REVIEWS: u8 = 3;

pub struct Model<'s> {
    scenario: &'s Scenario,
    flaw: Flaw,
    ledgers: Ledgers,
}

type Next = Vec<(Step, World)>;

impl<'s> Model<'s> {
    pub fn new(scenario: &'s Scenario, flaw: Flaw) -> Self {
        Self { scenario, flaw, ledgers: Ledgers::new(scenario, flaw) }
    }

    pub fn start(&mut self) -> World {
        let thing = |(key, charge): (usize, &u8)| match charge {
            0 => Thing { uid: None, version: 0, charge: 0 },
            charge => Thing { uid: Some(FIRST_UID + key as u8), version: 1, charge: *charge },
        };
        let store: Vec<Thing> = self.scenario.objects.iter().enumerate().map(thing).collect();
        let mut leaders = vec![INACTIVE; self.scenario.leaders];
        if self.scenario.lagging {
            let seen = Some(LeaderCache { things: store.clone(), deleted: 0, released: 0 });
            leaders.push(Leader { phase: LeaderPhase::LaggingServer, seen, ..INACTIVE });
        }
        let idle = Request { phase: Phase::Idle, old: None, handlers: Vec::new(), deliveries: 0 };
        World {
            requests: vec![idle; self.scenario.requests.len()],
            ledgers: (0..self.scenario.hard.len()).map(|ledger| self.ledgers.first(ledger, &store)).collect(),
            store,
            spare: Spare { phase: SparePhase::Unwritten, by: None },
            leaders,
            lease: 0,
            deletes: self.scenario.deletes.clone(),
        }
    }

    pub fn next(&mut self, world: &World) -> Next {
        let mut next = Vec::new();
        for request in 0..world.requests.len() {
            self.request_steps(world, request, &mut next);
            for handler in 0..world.requests[request].handlers.len() {
                self.handler_steps(world, request, handler, &mut next);
            }
        }
        for key in world.deletes.iter().filter(|key| world.store[**key].uid.is_some()) {
            let version = world.store[*key].version + 1;
            let mut after = write(world, *key, Thing { uid: None, version, charge: 0 });
            after.deletes.retain(|deleted| deleted != key);
            next.push((Step("key", *key, "is deleted"), after));
        }
        self.spare_steps(world, &mut next);
        for leader in 0..world.leaders.len() {
            self.leader_steps(world, leader, &mut next);
        }
        next
    }

    fn spare_steps(&mut self, world: &World, next: &mut Next) {
        let Some((key, charge)) = self.scenario.spare else { return };
        let ledger = self.scenario.places[key][0].0;
        let Spare { phase, by } = world.spare;
        let mut step = |what, written: Option<usize>, phase| {
            let mut after = world.clone();
            after.spare.phase = phase;
            after.ledgers[ledger] = written.unwrap_or(world.ledgers[ledger]);
            next.push((Step("spare", 0, what), after));
        };
        match phase {
            SparePhase::Unwritten => {
                if let Some(written) = self.ledgers.add_spare(ledger, world.ledgers[ledger], key, charge) {
                    step("is written", Some(written), SparePhase::Free);
                    if self.scenario.lost {
                        step("is written, and the response is lost", Some(written), SparePhase::Left);
                    }
                }
            }
            SparePhase::Free => step("is no longer taken", None, SparePhase::Left),
            SparePhase::Taken => {
                let reservation = self.taken_by(by.unwrap());
                if let Some(written) = self.ledgers.replace_spare(world.ledgers[ledger], key, reservation) {
                    step("is replaced", Some(written), SparePhase::Gone);
                    if self.scenario.lost {
                        step("is replaced, and the response is lost", Some(written), SparePhase::Taken);
                    }
                }
                step("is left by a crash", None, SparePhase::Left);
            }
            SparePhase::Left if by.is_none() => {
                let written = self.ledgers.remove_spare(world.ledgers[ledger], key);
                step("is given back", Some(written), SparePhase::Gone);
            }
            SparePhase::Left | SparePhase::Gone => {}
        }
    }

    /// The reservation of the handler that took the spare.
    fn taken_by(&self, token: u8) -> Reservation {
        let at = token / REVIEWS;
        let (_, key, charge) = self.scenario.requests[usize::from(at)];
        Reservation { key, token, uid: at, charge, old: None }
    }

    /// Returns true if every request that may have taken the spare is over.
    fn is_spare_over(&self, world: &World) -> bool {
        let is_over =
            |token: u8| matches!(world.requests[usize::from(token / REVIEWS)].phase, Phase::Over | Phase::Stored);
        let may_be_taken = matches!(world.spare.phase, SparePhase::Unwritten | SparePhase::Free);
        (!may_be_taken || self.flaw == Flaw::SpareTakenLate) && world.spare.by.is_none_or(is_over)
    }

    fn request_steps(&self, world: &World, at: usize, next: &mut Next) {
        let (verb, key, charge) = self.scenario.requests[at];
        let request = &world.requests[at];
        let live = world.store[key];
        let old = (verb == Verb::Update).then_some(live);
        let may_review_again = request.deliveries < self.scenario.deliveries[at];
        let mut step = |what, after| next.push((Step("request", at, what), after));
        match request.phase {
            Phase::Idle if verb == Verb::Create || live.uid.is_some() => {
                step("is reviewed", deliver(world, at, old));
            }
            Phase::Review => {
                step("is refused by another webhook, or abandoned", given_up(world, at));
                if may_review_again {
                    step("is sent to another replica too", deliver(world, at, request.old));
                }
            }
            Phase::Admitted => {
                step("fails after admission", given_up(world, at));
                let (uid, version) = (at as u8, live.version + 1);
                let stored = |uid| {
                    let mut after = write(world, key, Thing { uid: Some(uid), version, charge });
                    after.requests[at].phase = Phase::Stored;
                    after
                };
                match verb {
                    Verb::Create if live.uid.is_none() => step("is stored", stored(uid)),
                    Verb::Update if Some(live.version) == request.old.map(|old| old.version) => {
                        step("is stored", stored(live.uid.unwrap()));
                    }
                    Verb::Update if live.uid.is_some() && may_review_again => {
                        step("conflicts, and is reviewed again", deliver(world, at, old));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn handler_steps(&mut self, world: &World, at: usize, which: usize, next: &mut Next) {
        let (verb, key, charge) = self.scenario.requests[at];
        let handler = world.requests[at].handlers[which].clone();
        let mut step = |what, after| next.push((Step("handler", handler.token.into(), what), after));
        let put = |handler: Handler| changed(world, |after| after.requests[at].handlers[which] = handler);
        let end = |phase: Phase| {
            changed(world, |after| {
                after.requests[at].handlers.remove(which);
                if handler.attached {
                    after.requests[at].phase = phase;
                }
            })
        };
        // The API server sees a crash as an error and refuses the request: failurePolicy Fail.
        let crashed = if self.flaw == Flaw::FailurePolicyIgnore { Phase::Admitted } else { Phase::Over };
        step("crashes", end(crashed));
        let places = &self.scenario.places[key];
        let reserved = match handler.stage {
            Stage::Reserve => handler.at,
            Stage::Allow => places.len(),
            Stage::Undo | Stage::Deny => 0,
        };
        let back_from = |reserved: usize| {
            let (stage, at) = if reserved == 0 { (Stage::Deny, 0) } else { (Stage::Undo, reserved - 1) };
            put(Handler { stage, at, read: None, ..handler.clone() })
        };
        // An API server that gives up closes its connection. The handler may notice that at any time, or never.
        if !handler.attached && reserved > 0 {
            step("notices that the API server gave up", back_from(reserved));
        }
        match handler.stage {
            Stage::Reserve => {
                let ledger = places[handler.at].0;
                let mut state = world.ledgers[ledger];
                let mut after = handler.clone();
                if self.flaw == Flaw::NoCompareAndSwap {
                    let Some(read) = after.read.take() else {
                        after.read = Some(state);
                        step("reads", put(after));
                        return;
                    };
                    state = read;
                }
                if handler.at + 1 < places.len() {
                    after.at += 1;
                } else {
                    after.stage = Stage::Allow;
                }
                let is_spared = handler.at == 0 && self.scenario.spare == Some((key, charge));
                if is_spared && verb == Verb::Create && world.spare.phase == SparePhase::Free {
                    let mut after = put(after.clone());
                    after.spare = Spare { phase: SparePhase::Taken, by: Some(handler.token) };
                    step("takes the spare", after);
                }
                let uid = handler.old.map_or(at as u8, |old| old.uid.unwrap());
                let reservation = Reservation { key, token: handler.token, uid, charge, old: handler.old };
                match self.ledgers.reserve(ledger, state, reservation) {
                    None => step("finds no room", back_from(handler.at)),
                    Some(reserved) => {
                        let with = |world: &World| changed(world, |after| after.ledgers[ledger] = reserved);
                        step("reserves", with(&put(after)));
                        if self.scenario.lost && reserved != world.ledgers[ledger] {
                            step("reserves, and the response is lost", with(world));
                        }
                    }
                }
            }
            Stage::Undo => {
                let ledger = places[handler.at].0;
                let all = (0..REVIEWS).map(|delivery| at as u8 * REVIEWS + delivery).collect();
                let tokens = if self.flaw == Flaw::UndoneByReview { all } else { vec![handler.token] };
                let mut back = self.ledgers.cancel(world.ledgers[ledger], key, &tokens);
                let has_spare = world.spare == Spare { phase: SparePhase::Taken, by: Some(handler.token) };
                if handler.at == 0 && has_spare {
                    back = self.ledgers.remove_spare(back, key);
                }
                let mut after = back_from(handler.at);
                after.ledgers[ledger] = back;
                if handler.at == 0 && has_spare {
                    after.spare.phase = SparePhase::Gone;
                }
                step("takes back", after);
            }
            Stage::Allow => step("allows", end(Phase::Admitted)),
            Stage::Deny => step("refuses", end(Phase::Over)),
        }
    }

    fn leader_steps(&mut self, world: &World, at: usize, next: &mut Next) {
        let leader = &world.leaders[at];
        let mut step = |what, after| next.push((Step("leader", at, what), after));
        let put = |leader: Leader| changed(world, |after| after.leaders[at] = leader);
        if leader.seen.is_some() && !leader.pending.is_empty() {
            step("receives a watch event", put(advanced(leader)));
        }
        match leader.phase {
            LeaderPhase::LaggingServer => return,
            LeaderPhase::Inactive => {
                if world.lease < self.scenario.terms {
                    let mut after = put(Leader { phase: LeaderPhase::List, ..INACTIVE });
                    after.lease += 1;
                    step("becomes leader", after);
                }
                return;
            }
            LeaderPhase::List | LeaderPhase::Run => step("crashes", put(INACTIVE)),
        }
        if leader.phase == LeaderPhase::List {
            let listed = |things: &[Thing], pending: &[(usize, Thing)]| {
                let seen = Some(LeaderCache { things: things.to_vec(), deleted: 0, released: 0 });
                put(Leader { phase: LeaderPhase::Run, seen, pending: pending.to_vec(), noted: leader.noted })
            };
            step("lists", listed(&world.store, &[]));
            let lagging = world.leaders.iter().find(|leader| leader.phase == LeaderPhase::LaggingServer);
            if let Some(lagging) = lagging.filter(|lagging| !lagging.pending.is_empty()) {
                let seen = lagging.seen.as_ref().unwrap();
                step("lists from the lagging API server", listed(&seen.things, &lagging.pending));
            }
        }
        if leader.phase != LeaderPhase::Run {
            return;
        }
        let seen = leader.seen.as_ref().unwrap();
        for key in 0..world.store.len() {
            let over = self.over(world, key);
            if over & !seen.released != 0 && world.store[key] == seen.things[key] {
                let mut after = leader.clone();
                after.seen.as_mut().unwrap().released |= over;
                step("reads a key live, and it matches the cache", put(after));
            }
        }
        if let Some((key, _)) = self.scenario.spare
            && self.is_spare_over(world)
            && world.ledgers.iter().any(|state| self.ledgers.entries(*state).any(|entry| entry.token == SPARE))
        {
            let mut after = leader.clone();
            if leader.noted.is_none() {
                after.noted = Some(world.store[key].version);
                step("notes the revision at which the spare is over", put(after.clone()));
            }
            let has_seen = leader.noted.is_some_and(|noted| seen.things[key].version >= noted);
            if has_seen || self.flaw == Flaw::SpareReleasedBlindly {
                after.seen.as_mut().unwrap().released |= 1 << SPARE;
                step("has counted what took the spare", put(after));
            }
        }
        let mut acting = seen.clone();
        if self.flaw == Flaw::ReleasedBlindly {
            acting.released |= (0..world.store.len()).fold(0, |all, key| all | self.over(world, key));
        }
        for ledger in 0..world.ledgers.len() {
            let Some(recounted) = self.ledgers.recount(ledger, world.ledgers[ledger], &acting) else { continue };
            if recounted == world.ledgers[ledger] {
                continue;
            }
            let mut after = world.clone();
            after.ledgers[ledger] = recounted;
            let left = after.ledgers.iter().flat_map(|state| self.ledgers.entries(*state));
            let left = left.fold(0, |bits, entry| bits | 1 << entry.token);
            after.leaders[at].seen.as_mut().unwrap().released &= left;
            step("recounts", after);
        }
    }

    /// The tokens of a key's entries whose request is over, successful or not, as bits.
    fn over(&self, world: &World, key: usize) -> u64 {
        let is_over = |request: usize| matches!(world.requests[request].phase, Phase::Over | Phase::Stored);
        let is_idle_or_over = |request: usize| is_over(request) || world.requests[request].phase == Phase::Idle;
        let may_release = |entry: &KnownEntry| {
            let all = |is: &dyn Fn(usize) -> bool| {
                (0..world.requests.len()).filter(|at| self.scenario.requests[*at].1 == key).all(is)
            };
            entry.token != SPARE
                && (self.flaw == Flaw::ReleasedEarly
                    || if entry.is_merged { all(&is_idle_or_over) } else { is_over((entry.token / REVIEWS).into()) })
        };
        let entries = world.ledgers.iter().flat_map(|state| self.ledgers.entries(*state));
        let over = entries.filter(|entry| entry.key == key && may_release(entry));
        over.fold(0, |bits, entry| bits | 1 << entry.token)
    }

    fn count(&self, ledger: usize, store: &[Thing]) -> Vec<i64> {
        let mut used = vec![0; self.scenario.hard[ledger].len()];
        for (key, thing) in store.iter().enumerate() {
            for node in self.ledgers.nodes(ledger, key) {
                used[node] += i64::from(thing.charge);
            }
        }
        used
    }

    pub fn violation(&mut self, world: &World) -> Option<&'static str> {
        for ledger in 0..world.ledgers.len() {
            let stored = self.count(ledger, &world.store);
            let hard = &self.scenario.hard[ledger];
            if stored.iter().zip(hard).any(|(stored, hard)| *stored > i64::from(*hard)) {
                return Some("SAFE: stored objects exceed the bound");
            }
            let held = self.ledgers.usage_with_claims(ledger, world.ledgers[ledger]);
            if self.flaw == Flaw::None && held.iter().zip(&stored).any(|(held, stored)| held < stored) {
                return Some("SAFE: the ledger holds less than what is stored");
            }
        }
        for key in &self.scenario.never_waiting {
            let mut ledgers = self.scenario.places[*key].iter().map(|(ledger, _)| *ledger);
            if ledgers.any(|ledger| self.ledgers.is_crowded_out(ledger, world.ledgers[ledger], *key)) {
                return Some("FAIR: a tenant without claims waits for those of another");
            }
        }
        self.unclean(world)
    }

    /// Ends all requests and handlers, then recounts: by each active leader, and by a new one.
    fn unclean(&mut self, world: &World) -> Option<&'static str> {
        let mut ended = world.clone();
        for request in &mut ended.requests {
            request.phase = if request.phase == Phase::Stored { Phase::Stored } else { Phase::Over };
            request.handlers.clear();
        }
        let over = (0..ended.store.len()).fold(1 << SPARE, |all, key| all | self.over(&ended, key));
        let fresh = LeaderCache { things: world.store.clone(), deleted: 0, released: 0 };
        let active = world.leaders.iter().filter(|leader| leader.phase == LeaderPhase::Run);
        let up_to_date = active.map(|leader| {
            let mut leader = leader.clone();
            while !leader.pending.is_empty() {
                leader = advanced(&leader);
            }
            leader.seen.unwrap()
        });
        for seen in up_to_date.chain([fresh]).collect::<Vec<_>>() {
            for ledger in 0..world.ledgers.len() {
                let state = world.ledgers[ledger];
                // A leader that has seen less does not recount.
                let Some(recounted) = self.ledgers.recount(ledger, state, &seen) else { continue };
                let mut left = self.ledgers.entries(recounted);
                if left.any(|entry| entry.creates.is_some() && entry.creates == world.store[entry.key].uid) {
                    return Some("PROMPT: a claim remains although its object has been seen");
                }
                drop(left);
                let seen = LeaderCache { released: seen.released | over, ..seen.clone() };
                let Some(recounted) = self.ledgers.recount(ledger, state, &seen) else { continue };
                if self.ledgers.has_claims(recounted)
                    || self.ledgers.used(recounted) != self.count(ledger, &world.store)
                {
                    return Some("CLEAN: settling leaves a claim or a wrong count");
                }
            }
        }
        None
    }
}

fn changed(world: &World, change: impl FnOnce(&mut World)) -> World {
    let mut after = world.clone();
    change(&mut after);
    after
}

fn write(world: &World, key: usize, thing: Thing) -> World {
    changed(world, |after| {
        after.store[key] = thing;
        for leader in after.leaders.iter_mut().filter(|leader| leader.seen.is_some()) {
            leader.pending.push((key, thing));
        }
    })
}

fn deliver(world: &World, at: usize, old: Option<Thing>) -> World {
    let mut after = world.clone();
    let request = &mut after.requests[at];
    request.handlers.iter_mut().for_each(|handler| handler.attached = false);
    let token = at as u8 * REVIEWS + request.deliveries;
    request.handlers.push(Handler { token, attached: true, stage: Stage::Reserve, at: 0, read: None, old });
    request.deliveries += 1;
    (request.phase, request.old) = (Phase::Review, old);
    after
}

fn given_up(world: &World, at: usize) -> World {
    changed(world, |after| {
        after.requests[at].phase = Phase::Over;
        after.requests[at].handlers.iter_mut().for_each(|handler| handler.attached = false);
    })
}

/// The leader after its next watch event.
fn advanced(leader: &Leader) -> Leader {
    let mut leader = leader.clone();
    let (key, thing) = leader.pending.remove(0);
    if let Some(seen) = &mut leader.seen {
        let was = seen.things[key];
        if let Some(uid) = was.uid.filter(|uid| *uid < FIRST_UID && was.uid != thing.uid) {
            seen.deleted |= 1 << uid;
        }
        seen.things[key] = thing;
    }
    leader
}
