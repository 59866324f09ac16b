//! Fills in the values that a pod's author left out: from usage history, as the API server does, and from the ranges.

use crate::actions::EstimateTarget;
use crate::amount::ResourceList;
use crate::cluster::Context;
use crate::cluster::usage::Resource;
use crate::defaults;
use crate::estimate::{self, Estimate, Estimates, replace};
use crate::json::Malformed;
use crate::limit_rules::Range;
use crate::limits::{self, Breaches};
use crate::quota::{self, Bounds, QuotaChange, QuotaFault, QuotaObject};
use crate::request::{Container, Object, Pod, Request, Resources, api_server_defaults};
use crate::settings::Settings;

/// The pod of a request after the change, and before it where that matters; both filled in.
#[derive(Debug, Default)]
pub struct FilledPods<'d> {
    pub new: Option<Pod<'d>>,
    /// The new pod without the defaults that only count, if there are any.
    pub written: Option<Pod<'d>>,
    pub old: Option<Pod<'d>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Filling<'a, 'd> {
    pub request: &'a Request<'d>,
    pub context: &'a Context<'d>,
    pub settings: &'a Settings<'d>,
    pub ranges: &'a [Range<'d>],
    /// If not, the ranges only bound estimates.
    pub is_defaulted: bool,
}

/// A pod with the values that its author left out.
#[derive(Debug)]
pub struct Filled<'d> {
    pub pod: Pod<'d>,
    /// The estimates among these values.
    pub estimates: Estimates<'d>,
    /// The pod's breaches of the ranges, if they were already computed to bound the estimates.
    pub breaches: Option<Breaches<'d>>,
}

/// The values of a pod that estimates may change, as they were. To fill all its containers again would cost a pod of many as much as
/// the first time.
struct Unfilled<'d> {
    resources: Resources<'d>,
    /// With their places.
    containers: Vec<(usize, Container<'d>)>,
}

impl<'d> Unfilled<'d> {
    fn of(pod: &Pod<'d>, estimates: &Estimates<'d>) -> Self {
        let mut containers: Vec<(usize, Container<'d>)> = Vec::new();
        for place in estimates.estimates.iter().map(|estimate| estimate.target.container) {
            let is_known = containers.last().is_some_and(|(known, _)| *known == place);
            containers
                .extend(pod.containers.get(place).filter(|_| !is_known).map(|container| (place, container.clone())));
        }
        Self { resources: pod.resources.clone(), containers }
    }

    fn restore(&self, pod: &mut Pod<'d>) {
        pod.resources = self.resources.clone();
        for (place, container) in &self.containers {
            if let Some(filled) = pod.containers.get_mut(*place) {
                *filled = container.clone();
            }
        }
    }
}

impl<'d> Filling<'_, 'd> {
    /// Fills a pod whose values are marked with their origins.
    pub fn fill(&self, pod: Pod<'d>, targets: &[EstimateTarget]) -> Result<Filled<'d>, Malformed> {
        let Self { request, context, settings, ranges, .. } = *self;
        let mut estimates = Estimates::default();
        if !targets.is_empty() {
            estimates = estimate::make(request, &pod, targets, ranges, context, settings)?;
        }
        if !estimates.sets_any_value() {
            let mut pod = pod;
            estimates.apply(&mut pod);
            self.apply_defaults(&mut pod);
            return Ok(Filled { pod, estimates, breaches: None });
        }
        self.fit::<true>(pod, estimates)
    }

    /// Fills a pod with estimates. Those that would make it break a bound give way, and the pod is filled again.
    // As part of `fill` in the policy, which has no other caller, it costs no bytes of the module.
    #[inline(always)]
    pub fn fit<const FITS_QUOTA: bool>(
        &self,
        pod: Pod<'d>,
        mut estimates: Estimates<'d>,
    ) -> Result<Filled<'d>, Malformed> {
        let unfilled = Unfilled::of(&pod, &estimates);
        let mut filled = pod;
        let mut round: u8 = 0;
        loop {
            estimates.apply(&mut filled);
            self.apply_defaults(&mut filled);
            let breaches = limits::check_pod(&filled, self.ranges);
            let has_changed = !FITS_QUOTA && estimates.reach_pod_min(&breaches, round)
                || estimates.fit_to_limits(&filled, &breaches, round)
                || FITS_QUOTA && self.fit_to_quota(&mut estimates, &filled, round)?
                || FITS_QUOTA && self.keep_class(&mut estimates, &unfilled, &filled);
            if !has_changed {
                return Ok(Filled { pod: filled, estimates, breaches: Some(breaches) });
            }
            // The loop ends because each round after the first few removes estimates.
            round = round.saturating_add(1);
            unfilled.restore(&mut filled);
        }
    }

