//! Estimates missing requests from the image's usage history.
//!
//! An estimate is made for each container and each resource that the settings choose, if the author set neither request
//! nor limit. It is the largest of the configured percentiles of the first history with enough samples ([`history_lookup`]), else
//! the value in the table of well-known images, else none. Only a request is set. It is raised by the margin, by more
//! if the history is short or of few pods, by out-of-memory kills ([`oom`]) and to the floor; then it is rounded up,
//! and kept within the ranges of the container ([`caps`]) and of the pod ([`fit_to_limits`]). An estimate never refuses
//! anything: a problem with a history becomes a note.
//!
//! This does what the retired
//! [InitialResources](https://github.com/kubernetes/design-proposals-archive/blob/main/autoscaling/initial-resources.md)
//! was designed to do.

pub mod history;
pub mod history_lookup;
mod oom;

mod explanation;

mod caps;
mod fit_to_limits;
mod from_history;
pub mod replace;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::actions::{EstimateTarget, Purpose};
use crate::amount::{Family, Quantity, Requirement};
use crate::cluster::Context;
use crate::cluster::autoscaler::{Autoscaler, ScaleTarget};
use crate::cluster::usage::{Resource, Window};
use crate::find;
use crate::image::ImageName;
use crate::json::Malformed;
use crate::limit_rules::Range;
use crate::request::{Container, EstimateOrigin, Pod, Request, Value, ValueOrigin, controller_of, kinds};
use crate::settings::Settings;
use crate::truncate::shortened;
use crate::well_known;

pub use explanation::{Adjustment, AdjustmentReason, Basis, of_rejected};
pub use fit_to_limits::may_shrink;
pub use from_history::rule_in_words;
pub use history_lookup::{RejectedHistory, Sources};

#[derive(Debug, Default)]
pub struct Estimates<'d> {
    pub estimates: Vec<Estimate<'d>>,
    /// Problems with the history, and estimates that were left out, with the reason.
    pub notes: Vec<String>,
}

#[derive(Debug)]
pub struct Estimate<'d> {
    pub target: EstimateTarget,
    container: Cow<'d, str>,
    /// The author's value, if there is one.
    set: Option<Quantity>,
    /// The author's limit, if it changes with the request.
    limit: Option<Quantity>,
    pub quantity: Quantity,
    /// The least that the ranges allow in the container.
    least: Quantity,
    pub basis: Basis,
    pub adjustments: Vec<Adjustment<'d>>,
    pub rejected: Vec<RejectedHistory>,
    /// Reported, and not set.
    pub only_reported: bool,
}

pub fn make<'d>(
    request: &Request<'d>,
    pod: &Pod<'d>,
    targets: &[EstimateTarget],
    ranges: &[Range<'d>],
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Estimates<'d>, Malformed> {
    let mut made = Estimates::default();
    let workload = request.workload_name();
    let owners = if context.autoscalers.is_empty() { Vec::new() } else { owners(request, pod)? };
    let scales_limits = pod.annotation(replace::LIMITS)?.as_deref() == Some(replace::SCALE);
    for targets in targets.chunk_by(|one, other| one.container == other.container) {
        let container = targets.first().and_then(|target| pod.containers.get(target.container));
        let Some(container) = container else { continue };
        // A runtime cannot pull an image whose name cannot be parsed.
        let Ok(image) = ImageName::parse(&container.image) else { continue };
        let sources = Sources::find(&image, (workload, &container.name), context, &settings.estimates, &mut made.notes);
        for target in targets {
            let scales = |scaler: &Autoscaler<'_>| scaler.scales_by(&owners, &container.name, target.resource);
            if context.autoscalers.iter().any(scales) {
                made.notes.push(format!(
                    "container {}: no {} estimate, because a HorizontalPodAutoscaler scales by it",
                    shortened(&container.name),
                    target.resource.name()
                ));
                continue;
            }
            let resource = target.resource.name();
            let mut container = Cow::Borrowed(container);
            let mut limit = None;
            if target.purpose == Purpose::Replacement && scales_limits {
                // Without it, the limit bounds nothing.
                limit = replace::take_limit(container.to_mut(), resource);
            }
            let estimate = estimate(*target, limit, &container, &sources, ranges, context, settings, &mut made.notes);
            made.estimates.extend(estimate);
        }
    }
    dedup(&mut made.notes);
    Ok(made)
}

