//! Forecasts whether the pods of a workload would fit the quotas, before any of them is created.
//!
//! A quota admits each pod when it is created, and controllers try again until it fits. So a new pod that has to wait
//! for old ones makes a rollout slower, and one that waits for pods which may not be removed yet stops it. The forecast
//! follows the [`Stage`]s of the [`Rollout`] under each bound: the room under the bound, and what old pods free by then,
//! has to hold the new pods. Each bound can be followed alone: a rollout that stops under several stops under one of
//! them.
//!
//! An example: a Deployment of 4 replicas gets a template that requests 400m of cpu instead of 500m, with `maxSurge` 1 and
//! `maxUnavailable` 0. Quota `team` has 4 cpu, of which 3700m are used, so the [`PodsUnderBound`] `requests.cpu` have 300m
//! of room, 400m for each new pod and 500m for each old one. The only stage that creates pods has 4 new pods, and replaces
//! 4 old ones: the first new pod comes before any old pod goes (a `surge` of 1), and each further one when the one before
//! it runs.
//!
//! Nothing is created, so nothing goes: [`Progress::Stops`] with no pod created. All 4 would fit once the old ones were
//! gone (300m + 4 * 500m >= 4 * 400m), so the message is not "only 3 of 4 replicas fit" ([`RolloutForecast::Fits`]) but "the
//! rollout will stop" ([`RolloutForecast::Stops`]). With `maxUnavailable` 1 an old pod may go first: 300m + 500m hold the
//! first new pod, then the room grows by 100m with each, and the rollout completes. It is only slower than with its surge
//! ([`RolloutForecast::Slower`]), because the surge of 1 did not fit.

use std::slice;

use super::required_values::RequiredValues;
use super::{
    Added, ApplyingQuota, Bound, Bounds, Breach, ChargedKind, Excess, Forecast, ObjectUsage, QuotaCharge, QuotaFault,
    QuotaObject, QuotaOutcome, RolloutForecast, bounds_for, limited_resources, scope, unknown_status,
};
use crate::amount::Quantity;
use crate::cluster::resource_quota::ResourceQuota;
use crate::json::Malformed;
use crate::request::controllers::{Controller, Rollout, Stage, Template};
use crate::request::{self, Pod};
use crate::truncate::Names;

/// Checks the pods of a rollout, created from `pod`, against the quotas of `bounds` and the `tenant` quotas, and returns
/// what they add and what refuses them. The existing pods were created from `old`.
pub fn check<'d>(
    rollout: &Rollout,
    pod: &Pod<'d>,
    old: Option<&Pod<'d>>,
    bounds: &Bounds<'_, 'd>,
    tenant: &[ResourceQuota<'d>],
) -> Result<QuotaOutcome<'d>, Malformed> {
    let of_pod = |pod| PlannedObject::of(QuotaObject::of_pod(pod, request::Object::planned(pod)), bounds);
    if is_unbounded(bounds, tenant) || rollout.wanted == 0 {
        return Ok(QuotaOutcome::default());
    }
    let (new, old) = (of_pod(pod)?, old.map(of_pod).transpose()?);
    forecast(rollout, slice::from_ref(&new), old.as_ref().map(slice::from_ref), bounds, tenant)
}

/// The same for the claims that a StatefulSet's controller creates before each pod that it adds, and without which it creates
/// no pod. They stay when pods go. Whether some stayed from earlier pods is not known.
pub fn check_claims<'d>(
    rollout: &Rollout,
    templates: &[request::Object<'d>],
    bounds: &Bounds<'_, 'd>,
    tenant: &[ResourceQuota<'d>],
) -> Result<QuotaOutcome<'d>, Malformed> {
    if is_unbounded(bounds, tenant) || templates.is_empty() || !rollout.adds_pods() {
        return Ok(QuotaOutcome::default());
    }
    let claims: Vec<_> = templates
        .iter()
        .map(|claim| PlannedObject::of(QuotaObject::alone(ChargedKind::CLAIM, *claim, None), bounds))
        .collect::<Result<_, _>>()?;
    let adding = Rollout {
        assumption: Some(NEW_CLAIMS),
        is_uncertain: true,
        ..Rollout::adding(rollout.wanted, rollout.present, rollout.noun)
    };
    forecast(&adding, &claims, None, bounds, tenant)
}

