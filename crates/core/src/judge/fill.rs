//! Fills in what a pod's author left out, as history, the API server and the ranges would.

use crate::cluster::Context;
use crate::defaults;
use crate::estimate::{self, Estimates};
use crate::json::Malformed;
use crate::limits::{self, Breaches};
use crate::plan::Want;
use crate::ranges::Range;
use crate::request::{Pod, Request, complete};
use crate::settings::{OnQuota, Settings};

use super::charge;

/// All that filling a pod depends on.
#[derive(Debug, Clone, Copy)]
pub struct Filling<'a, 'd> {
    pub request: &'a Request<'d>,
    pub context: &'a Context<'d>,
    pub settings: &'a Settings<'d>,
    pub ranges: &'a [Range<'d>],
    /// Where not, the ranges only bound estimates.
    pub is_defaulted: bool,
}

/// A pod with everything in it that its author left out.
#[derive(Debug)]
pub struct Filled<'d> {
    pub pod: Pod<'d>,
    /// What of that is estimated.
    pub estimates: Estimates<'d>,
    /// What of the ranges the pod breaks, where that had to be found out for the sake of its estimates.
    pub breaches: Option<Breaches<'d>>,
}

impl<'d> Filling<'_, 'd> {
    /// Fills a pod whose values have their origins.
    pub fn fill(&self, pod: Pod<'d>, wants: &[Want]) -> Result<Filled<'d>, Malformed> {
        let Self { request, context, settings, ranges, .. } = *self;
        let mut estimates = Estimates::default();
        if !wants.is_empty() {
            estimates = estimate::make(request, &pod, wants, ranges, context, settings)?;
        }
        if !estimates.set_anything() {
            let mut pod = pod;
            estimates.apply(&mut pod);
            self.default(&mut pod);
            return Ok(Filled { pod, estimates, breaches: None });
        }
        // Estimates give way to what the pod as a whole would break, and then it is filled anew.
        let mut round: u8 = 0;
        loop {
            let mut filled = pod.clone();
            estimates.apply(&mut filled);
            self.default(&mut filled);
            let breaches = limits::check_pod(&filled, None, ranges);
            if !estimates.give_way(&filled, &breaches, round)
                && !self.give_way_to_quota(&mut estimates, &filled, round)?
            {
                return Ok(Filled { pod: filled, estimates, breaches: Some(breaches) });
            }
            // It ends, because each round but the first few takes estimates away.
            round = round.saturating_add(1);
        }
    }

    /// Adds defaults, and what the API server makes of them.
    pub fn default(&self, pod: &mut Pod<'d>) {
        if self.is_defaulted {
            // A resize may add no other names; and it changes nothing that its author did not.
            let is_resize = self.request.subresource == "resize";
            defaults::fill(pod, self.ranges, |name| !is_resize || matches!(name, "cpu" | "memory"));
            complete::new_limits_to_requests(pod);
        }
        if self.settings.limit_ranges.repair_default_limit && self.request.subresource.is_empty() {
            defaults::repair(pod, self.ranges);
        }
        complete::pod_level(pod, self.settings.server);
    }

    fn give_way_to_quota(&self, estimates: &mut Estimates<'d>, filled: &Pod<'d>, round: u8) -> Result<bool, Malformed> {
        let Self { request, context, settings, .. } = *self;
        let is_new_pod = request.is("", "pods", "");
        if settings.estimates.on_quota == OnQuota::Keep || !is_new_pod || !estimate::may_shrink(round) {
            return Ok(false);
        }
        let free = charge::free_for(request, filled, context, settings)?;
        Ok(estimates.give_way_to_quota(filled, &free, &settings.estimates.floor))
    }
}
