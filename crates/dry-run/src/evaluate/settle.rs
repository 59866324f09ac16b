//! Counts the pods that a workload's controllers create and remove until they rest, because all is done or the next pod does not
//! fit. What does not fit is not charged.

use headroom_admission::amount::Quantity;
use headroom_admission::quota::forecast::most_that_hold;
use headroom_admission::request::controllers::{Rollout, Template};

use super::object_decision::{ObjectCharge, parsed};

/// The pods of each template that are created, and the old ones that are removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    pub new: u64,
    pub old: u64,
    pub gone: u64,
}

/// The room of old pods that are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// Free, once they have terminated.
    Frees,
    /// Still taken, while they terminate.
    Holds,
}

/// Follows the stages of a rollout. `new` and `old` are what quotas charge for one pod of each template; none if no new
/// pod can be created at all.
pub fn settle(rollout: &Rollout, new: Option<&Vec<ObjectCharge>>, old: &[ObjectCharge], removed: Removed) -> Settled {
    let mut settled = Settled::default();
    for stage in rollout.stages(0) {
        let after = |created: u64, gone: u64| {
            let (gone, of) = (settled.gone + gone, settled);
            match stage.template {
                Template::New => Settled { new: of.new + created, gone, ..of },
                Template::Old => Settled { old: of.old + created, gone, ..of },
            }
        };
        // A batch has to fit once the old pods that go before it have gone.
        let end = |batches: u64| batches.saturating_mul(stage.batch).min(stage.pods);
        let fits = |created: u64, batch: u64| {
            new.is_some_and(|new| after(created, stage.gone_before(batch)).fits(new, old, removed))
        };
        let batches = stage.pods.div_ceil(stage.batch);
        let whole = most_that_hold(batches, |batches| fits(end(batches), batches - 1));
        if whole < batches {
            let (begun, most) = (end(whole), end(whole + 1));
            let created = begun + most_that_hold(most - begun, |more| fits(begun + more, whole));
            return after(created, stage.gone_before(created / stage.batch));
        }
        settled = after(stage.pods, stage.gone());
    }
    settled
}

impl Settled {
    fn fits(self, new: &[ObjectCharge], old: &[ObjectCharge], removed: Removed) -> bool {
        let gone = if removed == Removed::Frees { self.gone } else { 0 };
        let sum = |charges: &[ObjectCharge], of: &ObjectCharge, name: &str| {
            let same = charges.iter().filter(|charge| (&charge.quota, charge.is_tenant) == (&of.quota, of.is_tenant));
            let added = same.flat_map(|charge| &charge.added).filter(|amount| amount.name == name);
            added.fold(Quantity::ZERO, |sum, amount| sum.plus(&parsed(&amount.added)))
        };
        new.iter().all(|charge| {
            charge.added.iter().all(|amount| {
                // The claims of a pod may be charged to the same bound.
                let (of_new, of_old) = (sum(new, charge, &amount.name), sum(old, charge, &amount.name));
                let more = of_new.times_count(self.new).plus(&of_old.times_count(self.old));
                let level = parsed(&amount.before).plus(&more).minus(&of_old.times_count(gone));
                // Kubernetes refuses only what adds to a bound.
                !of_new.is_positive() || level <= parsed(&amount.hard)
            })
        })
    }
}