const NEW_CLAIMS: &str = "assuming that their claims do not exist yet";

fn is_unbounded(bounds: &Bounds<'_, '_>, tenant: &[ResourceQuota<'_>]) -> bool {
    bounds.quotas.is_empty() && bounds.limited_resources.is_empty() && tenant.is_empty()
}

/// `new` and `old` are the objects that are created for each pod of the two templates.
fn forecast<'d>(
    rollout: &Rollout,
    new: &[PlannedObject<'_, 'd>],
    old: Option<&[PlannedObject<'_, 'd>]>,
    bounds: &Bounds<'_, 'd>,
    tenant: &[ResourceQuota<'d>],
) -> Result<QuotaOutcome<'d>, Malformed> {
    let mut outcome = QuotaOutcome::default();
    let mut counted = Vec::new();
    for quota in bounds.quotas.iter().chain(tenant) {
        counted.extend(CountedPods::of(new, old, quota)?);
    }
    // If there is no other template, all pods are of this one.
    let of_no_quota = |template| match template {
        Template::New => uncovered(new, &counted, bounds),
        Template::Old => uncovered(old.unwrap_or(new), &counted, bounds),
    };
    let refilled = match rollout.refill() {
        lacking if lacking > 0 && !of_no_quota(Template::Old)?.is_empty() => 0,
        lacking => counted.iter().map(|pods| pods.refilled(rollout)).min().unwrap_or(lacking),
    };
    let stages = rollout.stages(refilled);
    for template in [Template::New, Template::Old] {
        if count(&stages, template) > 0 && outcome.breaches.is_empty() {
            outcome.breaches = of_no_quota(template)?;
        }
    }
    for pods in &counted {
        let mut created = [Template::Old, Template::New].into_iter().filter(|template| count(&stages, *template) > 0);
        if let Some(breach) = created.find_map(|template| pods.refuses(pods.counted(template))) {
            outcome.breaches.push(breach);
            continue;
        }
        let bounded = pods.bounded(rollout.terminating);
        outcome.charges.extend(pods.charge(&bounded, &stages));
        if let Some(fault) = pods.forecast(&bounded, rollout, refilled) {
            outcome.breaches.push(pods.applying.breach(fault));
        }
    }
    Ok(outcome)
}

/// The breaches of objects that are created for a pod and that no quota covers, even if it is only one pod.
fn uncovered<'d>(
    created: &[PlannedObject<'_, 'd>],
    counted: &[CountedPods<'_, 'd>],
    bounds: &Bounds<'_, 'd>,
) -> Result<Vec<Breach<'d>>, Malformed> {
    let mut breaches = Vec::new();
    if bounds.limited_resources.is_empty() {
        return Ok(breaches);
    }
    for planned in created {
        let mut applying = Vec::with_capacity(counted.len());
        for CountedPods { applying: quota, .. } in counted {
            if scope::matches_all(&planned.object, quota.quota)? {
                applying.push(quota);
            }
        }
        breaches.extend(limited_resources::check(&planned.object, &planned.usage, &applying, bounds)?);
    }
    Ok(breaches)
}

/// An object that a controller is to create, and the amounts that it will use.
struct PlannedObject<'a, 'd> {
    object: QuotaObject<'a, 'd>,
    /// None for claims; apart, because these are many.
    required: Option<Box<RequiredValues<'a, 'd>>>,
    usage: ObjectUsage<'d>,
}

impl<'a, 'd> PlannedObject<'a, 'd> {
    fn of(object: QuotaObject<'a, 'd>, bounds: &Bounds<'_, 'd>) -> Result<Self, Malformed> {
        let required = object.pod.map(|_| Box::new(RequiredValues::of(&object)));
        Ok(Self { usage: ObjectUsage::of(&object, bounds.now)?, required, object })
    }
}

