//! The spares that this replica has written, and the creates that took one and have no claim of their own yet.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_api_server::parts::locked;
use headroom_api_server::random::token;
use headroom_quota_protocol::reservation_request::ReservationRequest;
use headroom_quota_protocol::spare::USABLE;
use headroom_quota_protocol::state::ObjectKey;
use headroom_quota_protocol::{Footprint, OpenLedger, State};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ledger_cache::View;

/// As many spares are held as equal creates came within this time.
const EXPECTED_FOR: Duration = Duration::from_millis(500);
/// The maximum number of spares of one group.
const MAX_SPARES: usize = 64;
/// Longer than spares are of interest to whoever waits until none may be taken.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// The maximum number of groups of creates of a ledger that are observed.
const MAX_GROUPS: usize = 64;

pub struct Spares {
    /// Tells this replica's spares from those of others.
    owner: String,
    by_ledger: Mutex<HashMap<String, Vec<SpareGroup>>>,
    /// By token: when [`Self::may_be_taken`] first saw the spare, of any replica.
    seen: Mutex<HashMap<String, Instant>>,
    /// Once it is cancelled, no more spares are taken or written, so that all are given back before the replica ends.
    stop: CancellationToken,
}

/// Creates of one kind in one namespace with the same charge, of which one can take the spare of another.
#[derive(Default)]
struct SpareGroup {
    /// A spare of them, without its name.
    like: ReservationRequest,
    /// The times of the last creates.
    came: VecDeque<Instant>,
    /// The oldest first.
    free: VecDeque<Spare>,
    taken: Vec<Taken>,
    /// More were asked for since the last write.
    is_asked_for_more: bool,
}

struct Spare {
    key: ObjectKey,
    /// The number of the plan that it was written with.
    plan: u64,
    until: Instant,
}

struct Taken {
    spare: ObjectKey,
    by: ReservationRequest,
    /// The time by which the create must have a claim of its own.
    due: Instant,
}

/// Spares that were added to a ledger, with their charge.
pub type Added = Vec<(ObjectKey, Arc<Footprint>)>;

#[derive(Debug, PartialEq, Eq)]
pub enum SpareTaken {
    None,
    One,
    /// A spare, and it is time to write more.
    OneOfFew,
}

impl SpareGroup {
    fn is_of(&self, key: &ObjectKey, footprint: &Arc<Footprint>) -> bool {
        let of = &self.like.key;
        of.namespace == key.namespace && of.kind == key.kind && self.like.footprint == *footprint
    }

    /// Forgets what is too long ago. Spares of an earlier plan may have no room in its bounds.
    fn forget(&mut self, now: Instant, plan: u64) {
        while self.came.front().is_some_and(|at| now.duration_since(*at) > EXPECTED_FOR) {
            self.came.pop_front();
        }
        self.free.retain(|spare| spare.until > now && spare.plan == plan);
    }

    /// None for a single create: it may be the only one.
    fn expected(&self) -> usize {
        Some(self.came.len()).filter(|came| *came > 1).unwrap_or_default()
    }

    fn is_short(&self) -> bool {
        self.free.len() <= self.expected() / 2
    }

    /// The number of spares to add. A few are no reason for a write.
    fn wanted(&self) -> usize {
        if self.is_short() { self.expected() - self.free.len() } else { 0 }
    }
}

impl Spares {
    pub fn new(stop: CancellationToken) -> Self {
        Self { owner: token(), by_ledger: Mutex::default(), seen: Mutex::default(), stop }
    }

