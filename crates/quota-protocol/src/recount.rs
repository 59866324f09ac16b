//! Recount: `used` is recounted from stored objects, and claims whose outcome is known are removed.
//!
//! A recount is safe without a lease: the ledger records the revision that it was counted at, and a replica that has
//! seen less must not recount it.

use std::collections::BTreeSet;

use crate::cache::{Cache, Count};
use crate::ledger::base_of;
use crate::plan::Plan;
use crate::state::{Attempt, Claim, ClaimEntry, ObjectKey, State};

/// The state recounted by a plan, from a cache and its count by the plan; none if nothing changes. `released` are the tokens
/// of entries whose request is over and for which a live read showed nothing that the cache lacks. An error is the message
/// about a cache that has seen less than the replica that recounted before.
pub fn recount(
    plan: &Plan,
    state: &State,
    cache: &Cache,
    count: &Count,
    released: &BTreeSet<String>,
) -> Result<Option<State>, String> {
    let kinds = plan.watched_kinds();
    for (kind, counted) in &state.counted_at {
        if let Some(seen) = cache.revision(kind).filter(|seen| seen < counted) {
            return Err(format!(
                "{kind} were already counted at revision {counted}; this replica has seen only revision {seen}"
            ));
        }
    }
    let mut counted_at = state.counted_at.clone();
    for kind in &kinds {
        if let Some(seen) = cache.revision(kind) {
            counted_at.insert(kind.clone(), seen);
        }
    }
    let mut recounted = State { plan: plan.number, used: count.used().to_vec(), counted_at, ..State::default() };
    for (key, claim) in &state.claims {
        let is_charged = kinds.contains(&key.kind) && plan.namespaces.contains_key(&key.namespace);
        if !is_charged {
            continue;
        }
        let entries: Vec<ClaimEntry> = claim
            .entries
            .iter()
            .filter(|entry| !released.contains(&entry.token) && !is_resolved(key, entry, cache))
            .cloned()
            .collect();
        if entries.is_empty() {
            continue;
        }
        let base = cache.counted_of(key, &entries).and_then(|counted| base_of(&counted)).into_iter().collect();
        recounted.claims.insert(key.clone(), Claim { base, entries });
    }
    let is_new = recounted.plan != state.plan || recounted.used != state.used || recounted.claims != state.claims;
    Ok(is_new.then_some(recounted))
}

/// Returns true if the cache shows the outcome of an attempt.
fn is_resolved(key: &ObjectKey, entry: &ClaimEntry, cache: &Cache) -> bool {
    let Some(Attempt { uid, version }) = &entry.attempt else { return false };
    let stored = cache.get(key);
    match version {
        None => stored.is_some_and(|stored| stored.uid == *uid) || cache.was_deleted(uid),
        // Greater, not merely different: the cache may be older than the reviewed object.
        Some(version) => match stored {
            Some(stored) => stored.version > *version,
            None => cache.revision(&key.kind).is_some_and(|seen| seen > *version),
        },
    }
}
