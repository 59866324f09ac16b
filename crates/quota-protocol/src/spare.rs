//! Spares: claims for creates that are expected, so that these are allowed without a write.
//!
//! A replica that is asked for many equal objects of a namespace writes claims for more of them than have come. A create that
//! takes such a spare is allowed at once, and the spare holds its room; the replica's next write replaces the spare by
//! the create's own claim. If the replica is killed before, nobody knows which creates took its spares, so each stays until
//! the last request that may have taken it is over and all that was stored meanwhile is counted. A plan is activated only when
//! no spare of the one before may be taken any more.

use std::sync::Arc;
use std::time::Duration;

use headroom_admission::amount::ResourceList;

use crate::footprint::Footprint;
use crate::ledger::{LedgerVerdict, MAX_ENTRIES, OpenLedger, reserved, with_entry};
use crate::plan::PlanNode;
use crate::reservation_request::ReservationRequest;
use crate::state::{ObjectKey, State};

/// The time during which a spare may be taken, from the beginning of the write that added it.
pub const USABLE: Duration = Duration::from_secs(1);

/// All spares together take at most this part of what a quota has left, so that they are no reason to refuse others.
const PART: u64 = 16;

/// Before the name of a spare. No object's name contains it.
const MARK: char = '/';

/// A spare's name: nobody else writes those of this owner.
pub fn name(owner: &str, token: &str) -> String {
    format!("{MARK}{owner}/{token}")
}

impl ObjectKey {
    pub fn is_spare(&self) -> bool {
        self.name.starts_with(MARK)
    }

    pub fn is_spare_of(&self, owner: &str) -> bool {
        self.name.strip_prefix(MARK).and_then(|name| name.split_once('/')).is_some_and(|(of, _)| of == owner)
    }
}

impl ReservationRequest {
    /// The reservation of a spare, without its name.
    pub fn spare(kind: &str, namespace: &str, footprint: &Arc<Footprint>) -> Self {
        Self { key: ObjectKey::new(kind, namespace, ""), footprint: Arc::clone(footprint), ..Self::default() }
    }

    /// Returns true if a spare has all that this request needs: it creates an object of which nothing is counted yet.
    pub fn may_take_a_spare(&self) -> bool {
        self.attempt.version.is_none() && self.counted.is_none() && self.pod.is_none() && !self.may_exceed
    }
}

impl State {
    /// Replaces a spare by the claim of the create that took it. Returns false if too many requests for its key are unfinished;
    /// the spare then stays.
    pub fn replace_spare(&mut self, spare: &ObjectKey, by: &ReservationRequest) -> bool {
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
    ) -> Vec<ObjectKey> {
        let Some(claim) = with_entry(None, like, MAX_ENTRIES) else { return Vec::new() };
        let plan = self.plan;
        let nodes = plan.nodes_of(&like.key.namespace).into_iter().filter_map(|at| Some((at, plan.nodes.get(at)?)));
        let amounts: Vec<_> = nodes.map(|(at, node)| (at, node, reserved(&claim, node))).collect();
        let mut added = Vec::new();
        while added.len() < wanted && self.has_room_for_spare(&like.key.namespace, &amounts) {
            let token = token();
            let key = ObjectKey { name: name(owner, &token), ..like.key.clone() };
            if self.reserve(&ReservationRequest { key: key.clone(), token, ..like.clone() }) != LedgerVerdict::Granted {
                break;
            }
            added.push(key);
        }
        added
    }

    /// Returns true if others keep most of what the quotas have left, and room for as many claims, in number and in length, as
    /// all spares take. The amounts are those of one spare, by node.
    fn has_room_for_spare(&mut self, namespace: &str, amounts: &[(usize, &PlanNode, ResourceList<'static>)]) -> bool {
        let (room, held) = (self.room(namespace), self.loads().spares);
        let leaves_most = |(at, node, amounts): &(usize, &PlanNode, ResourceList<'static>)| {
            amounts.iter().all(|(name, amount)| {
                let of = |sums: &[ResourceList<'static>]| sums.get(*at).and_then(|sums| sums.get(name)).cloned();
                let Some((total, hard)) = of(&self.usage_with_claims).zip(node.hard.get(name)) else { return false };
                let spares = of(&self.in_spares).map_or(amount.clone(), |spares| spares.plus(amount));
                total.plus(amount).plus(&spares.times_count(PART - 1)) <= *hard
            })
        };
        room.claims > held.claims && room.bytes > held.bytes && amounts.iter().all(leaves_most)
    }
}