    /// Adds defaults, and the values that the API server derives from them.
    pub fn apply_defaults(&self, pod: &mut Pod<'d>) {
        if self.is_defaulted {
            // A resize may add only these names, and changes nothing that its author did not change.
            let is_resize = self.request.subresource == "resize";
            defaults::fill(pod, self.ranges, |name| !is_resize || matches!(name, "cpu" | "memory"));
            api_server_defaults::new_limits_to_requests(pod);
        }
        if self.settings.limit_ranges.raise_default_limits && self.request.subresource.is_empty() {
            defaults::repair(pod, self.ranges);
        }
        api_server_defaults::of_version(pod, self.settings.server);
    }

    /// Keeps authors' values if others in their place would give the pod another QoS class.
    fn keep_class(&self, estimates: &mut Estimates<'d>, unfilled: &Unfilled<'d>, filled: &Pod<'d>) -> bool {
        if !estimates.estimates.iter().any(Estimate::replaces) {
            return false;
        }
        let mut kept = filled.clone();
        unfilled.restore(&mut kept);
        estimates.apply_those(&mut kept, |estimate| !estimate.replaces());
        self.apply_defaults(&mut kept);
        let is_another = replace::is_guaranteed(&kept) != replace::is_guaranteed(filled);
        if is_another {
            estimates.keep_class();
        }
        is_another
    }

    /// Makes the estimates for a new pod smaller if they exceed a quota, and the settings ask for that. Those that replace an
    /// author's value never do.
    fn fit_to_quota(&self, estimates: &mut Estimates<'d>, filled: &Pod<'d>, round: u8) -> Result<bool, Malformed> {
        let Self { request, context, settings, .. } = *self;
        let is_new_pod = request.is("", "pods", "");
        let shrinks = settings.estimates.shrink_to_quota && estimate::may_shrink(round);
        if !is_new_pod || !shrinks && !estimates.estimates.iter().any(Estimate::raises) {
            return Ok(false);
        }
        let (Some(quotas), Some(source)) = (&context.quotas, request.object) else { return Ok(false) };
        let bounds = Bounds { quotas, limited_resources: &settings.quotas.limited_resources, now: context.now };
        let room = room_for(filled, source, &bounds)?;
        let has_shrunk = shrinks && estimates.fit_to_quota(filled, &room, &settings.estimates.min);
        Ok(has_shrunk || estimates.keep_within_quota(&room))
    }
}

/// Computes what the quotas that a new pod exceeds leave for its containers.
fn room_for<'d>(pod: &Pod<'d>, source: Object<'d>, bounds: &Bounds<'_, 'd>) -> Result<ResourceList<'d>, Malformed> {
    let mut room = ResourceList::default();
    for breach in quota::check(&QuotaObject::of_pod(pod, source), &QuotaChange::Create, bounds)?.breaches {
        let QuotaFault::Exceeded { excesses, .. } = breach.fault else { continue };
        for excess in excesses {
            let name = excess.name.strip_prefix("requests.").unwrap_or(&excess.name);
            let Some(name) = Resource::ALL.map(Resource::name).into_iter().find(|of| *of == name) else { continue };
            let mut left = excess.hard.minus(&excess.used);
            if let Some(overhead) = pod.overhead.get(name) {
                left = left.minus(overhead);
            }
            if room.get(name).is_none_or(|least| left < *least) {
                room.set(name.into(), left);
            }
        }
    }
    Ok(room)
}