/// The controllers of a pod: its controlling owner, and the Deployment above a ReplicaSet. For a request that is about
/// a controller, that controller.
pub fn owners<'d>(request: &Request<'d>, pod: &Pod<'d>) -> Result<Vec<ScaleTarget<'d>>, Malformed> {
    if request.kind != "Pod" {
        // A `Scale` is about a workload, too.
        let kind = request.pod_kind().map_or_else(|| request.kind.clone(), |kind| Cow::Borrowed(kind.kind));
        return Ok(vec![ScaleTarget { kind, name: request.name.clone() }]);
    }
    let mut owners = Vec::new();
    let Some(reference) = controller_of(pod.node)? else { return Ok(owners) };
    let (Some(kind), Some(name)) = (reference.string("kind")?, reference.string("name")?) else { return Ok(owners) };
    if kind == kinds::REPLICA_SET.kind
        && let Some(hash) = pod.node.at(&["metadata", "labels", "pod-template-hash"])?
        && let Some(deployment) = name.strip_suffix(hash.str()?.as_ref()).and_then(|rest| rest.strip_suffix('-'))
    {
        owners
            .push(ScaleTarget { kind: Cow::Borrowed(kinds::DEPLOYMENT.kind), name: Cow::Owned(deployment.to_owned()) });
    }
    owners.push(ScaleTarget { kind, name });
    Ok(owners)
}

#[expect(clippy::too_many_arguments, reason = "the inputs of an estimate, passed once")]
pub fn estimate<'d>(
    target: EstimateTarget,
    limit: Option<Quantity>,
    container: &Container<'d>,
    sources: &Sources<'_, 'd>,
    ranges: &[Range<'d>],
    context: &Context<'d>,
    settings: &Settings<'d>,
    notes: &mut Vec<String>,
) -> Option<Estimate<'d>> {
    let resource = target.resource;
    let chosen_by = &settings.estimates;
    let (chosen, rejected) = sources.choose(resource, chosen_by, notes);
    let mut adjustments = Vec::new();
    let from_history = chosen.as_ref().and_then(|chosen| {
        let estimate = from_history::estimate(chosen, resource, context, settings, &mut adjustments);
        estimate
            .map_err(|malformed| {
                adjustments.clear();
                notes.push(sources.unused(&malformed));
            })
            .ok()
    });
    let (mut quantity, basis) = match from_history {
        Some(estimate) => estimate,
        None if chosen_by.well_known_images => {
            let known = well_known::requests(sources.image.repository())?;
            let quantity = match resource {
                Resource::Cpu => known.cpu,
                Resource::Memory => known.memory,
                Resource::EphemeralStorage => return None,
            };
            (quantity, Basis::WellKnown { source: known.source })
        }
        None => return None,
    };
    let floor = chosen_by.min.of(resource);
    if quantity < *floor {
        let from = readable(std::mem::replace(&mut quantity, floor.clone()), resource);
        adjustments.push(Adjustment { from, reason: AdjustmentReason::Floor });
    }
    quantity = readable(quantity, resource);
    let replaces = target.purpose == Purpose::Replacement;
    let peak = if replaces { replace::peak(chosen.as_ref(), resource, limit.is_some()) } else { None };
    if let Some(used) = peak.as_ref().filter(|peak| **peak > quantity) {
        let used = readable(used.clone(), resource);
        let from = std::mem::replace(&mut quantity, used.clone());
        adjustments.push(Adjustment { from, reason: AdjustmentReason::Peak { used, window: Window::Month } });
    }
    let mut least = Quantity::ZERO;
    let is_compared = target.purpose == Purpose::Comparison;
    if !is_compared {
        let repairs = settings.limit_ranges.raise_default_limits;
        let capped = caps::fit(quantity, container, resource, ranges, repairs);
        (quantity, least) = (capped.quantity, capped.least.max(peak.clone().unwrap_or(Quantity::ZERO)));
        adjustments.extend(capped.adjustments);
    }
    if quantity.is_out_of_range() {
        notes.push(format!("no {} estimate for {}: it is out of range", resource.name(), shortened(&container.name)));
        return None;
    }
    let only_reported = is_compared || chosen_by.dry_run;
    let authored = |requirement| {
        container.resources.of(requirement).get(resource.name()).filter(|value| value.origin.is_authored())
    };
    let set =
        Requirement::BOTH.iter().find_map(|requirement| authored(*requirement)).filter(|_| is_compared || replaces);
    let set = set.map(|value| value.quantity.clone());
    let container = container.name.clone();
    let mut estimate =
        Estimate { target, container, set, limit, quantity, least, basis, adjustments, rejected, only_reported };
    if replaces {
        estimate.replace_or_keep(chosen.as_ref(), peak.as_ref(), context);
    }
    Some(estimate)
}

/// Estimates are rounded up to whole millicores and Mi, which are easy to read.
fn rounding(resource: Resource) -> Quantity {
    match resource {
        Resource::Cpu => Quantity::from_milli(1),
        Resource::Memory | Resource::EphemeralStorage => Quantity::from_bytes(1 << 20),
    }
}

/// The amount as it is set and shown.
fn readable(quantity: Quantity, resource: Resource) -> Quantity {
    in_usual_suffixes(quantity, resource).rounded_up_to_multiple_of(&rounding(resource))
}

