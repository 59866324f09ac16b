//! Checks whether the pods of a workload would fit the quotas, before any of them is created.
//!
//! A rollout is checked at two moments: at its start, with all old pods and the surge, and at its end, with all new
//! pods and as many old ones as the surge lets stay. Kubernetes itself checks only when the pods are created.

use super::{
    Applying, Bound, Bounds, Charged, Fault, Growth, Object, Outcome, Surge, Usage, applying_to, free, required_values,
    scope, unknown_status,
};
use crate::amount::Quantity;
use crate::json::Malformed;
use crate::request::rollout::{Renewal, Rollout};
use crate::request::{self, Pod};
use crate::truncate::Names;

/// Checks the pods of a rollout, created from `pod`, against the quotas, and adds the results to `outcome`. The
/// existing pods were created from `old`.
pub fn check<'d>(
    rollout: &Rollout,
    pod: &Pod<'d>,
    old: Option<&Pod<'d>>,
    bounds: &Bounds<'_, 'd>,
    outcome: &mut Outcome<'d>,
) -> Result<(), Malformed> {
    if bounds.quotas.is_empty() || rollout.wanted == 0 {
        return Ok(());
    }
    let pod = Object::of_pod(pod, request::Object::planned(pod));
    let old = old.map(|old| Object::of_pod(old, request::Object::planned(old)));
    let each = Usage::of(&pod, bounds.now)?;
    let old_each = old.map(|old| Usage::of(&old, bounds.now)).transpose()?.unwrap_or_else(|| each.clone());
    for quota in applying_to(&pod, bounds.quotas)? {
        if let Some(breach) = required_values::check(&pod, &quota).or_else(|| unknown_status(&quota)) {
            outcome.breaches.push(breach);
            continue;
        }
        let counted_before = match &old {
            Some(old) => scope::matches_all(old, quota.quota)?,
            None => true,
        };
        let pods = Pods { rollout, each: &each, old: counted_before.then_some(&old_each) };
        let excesses = outcome.charge(&quota, &|charged| pods.most(charged), &|_| Names::default());
        if !excesses.is_empty() {
            let growth = Some(pods.growth(&quota));
            outcome.breaches.push(quota.breach(Fault::Exceeded { excesses, growth }));
        }
    }
    Ok(())
}

/// The pods of a rollout as one quota sees them.
struct Pods<'a, 'd> {
    rollout: &'a Rollout,
    each: &'a Usage<'d>,
    /// The usage of each existing pod in this quota; none if the quota does not count them.
    old: Option<&'a Usage<'d>>,
}

impl<'d> Pods<'_, 'd> {
    /// The most that the rollout adds under a name at any moment; none if it adds nothing.
    fn most(&self, charged: Charged<'_>) -> Option<Quantity> {
        let Rollout { wanted, present, .. } = *self.rollout;
        let each = &self.each.amount(charged)?;
        let missing = wanted.saturating_sub(present);
        let most = match self.rollout.renewal {
            Renewal::Keeps => each.times_count(missing),
            Renewal::Replaces { surge: 0, kept, .. } => self.at_end(charged, each, 0, kept),
            Renewal::Replaces { surge, kept, .. } => {
                each.times_count(missing.saturating_add(surge)).max(self.at_end(charged, each, surge, kept))
            }
        };
        Some(most).filter(Quantity::is_positive)
    }

    /// The amount that is added once all new pods exist.
    fn at_end(&self, charged: Charged<'_>, each: &Quantity, surge: u64, kept: u64) -> Quantity {
        let Rollout { wanted, present, .. } = *self.rollout;
        let new = each.times_count(wanted.saturating_sub(kept));
        let Some(old) = self.old.and_then(|old| old.amount(charged)) else { return new };
        let gone = present.saturating_sub(surge);
        new.plus(&old.times_count(kept)).minus(&old.times_count(gone))
    }

    /// Counts the pods that fit at the end of the rollout.
    fn growth(&self, applying: &Applying<'_, 'd>) -> Growth {
        let Rollout { wanted, present, renewal, noun, assumption } = *self.rollout;
        let staying = match renewal {
            Renewal::Keeps => present.min(wanted),
            Renewal::Replaces { kept, .. } => kept.min(wanted),
        };
        let mut fitting = wanted - staying;
        for Bound { name, hard, charged, .. } in &applying.bounds {
            let (Some(each), Some(used)) = (self.each.amount(*charged), applying.quota.used.get(name)) else {
                continue;
            };
            let mut room = free(hard, used);
            if let (Renewal::Replaces { .. }, Some(old)) = (renewal, self.old.and_then(|old| old.amount(*charged))) {
                room = room.plus(&old.times_count(present)).minus(&old.times_count(staying));
            }
            fitting = fitting.min(most_within(&each, &room, fitting));
        }
        let fitting = staying + fitting;
        let surge = match renewal {
            Renewal::Replaces { surge, may_wait, .. } if surge > 0 && fitting >= wanted => {
                Some(Surge { pods: surge, may_wait })
            }
            _ => None,
        };
        Growth { wanted, fitting, surge, noun, assumption }
    }
}

/// The largest count up to `most` with `count * each <= room`.
fn most_within(each: &Quantity, room: &Quantity, most: u64) -> u64 {
    let (mut fits, mut beyond) = (0, most.saturating_add(1));
    while beyond - fits > 1 {
        let middle = fits + (beyond - fits) / 2;
        if each.times_count(middle) <= *room { fits = middle } else { beyond = middle }
    }
    fits
}