    /// Takes a spare for a create that this ledger charges. The create may be allowed at once.
    pub fn take(&self, view: &View, request: &ReservationRequest) -> SpareTaken {
        if !request.may_take_a_spare() || self.stop.is_cancelled() {
            return SpareTaken::None;
        }
        let now = Instant::now();
        let mut by_ledger = locked(&self.by_ledger);
        let groups = by_ledger.entry(view.ledger.clone()).or_default();
        let is_its = |group: &SpareGroup| group.is_of(&request.key, &request.footprint);
        let at = groups.iter().position(is_its).unwrap_or(groups.len());
        if at == groups.len() && at < MAX_GROUPS {
            let ObjectKey { kind, namespace, .. } = &request.key;
            let like = ReservationRequest::spare(kind, namespace, &request.footprint);
            groups.push(SpareGroup { like, ..SpareGroup::default() });
        }
        let Some(group) = groups.get_mut(at) else { return SpareTaken::None };
        group.came.push_back(now);
        if group.came.len() > MAX_SPARES {
            group.came.pop_front();
        }
        group.forget(now, view.plan.number);
        // Requests for one key share a claim.
        let is_claimed =
            view.state.claims.contains_key(&request.key) || group.taken.iter().any(|other| other.by.key == request.key);
        let Some(spare) = group.free.pop_front_if(|_| !is_claimed) else { return SpareTaken::None };
        group.taken.push(Taken { spare: spare.key, by: request.clone(), due: now + USABLE });
        if !group.is_short() || std::mem::replace(&mut group.is_asked_for_more, true) {
            return SpareTaken::One;
        }
        SpareTaken::OneOfFew
    }

    /// Returns true if a replica may still take a spare of this state. A plan that takes its place would not hold for what takes it.
    pub fn may_be_taken(&self, state: &State) -> bool {
        let now = Instant::now();
        let mut seen = locked(&self.seen);
        seen.retain(|_, at| now.duration_since(*at) < REMEMBERED_FOR);
        let spares = state.entries().filter(|(key, _)| key.is_spare());
        let first_seen = spares.map(|(_, entry)| *seen.entry(entry.token.clone()).or_insert(now));
        // All are noted, not only those up to the first that may be taken.
        first_seen.filter(|at| now.duration_since(*at) < USABLE).count() > 0
    }

    /// The time by which the ledger must be written because of its spares; none if it has none.
    pub fn due(&self, ledger: &str) -> Option<Instant> {
        let by_ledger = locked(&self.by_ledger);
        let groups = by_ledger.get(ledger)?.iter();
        let of = |group: &SpareGroup| {
            let free = group.free.iter().map(|spare| spare.until);
            free.chain(group.taken.iter().map(|taken| taken.due)).min()
        };
        groups.filter_map(of).min()
    }

    /// Gives the creates that took a spare claims of their own, and removes spares that nobody is expected for. Returns the
    /// tokens of these creates; once the state is written, [`Self::written`] must be called.
    pub fn settle(&self, ledger: &str, state: &mut State, cancelled: &[&String]) -> Vec<String> {
        let now = Instant::now();
        let is_stopping = self.stop.is_cancelled();
        let mut by_ledger = locked(&self.by_ledger);
        let mut recorded = Vec::new();
        let mut kept = HashSet::new();
        for group in by_ledger.get_mut(ledger).into_iter().flatten() {
            group.taken.retain(|taken| !cancelled.contains(&&taken.by.token));
            group.forget(now, state.plan);
            if group.expected() == 0 || is_stopping {
                group.free.clear();
            }
            for Taken { spare, by, due } in &mut group.taken {
                if state.replace_spare(spare, by) {
                    recorded.push(by.token.clone());
                } else {
                    kept.insert(spare.clone());
                    *due = now + USABLE;
                }
            }
            kept.extend(group.free.iter().map(|spare| spare.key.clone()));
        }
        by_ledger.retain(|_, groups| {
            groups.retain(|group| !(group.came.is_empty() && group.free.is_empty() && group.taken.is_empty()));
            !groups.is_empty()
        });
        state.claims.retain(|key, _| !key.is_spare_of(&self.owner) || kept.contains(key));
        recorded
    }