/// The same amount in the usual notation: `250m` for cpu, `100Mi` for memory.
fn in_usual_suffixes(quantity: Quantity, resource: Resource) -> Quantity {
    quantity.to_family(match resource {
        Resource::Cpu => Family::DecimalSi,
        Resource::Memory | Resource::EphemeralStorage => Family::BinarySi,
    })
}

/// Removes repeated notes and keeps the order.
pub fn dedup(notes: &mut Vec<String>) {
    let mut kept: Vec<String> = Vec::with_capacity(notes.len());
    for note in notes.drain(..) {
        if !kept.contains(&note) {
            kept.push(note);
        }
    }
    *notes = kept;
}

impl<'d> Estimates<'d> {
    pub fn sets_any_value(&self) -> bool {
        self.estimates.iter().any(|estimate| !estimate.only_reported)
    }

    /// Sets the estimates in the pod, or adds them to the container's reported values if the author set a value.
    pub fn apply(&self, pod: &mut Pod<'d>) {
        self.apply_those(pod, |_| true);
    }

    pub fn apply_those(&self, pod: &mut Pod<'d>, are_applied: impl Fn(&Estimate<'d>) -> bool) {
        for estimate in self.estimates.iter().filter(|estimate| are_applied(estimate)) {
            let Some(container) = pod.containers.get_mut(estimate.target.container) else { continue };
            let values = match (estimate.only_reported, estimate.target.purpose) {
                (false, _) => &mut container.resources.requests,
                (true, Purpose::Comparison) => &mut container.reported,
                (true, _) => continue,
            };
            let value = Value { quantity: estimate.quantity.clone(), origin: estimate.origin() };
            values.set(estimate.target.resource.name().into(), value);
            if let Some(limit) = estimate.scaled_limit() {
                container.resources.limits.set(estimate.target.resource.name().into(), limit);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimateReport<'d> {
    pub container: Cow<'d, str>,
    pub resource: Resource,
    /// One line, as `kubectl apply` shows a warning.
    pub text: String,
    /// The full basis of the estimate, if no annotation of the pod contains it.
    pub full: Option<String>,
    /// False for an estimate close to what the author set.
    pub should_warn: bool,
}

const IS_SET: &str = " request set to ";
const WOULD_BE_SET: &str = " request would be set to ";

impl EstimateReport<'_> {
    /// Says that the value would be set, because the object does not get it.
    pub fn set_nothing(&mut self) {
        if let Some((before, after)) = find::split_once(&self.text, IS_SET) {
            self.text = [before, WOULD_BE_SET, after].concat();
        }
    }
}

/// If the author's value differs from the estimate by more than this, in percent of the estimate, it differs much.
const MUCH_PERCENT: u64 = 20;

impl<'d> Estimate<'d> {
    fn origin<'o>(&self) -> ValueOrigin<'o> {
        let mut basis = explanation::of(&self.basis, &self.adjustments);
        if let Some(set) = self.set.as_ref().filter(|_| self.target.purpose == Purpose::Replacement) {
            push(&mut basis, format_args!("; in place of {set} in the manifest"));
        }
        ValueOrigin::Estimate(Box::new(EstimateOrigin {
            basis,
            skipped: explanation::of_skipped(&self.basis, &self.rejected),
        }))
    }

    /// Describes the estimate in a text that begins with `prefix`.
    pub fn report(&self, prefix: &str) -> EstimateReport<'d> {
        let Self { container, set, quantity, .. } = self;
        let name = self.target.resource.name();
        // Room for the longest usual text: growing a text costs more than writing it.
        let mut text = String::with_capacity(192);
        text.extend([prefix, "container ", &shortened(container), ": ", name]);
        match set {
            Some(set) if !self.only_reported => {
                push(&mut text, format_args!("{IS_SET}{quantity} in place of {set}"));
            }
            Some(set) => push(&mut text, format_args!(" is set to {set}, estimated at {quantity}")),
            None if self.only_reported => push(&mut text, format_args!("{WOULD_BE_SET}{quantity}")),
            None => push(&mut text, format_args!("{IS_SET}{quantity}")),
        }
        let full = self.only_reported.then(|| format!("{text} ({})", self.origin()));
        text.push_str(" (");
        explanation::push_brief(&mut text, &self.basis, &self.adjustments, &self.rejected);
        text.push(')');
        let is_much = |set: &Quantity| {
            *set > quantity.scaled(100 + MUCH_PERCENT, 100) || *set < quantity.scaled(100 - MUCH_PERCENT, 100)
        };
        let should_warn = set.as_ref().is_none_or(is_much);
        EstimateReport { container: container.clone(), resource: self.target.resource, text, full, should_warn }
    }
}

fn push(text: &mut String, words: fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _ = text.write_fmt(words);
}