/// The objects created for a pod of each template, as far as one quota counts them: the pod, or its claims.
struct CountedPods<'a, 'd> {
    applying: ApplyingQuota<'a, 'd>,
    new: Vec<&'a PlannedObject<'a, 'd>>,
    old: Vec<&'a PlannedObject<'a, 'd>>,
}

/// The amount that a pod of each template uses under one bound, and the room under it; below zero if the quota was
/// lowered.
struct PodsUnderBound<'q, 'd> {
    bound: &'q Bound<'q, 'd>,
    used: &'q Quantity,
    room: Quantity,
    /// The room once the pods that still terminate are gone.
    later: Quantity,
    new: Quantity,
    old: Quantity,
}

/// The progress of a rollout under one bound: where it stops, the pods created, the room left, and what the next need.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Completes,
    Stops { created: u64, room: Quantity, next: Quantity },
}

impl<'a, 'd> CountedPods<'a, 'd> {
    /// None if the quota counts none of it.
    fn of(
        new: &'a [PlannedObject<'a, 'd>],
        old: Option<&'a [PlannedObject<'a, 'd>]>,
        quota: &'a ResourceQuota<'d>,
    ) -> Result<Option<Self>, Malformed> {
        // All are of one kind.
        let bounds = new.first().map(|planned| bounds_for(&planned.object, quota)).unwrap_or_default();
        if bounds.is_empty() {
            return Ok(None);
        }
        let counted = |planned: &'a [PlannedObject<'a, 'd>]| {
            let mut counted = Vec::with_capacity(planned.len());
            for planned in planned {
                if scope::matches_all(&planned.object, quota)? {
                    counted.push(planned);
                }
            }
            Ok(counted)
        };
        let new = counted(new)?;
        // If there is no other template, all pods are of this one.
        let old = old.map_or_else(|| Ok(new.clone()), counted)?;
        let applying = ApplyingQuota { quota, bounds };
        Ok((!new.is_empty() || !old.is_empty()).then_some(Self { applying, new, old }))
    }

    /// The objects that the quota counts for a pod of a template.
    fn counted(&self, template: Template) -> &[&'a PlannedObject<'a, 'd>] {
        match template {
            Template::New => &self.new,
            Template::Old => &self.old,
        }
    }

    /// The breach by any of these objects, however few there are.
    fn refuses(&self, planned: &[&PlannedObject<'_, 'd>]) -> Option<Breach<'d>> {
        let required = planned.iter().find_map(|planned| planned.required.as_ref()?.check(&self.applying));
        required.or_else(|| unknown_status(&self.applying).filter(|_| !planned.is_empty()))
    }

    fn bounded(&self, terminating: u64) -> Vec<PodsUnderBound<'_, 'd>> {
        let all = self.applying.bounds.iter().filter_map(|bound| {
            let used = self.applying.quota.used.get(bound.name)?;
            let of = |planned: &[&PlannedObject<'_, 'd>]| {
                let amounts = planned.iter().filter_map(|planned| planned.usage.amount(bound.charged));
                amounts.reduce(|sum, amount| sum.plus(&amount)).unwrap_or(Quantity::ZERO)
            };
            let (room, old) = (bound.hard.minus(used), of(&self.old));
            let later = room.plus(&old.times_count(terminating));
            Some(PodsUnderBound { bound, used, room, later, new: of(&self.new), old })
        });
        all.collect()
    }

    /// Counts the missing pods that an old ReplicaSet could create.
    fn refilled(&self, rollout: &Rollout) -> u64 {
        let lacking = rollout.refill();
        if lacking > 0 && self.refuses(&self.old).is_some() {
            return 0;
        }
        let bounded = if lacking > 0 { self.bounded(rollout.terminating) } else { Vec::new() };
        let fitting = bounded.iter().map(|bounded| most_within(&bounded.old, &bounded.later, lacking));
        fitting.min().unwrap_or(lacking)
    }

    /// The most that a rollout adds at any moment, if nothing stops it.
    fn charge(&self, bounded: &[PodsUnderBound<'_, 'd>], stages: &[Stage]) -> Option<QuotaCharge<'d>> {
        let added = bounded.iter().filter_map(|bounded| {
            let amount = bounded.most(stages).filter(Quantity::is_positive)?;
            let (name, hard) = (bounded.bound.name.clone(), bounded.bound.hard.clone());
            Some(Added { name, used: bounded.used.plus(&amount), amount, hard })
        });
        self.applying.charge(added.collect())
    }

    /// The fault if not all pods fit at once.
    fn forecast(&self, bounded: &[PodsUnderBound<'_, 'd>], rollout: &Rollout, refilled: u64) -> Option<QuotaFault<'d>> {
        let stages = rollout.stages(refilled);
        let mut excesses = Vec::new();
        let Rollout { wanted, noun, assumption, is_uncertain, .. } = *rollout;
        let (mut fitting, mut stopped) = (wanted, None::<u64>);
        for bounded in bounded {
            let most = bounded.most(&stages).filter(|most| *most > bounded.room);
            let filled = bounded.old.times_count(refilled);
            let progress = bounded.follow(&stages);
            let fits = if progress == Progress::Completes { wanted } else { bounded.fitting(rollout, &stages) };
            let only_waits = refilled > 0 && fits == wanted && progress != Progress::Completes;
            let (requested, used) = match (most, &progress) {
                (None, Progress::Completes) => continue,
                (Some(most), _) if most > filled && !only_waits => (most.minus(&filled), bounded.used.plus(&filled)),
                // The quota is more than full, or will be filled by old pods.
                (_, Progress::Stops { room, next, .. }) => (next.clone(), bounded.bound.hard.minus(room)),
                (Some(_), Progress::Completes) => (bounded.new.clone(), bounded.used.clone()),
            };
            if let Progress::Stops { created, .. } = progress {
                fitting = fitting.min(fits);
                stopped = Some(stopped.map_or(created, |stopped| stopped.min(created)));
            }
            let (name, hard) = (bounded.bound.name.clone(), bounded.bound.hard.clone());
            excesses.push(Excess { name, requested, used, hard, origins: Names::default() });
        }
        if excesses.is_empty() {
            return None;
        }
        let surge = stages.iter().filter(|stage| stage.surge < u64::MAX).map(|stage| stage.surge.min(stage.pods)).sum();
        let rollout = match stopped {
            None => RolloutForecast::Slower { surge },
            Some(_) if fitting < wanted => RolloutForecast::Fits(fitting),
            Some(created) => {
                let helps = completes_in_place(bounded, rollout, refilled);
                RolloutForecast::Stops {
                    created,
                    of: count(&stages, Template::New),
                    surge: if created == 0 { surge } else { 0 },
                    helps,
                }
            }
        };
        Some(QuotaFault::Exceeded {
            excesses,
            forecast: Some(Forecast { wanted, rollout, noun, assumption, is_uncertain }),
        })
    }
}