    /// Adds spares to the ledger where few are left of those that are expected.
    pub fn add(&self, ledger: &str, open: &mut OpenLedger<'_>) -> Added {
        if self.stop.is_cancelled() {
            return Vec::new();
        }
        let by_ledger = locked(&self.by_ledger);
        let mut added = Vec::new();
        for group in by_ledger.get(ledger).into_iter().flatten() {
            let wanted = group.wanted();
            if wanted > 0 {
                let keys = open.add_spares(&group.like, wanted, &self.owner, token).into_iter();
                added.extend(keys.map(|key| (key, Arc::clone(&group.like.footprint))));
            }
        }
        added
    }

    /// The ledger was written by a plan, which began at this time: with claims for these creates, and with these spares.
    pub fn written(&self, ledger: &str, recorded: &[String], added: Added, plan: u64, began: Instant) {
        let mut by_ledger = locked(&self.by_ledger);
        let Some(groups) = by_ledger.get_mut(ledger) else { return };
        for group in groups.iter_mut() {
            group.is_asked_for_more = false;
            group.taken.retain(|taken| !recorded.contains(&taken.by.token));
        }
        for (key, footprint) in added {
            if let Some(group) = groups.iter_mut().find(|group| group.is_of(&key, &footprint)) {
                group.free.push_back(Spare { key, plan, until: began + USABLE });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_quota_protocol::plan::Plan;
    use headroom_quota_protocol::state::Attempt;

    use super::*;

    /// A ledger, and the spares of its only replica.
    struct Ledger {
        spares: Spares,
        view: View,
    }

    impl Ledger {
        fn new() -> Self {
            let plan = Arc::new(Plan::read(1, &["team 1 - pods=1000"], &["shop 0"]).unwrap());
            let used = vec![headroom_quota_protocol::encoding::read_amounts("pods=0").unwrap()];
            let state = Arc::new(State { plan: 1, used, ..State::default() });
            let spares = Spares::new(CancellationToken::new());
            Self { spares, view: View { ledger: "team".to_owned(), revision: 1, plan, state } }
        }

        fn take(&self, name: &str) -> SpareTaken {
            self.spares.take(&self.view, &create(name))
        }

        /// The names of claims after a write; those of spares are `?`.
        fn write(&mut self, cancelled: &[&String]) -> Vec<String> {
            let (mut state, began) = (State::clone(&self.view.state), Instant::now());
            let recorded = self.spares.settle("team", &mut state, cancelled);
            let plan = Arc::clone(&self.view.plan);
            let mut open = OpenLedger::new(&plan, state);
            let added = self.spares.add("team", &mut open);
            self.view.state = Arc::new(open.into_state());
            self.spares.written("team", &recorded, added, plan.number, began);
            let keys = self.view.state.claims.keys();
            keys.map(|key| if key.is_spare() { "?".to_owned() } else { key.name.clone() }).collect()
        }
    }

    fn create(name: &str) -> ReservationRequest {
        let footprint = Arc::new(Footprint::read("pods=1").unwrap());
        let spare = ReservationRequest::spare("pods", "shop", &footprint);
        let attempt = Attempt { uid: format!("uid-{name}"), version: None };
        ReservationRequest {
            key: ObjectKey { name: name.to_owned(), ..spare.key },
            token: name.to_owned(),
            attempt,
            ..spare
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_of_equal_creates_leads_to_spares_and_the_next_ones_take_them() {
        let mut ledger = Ledger::new();
        assert_eq!(ledger.take("a"), SpareTaken::None);
        assert_eq!(ledger.write(&[]), Vec::<String>::new());
        assert_eq!(ledger.take("b"), SpareTaken::None);
        assert_eq!(ledger.write(&[]), ["?", "?"]);
        assert_eq!(ledger.take("c"), SpareTaken::OneOfFew);
        assert_eq!(ledger.take("d"), SpareTaken::One, "a write was asked for already");
        assert_eq!(ledger.take("e"), SpareTaken::None);
        // Their own claims, and spares for as many as came lately.
        assert_eq!(ledger.write(&[]), ["?", "?", "?", "?", "?", "c", "d"]);
        // Nobody is expected any more.
        tokio::time::advance(EXPECTED_FOR * 2).await;
        assert_eq!(ledger.write(&[]), ["c", "d"]);
        assert_eq!(ledger.spares.due("team"), None);
        assert!(locked(&ledger.spares.by_ledger).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_sure_to_have_room_takes_a_spare() {
        let mut ledger = Ledger::new();
        for name in ["a", "b"] {
            assert_eq!(ledger.take(name), SpareTaken::None);
        }
        assert_eq!(ledger.write(&[]), ["?", "?"]);
        let footprint = Arc::new(Footprint::read("pods=1 requests.cpu=1").unwrap());
        let attempt = Attempt { uid: "uid".to_owned(), version: Some(7) };
        let others = [
            ReservationRequest { footprint, ..create("c") },
            ReservationRequest { key: ObjectKey::new("pods", "web", "c"), ..create("c") },
            ReservationRequest { key: ObjectKey::new("services", "shop", "c"), ..create("c") },
            ReservationRequest { counted: Some(Arc::default()), ..create("c") },
            ReservationRequest { attempt, ..create("c") },
            ReservationRequest { may_exceed: true, ..create("c") },
        ];
        for other in others {
            assert_eq!(ledger.spares.take(&ledger.view, &other), SpareTaken::None, "{other:?}");
        }
        let (was, plan) = (ledger.view.clone(), Arc::new(Plan { number: 2, ..Plan::clone(&ledger.view.plan) }));
        assert_ne!(ledger.take("c"), SpareTaken::None);
        assert_eq!(ledger.take("c"), SpareTaken::None, "requests for one key share a claim");
        ledger.view.plan = plan;
        assert_eq!(ledger.take("d"), SpareTaken::None, "other bounds");
        ledger.view = was;
        assert_eq!(ledger.take("d"), SpareTaken::None, "the spare was given up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_spare_is_taken_for_a_second_only_and_a_plan_waits_for_that() {
        for (wait, may_be_taken, expected) in
            [(USABLE / 2, true, SpareTaken::OneOfFew), (USABLE, false, SpareTaken::None)]
        {
            let mut ledger = Ledger::new();
            assert!(!ledger.spares.may_be_taken(&ledger.view.state));
            ["a", "b"].iter().for_each(|name| _ = ledger.take(name));
            let began = Instant::now();
            ledger.write(&[]);
            assert_eq!(ledger.spares.due("team"), Some(began + USABLE));
            assert!(ledger.spares.may_be_taken(&ledger.view.state));
            tokio::time::advance(wait).await;
            assert_eq!(ledger.spares.may_be_taken(&ledger.view.state), may_be_taken);
            assert_eq!(ledger.take("c"), expected, "{wait:?}");
            assert!(!ledger.view.state.claims.is_empty(), "left until the next write");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_that_is_not_allowed_after_all_gets_no_claim() {
        let mut ledger = Ledger::new();
        for name in ["a", "b", "c", "d"] {
            ledger.take(name);
            ledger.write(&[]);
        }
        assert_eq!(ledger.write(&[]), ["?", "?", "?", "?", "c", "d"]);
        assert_ne!(ledger.take("e"), SpareTaken::None);
        assert_eq!(ledger.write(&[&"e".to_owned()]), ["?", "?", "?", "c", "d"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_ends_gives_its_spares_back_and_leaves_those_of_others() {
        let mut ledger = Ledger::new();
        for name in ["a", "b", "c"] {
            ledger.take(name);
            ledger.write(&[]);
        }
        ledger.spares.stop.cancel();
        assert_eq!(ledger.take("d"), SpareTaken::None);
        let mut other = Ledger { view: ledger.view.clone(), ..Ledger::new() };
        assert_eq!(ledger.write(&[]), ["c"]);
        assert!(other.write(&[]).contains(&"?".to_owned()), "of the other replica");
    }
}
