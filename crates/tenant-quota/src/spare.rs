//! Spares: claims for creates that are expected, so that these are allowed without a write.
//!
//! A replica that is asked for many equal objects of a namespace writes claims for more of them than have come. A create that
//! takes such a spare is allowed at once, and the spare holds its room; the replica's next write replaces the spare by
//! the create's own claim. If the replica is killed before, nobody knows which creates took its spares, so each stays until
//! the last request that may have taken it is over and all that was stored meanwhile is counted. A plan is activated only when
//! no spare of the one before may be taken any more.

use std::sync::Arc;
use std::time::Duration;

use headroom_core::amount::{Quantity, ResourceList};

use crate::footprint::Footprint;
use crate::ledger::{MAX_CLAIM_BYTES, MAX_ENTRIES, OpenLedger, Verdict, bytes_of, reserved, with_entry};
use crate::plan::Node;
use crate::reservation_request::ReservationRequest;
use crate::state::{Attempt, Key, State};

/// How long after the beginning of the write that added it a spare may be taken.
pub const USABLE: Duration = Duration::from_secs(1);

/// All spares together take at most this part of what a quota has left, so that they are no reason to refuse others.
const PART: u64 = 16;
/// Spares take at most this part of the claims that a tenant may still have.
const PART_OF_CLAIMS: usize = 8;

/// Before the name of a spare. No object's name contains it.
const MARK: char = '/';

/// A spare's name: nobody else writes those of this owner.
pub fn name(owner: &str, token: &str) -> String {
    format!("{MARK}{owner}/{token}")
}

impl Key {
    pub fn is_spare(&self) -> bool {
        self.name.starts_with(MARK)
    }

    /// Returns true if this owner has written the spare.
    pub fn is_spare_of(&self, owner: &str) -> bool {
        self.name.strip_prefix(MARK).and_then(|name| name.split_once('/')).is_some_and(|(of, _)| of == owner)
    }
}

impl ReservationRequest {
    /// The reservation of a spare, without its name.
    pub fn spare(kind: &str, namespace: &str, footprint: &Arc<Footprint>) -> Self {
        Self {
            key: Key::new(kind, namespace, ""),
            token: String::new(),
            attempt: Attempt { uid: String::new(), version: None },
            footprint: Arc::clone(footprint),
            counted: None,
            pod: None,
            may_exceed: false,
        }
    }

    /// Returns true if a spare has all that this request needs: it creates an object of which nothing is counted yet.
    pub fn may_take_a_spare(&self) -> bool {
        self.attempt.version.is_none() && self.counted.is_none() && self.pod.is_none() && !self.may_exceed
    }
}

impl State {
    /// Replaces a spare by the claim of the create that took it. Returns false if too many requests for its key are unfinished;
    /// the spare then stays.
    pub fn replace_spare(&mut self, spare: &Key, by: &ReservationRequest) -> bool {
        let was = self.claims.get(&by.key);
        if !was.is_some_and(|claim| claim.has(&by.token)) {
            let Some(claim) = with_entry(was, by, MAX_ENTRIES) else { return false };
            self.claims.insert(by.key.clone(), claim);
        }
        self.claims.remove(spare);
        true
    }
}

impl OpenLedger<'_> {
    /// Adds spares like this one, at most as many as are wanted, and returns their keys.
    pub fn add_spares(
        &mut self,
        like: &ReservationRequest,
        wanted: usize,
        owner: &str,
        mut token: impl FnMut() -> String,
    ) -> Vec<Key> {
        let mut added = Vec::new();
        for _ in 0..self.room_for_spares(like, wanted) {
            let token = token();
            let key = Key { name: name(owner, &token), ..like.key.clone() };
            if self.reserve(&ReservationRequest { key: key.clone(), token, ..like.clone() }) != Verdict::Granted {
                break;
            }
            added.push(key);
        }
        added
    }

    /// How many of the spares that are wanted leave most of what is left to others.
    fn room_for_spares(&mut self, like: &ReservationRequest, wanted: usize) -> usize {
        let Some(claim) = with_entry(None, like, MAX_ENTRIES) else { return 0 };
        let plan = self.plan;
        let nodes = plan.nodes_of(&like.key.namespace).into_iter().filter_map(|at| Some((at, plan.nodes.get(at)?)));
        let amounts: Vec<_> = nodes.map(|(at, node)| (at, node, reserved(&claim, node))).collect();
        // All spares together take the part: those that are there already count again for what they leave to others.
        let in_spares = |at: usize, node: &Node| {
            let mut sum = ResourceList::default();
            let spares = self.state().claims.iter().filter(|(key, _)| key.is_spare());
            for (_, spare) in spares.filter(|(key, _)| plan.nodes_of(&key.namespace).contains(&at)) {
                sum.add_all(&reserved(spare, node));
            }
            sum
        };
        let mut amounts_at = Vec::new();
        for (at, node, amounts) in &amounts {
            let (held, in_spares) = (self.usage_with_claims.get(*at), in_spares(*at, node));
            for (name, amount) in amounts.iter() {
                let others = in_spares.get(name).map_or(Quantity::ZERO, |sum| sum.times_count(PART - 1));
                let total = held.and_then(|held| held.get(name)).map(|held| held.plus(&others));
                amounts_at.push((total, node.hard.get(name), amount));
            }
        }
        let fits = |spares: &usize| {
            amounts_at.iter().all(|(total, hard, amount)| {
                let with = total.as_ref().map(|total| total.plus(&amount.times_count(*spares as u64 * PART)));
                with.zip(*hard).is_some_and(|(with, hard)| with <= *hard)
            })
        };
        let spares = std::iter::successors(Some(wanted), |spares| Some(spares / 2)).take_while(|spares| *spares > 0);
        let spares = spares.into_iter().find(fits).unwrap_or_default();
        let room = self.room(&like.key.namespace);
        let bytes = bytes_of(like).unwrap_or(MAX_CLAIM_BYTES);
        spares.min(room.claims / PART_OF_CLAIMS).min(room.bytes / PART_OF_CLAIMS / bytes)
    }
}