/// True if a Deployment's rollout would complete without a surge.
fn completes_in_place(bounded: &[PodsUnderBound<'_, '_>], rollout: &Rollout, refilled: u64) -> bool {
    let Controller::Deployment { is_scaled, refills, .. } = rollout.controller else { return false };
    let controller = Controller::Deployment { surge: 0, unavailable: 1, is_scaled, refills };
    let stages = Rollout { controller, ..rollout.clone() }.stages(refilled);
    bounded.iter().all(|bounded| bounded.follow(&stages) == Progress::Completes)
}

impl PodsUnderBound<'_, '_> {
    fn of(&self, template: Template) -> &Quantity {
        match template {
            Template::New => &self.new,
            Template::Old => &self.old,
        }
    }

    /// Follows the stages until one does not fit.
    fn follow(&self, stages: &[Stage]) -> Progress {
        let (mut room, mut new_pods) = (self.later.clone(), 0_u64);
        for stage in stages {
            let each = self.of(stage.template);
            let with_gone = |gone| room.plus(&self.old.times_count(gone));
            let created_after = |batch: u64| batch.saturating_add(1).saturating_mul(stage.batch).min(stage.pods);
            let fits = |batch: u64| each.times_count(created_after(batch)) <= with_gone(stage.gone_before(batch));
            let batches = stage.pods.div_ceil(stage.batch);
            // A pod that uses nothing of it always fits. If the first batch fits, and a later one does not, none after
            // that does: the room changes by the same amount with each batch, until no old pods are left.
            if each.is_positive()
                && let Some(batch) = first_failing(batches, fits)
            {
                let before = with_gone(stage.gone_before(batch));
                let created = most_within(each, &before, stage.pods);
                let next = each.times_count(created_after(batch).saturating_sub(created));
                let room = before.minus(&each.times_count(created));
                let of_new = if stage.template == Template::New { created } else { 0 };
                return Progress::Stops { created: new_pods.saturating_add(of_new), room, next };
            }
            room = with_gone(stage.gone()).minus(&each.times_count(stage.pods));
            if stage.template == Template::New {
                new_pods = new_pods.saturating_add(stage.pods);
            }
        }
        Progress::Completes
    }

