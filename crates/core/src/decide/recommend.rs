//! Advice instead of a judgement: the requests that a pod's containers should have by their history, whatever they have.
//!
//! The order of the steps is that of a decision: the pod as the API server completes it, whose values, estimates,
//! defaults, and what gives way to the ranges. Only that every container is estimated, and nothing is refused.

use super::{Filling, limits, ranges};
use crate::context::Context;
use crate::context::lookup::Lookup;
use crate::context::wanted_history::add_history;
use crate::image::ImageName;
use crate::json::Malformed;
use crate::request::template::Bound;
use crate::request::{PodTemplate, Request};
use crate::settings::{EstimateMode, Mode, Settings};
use crate::stage::estimate::Whose;
use crate::stage::estimate::recommend::{self, Advice};
use crate::stage::{authored, estimate};
use crate::subject::Subject;

/// What is advised for the pod of a request.
#[derive(Debug)]
pub struct Recommendation<'d> {
    pub advice: Advice<'d>,
    /// The pod as it stands, marked with who spoke each value.
    pub as_it_stands: PodTemplate<'d>,
    /// The pod that admission would make of it now.
    pub before: PodTemplate<'d>,
    /// The same with the advice taken.
    pub after: PodTemplate<'d>,
}

/// What to read for advice on a request: as for a decision, with the history of every container's image.
pub fn lookups<'d>(request: &'d Request<'d>, settings: &'d Settings<'d>) -> Result<Vec<Lookup<'d>>, Malformed> {
    let mut lookups = vec![Lookup::Namespace { name: &request.namespace }];
    lookups.push(Lookup::LimitRanges { namespace: &request.namespace });
    lookups.push(Lookup::Quotas { namespace: &request.namespace });
    if settings.estimates.skip_autoscaled {
        lookups.push(Lookup::Autoscalers { namespace: &request.namespace });
    }
    let Some(pod) = request.pod()? else { return Ok(lookups) };
    for container in &pod.containers {
        let Ok(image) = ImageName::parse(&container.image) else { continue };
        for whose in [Whose::OwnNamespace, Whose::AllNamespaces] {
            if settings.estimates.reads(whose) {
                add_history(&mut lookups, &image, whose, request, settings);
            }
        }
    }
    Ok(lookups)
}

/// Advises on a request; none if it is about no pods.
pub fn recommend<'d>(
    request: &Request<'d>,
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Option<Recommendation<'d>>, Malformed> {
    let Some(subject) = Subject::of(request) else { return Ok(None) };
    let Some(pod) = request.pod()? else { return Ok(None) };
    let ranges = ranges::applicable(request, Some(pod), context, settings)?;
    let is_defaulted = settings.limit_ranges.mode != Mode::Off;
    let is_estimated = estimate::is_on(subject, settings);
    let filling = Filling { request, context, settings, ranges: &ranges, is_defaulted, is_estimated };
    let mut before = filling.fill(pod.clone())?;
    before.estimates.tell("", &mut before.pod);
    let before = before.pod;
    let as_it_stands = authored::marked(pod.clone(), request, context.limit_ranges.is_some().then_some(&ranges))?;
    let mut settings = settings.clone();

    settings.estimates.mode = EstimateMode::IfNotSet;
    settings.estimates.dry_run = false;
    let bare = without_requests(&as_it_stands);
    let mut advice = recommend::for_all(request, &bare, &ranges, context, &settings)?;
    let mut round: u8 = 0;
    let after = loop {
        let mut filled = bare.clone();
        advice.estimates.apply(&mut filled);
        keep_what_is_not_advised(&mut filled, &as_it_stands);
        filling.default(&mut filled);
        let breaches = limits::check_pod(&filled, None, &ranges);
        if !advice.estimates.give_way(&filled, &breaches, round) {
            advice.estimates.tell("", &mut filled);
            break filled;
        }
        round = round.saturating_add(1);
    };
    Ok(Some(Recommendation { advice, as_it_stands, before, after }))
}

/// The resources that advice is about.
const ADVISED: [&str; 2] = ["cpu", "memory"];

/// The pod without its requests of cpu and memory, and without limits that no author wrote.
fn without_requests<'d>(pod: &PodTemplate<'d>) -> PodTemplate<'d> {
    let mut bare = pod.clone();
    for container in &mut bare.containers {
        for name in ADVISED {
            container.resources.requests.remove(name);
            let limits = &mut container.resources.limits;
            if limits.get(name).is_some_and(|limit| !limit.origin.is_authored()) {
                limits.remove(name);
            }
        }
    }
    bare
}

/// Puts an author's requests back where there is no advice.
fn keep_what_is_not_advised<'d>(filled: &mut PodTemplate<'d>, as_it_stands: &PodTemplate<'d>) {
    for (container, stood) in filled.containers.iter_mut().zip(&as_it_stands.containers) {
        for (name, value) in stood.resources.of(Bound::Request).iter() {
            let requests = &mut container.resources.requests;
            if value.origin.is_authored() && !requests.contains(name) {
                requests.set(name.clone(), value.clone());
            }
        }
    }
}