    /// The most that the stages add at any moment at which a pod is created, less than zero if old pods free more; none
    /// if no pod uses anything of it.
    fn most(&self, stages: &[Stage]) -> Option<Quantity> {
        let (mut most, mut before) = (None, Quantity::ZERO);
        for stage in stages {
            let each = self.of(stage.template);
            let added = |created: u64| {
                let gone = self.old.times_count(stage.gone_at_least(created));
                before.plus(&each.times_count(created)).minus(&gone)
            };
            if stage.pods > 0 && each.is_positive() {
                // Between these, it grows or shrinks steadily.
                let turns = [
                    stage.surge,
                    stage.ahead_of_gone.saturating_add(stage.ahead),
                    stage.ahead_of_gone.saturating_add(stage.replaced),
                    stage.pods,
                ];
                most = most.max(turns.into_iter().map(|created| added(created.clamp(1, stage.pods))).max());
            }
            before = before.plus(&each.times_count(stage.pods)).minus(&self.old.times_count(stage.gone()));
        }
        most
    }

    /// Counts the wanted pods that fit once all pods are gone that have to go.
    fn fitting(&self, rollout: &Rollout, stages: &[Stage]) -> u64 {
        let (new, old) = (count(stages, Template::New), count(stages, Template::Old));
        let gone = stages.iter().map(Stage::gone).sum::<u64>();
        let room = self.later.plus(&self.old.times_count(gone));
        let fitting_old = most_within(&self.old, &room, old);
        let room = room.minus(&self.old.times_count(old));
        let fitting_new = most_within(&self.new, &room, new);
        rollout.wanted.saturating_sub(new.saturating_add(old - fitting_old)).saturating_add(fitting_new)
    }
}

/// The pods of a template that the stages create.
fn count(stages: &[Stage], template: Template) -> u64 {
    stages.iter().filter(|stage| stage.template == template).map(|stage| stage.pods).sum()
}

/// The first of `count` numbers that fails: 0, or one before which all hold and after which all fail.
fn first_failing(count: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if count > 0 && !holds(0) {
        return Some(0);
    }
    let (mut first, mut end) = (1, count);
    while first < end {
        let middle = first + (end - first) / 2;
        if holds(middle) { first = middle + 1 } else { end = middle }
    }
    (first < count).then_some(first)
}

/// The largest count up to `most` with `count * each <= room`.
fn most_within(each: &Quantity, room: &Quantity, most: u64) -> u64 {
    if !each.is_positive() {
        return most;
    }
    most_that_hold(most, |count| each.times_count(count) <= *room)
}

/// The largest count up to `most` that holds, if all above one that does not fail too.
pub fn most_that_hold(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    first_failing(most, |count| holds(count + 1)).unwrap_or(most)
}
