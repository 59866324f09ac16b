//! Estimates requests that nobody set from what the image has used before.
//!
//! For each container and each resource that the settings choose with neither an author's request nor an author's limit: the largest of
//! the configured percentiles of the first history with enough samples ([`step`]), else the table of well-known images,
//! else nothing. Only a request is set. It is raised by the margin, further where the history is short or few pods stand
//! behind it, by out-of-memory kills ([`oom`]) and to the floor, rounded up, and brought inside the ranges, of the
//! container ([`caps`]) and of the pod ([`give_way`]). An estimate never refuses anything: what is wrong with a history
//! becomes a note.
//!
//! This is the retired [InitialResources](https://github.com/kubernetes/design-proposals-archive/blob/main/autoscaling/initial-resources.md)
//! as it was meant.

mod caps;
mod explanation;
mod give_way;
pub mod history;
mod measured;
mod oom;
pub mod step;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::amount::{Family, Quantity, Requirement};
use crate::cluster::Context;
use crate::cluster::autoscaler::{Autoscaler, Owner};
use crate::cluster::usage::{Resource, workload};
use crate::cut::shortened;
use crate::image::ImageName;
use crate::json::{Malformed, Node};
use crate::plan::Want;
use crate::ranges::Range;
use crate::request::{Container, EstimateOrigin, Origin, Pod, Request, Value};
use crate::settings::Settings;
use crate::well_known;

pub use explanation::{Adjustment, Basis, Reason, is_of_estimate, of_passed_over};
pub use give_way::may_shrink;
pub use step::{PassedOver, Sources};

use measured::Measured;

/// The estimates for a pod.
#[derive(Debug, Default)]
pub struct Estimates<'d> {
    pub estimates: Vec<Estimate<'d>>,
    /// What is wrong with the history, and what was left out for whose sake.
    pub notes: Vec<String>,
}

/// One estimate.
#[derive(Debug)]
pub struct Estimate<'d> {
    pub want: Want,
    container: Cow<'d, str>,
    /// What the author set, if it is beside that.
    set: Option<Quantity>,
    pub quantity: Quantity,
    /// The least that the ranges allow the container.
    least: Quantity,
    pub basis: Basis,
    pub adjustments: Vec<Adjustment<'d>>,
    pub passed_over: Vec<PassedOver>,
    /// Told, and not set.
    pub only_told: bool,
}

/// Makes the estimates that are wanted for a pod.
pub fn make<'d>(
    request: &Request<'d>,
    pod: &Pod<'d>,
    wants: &[Want],
    ranges: &[Range<'d>],
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Estimates<'d>, Malformed> {
    let mut made = Estimates::default();
    let workload = workload::of(request);
    let owners = if context.autoscalers.is_empty() { Vec::new() } else { owners(request, pod)? };
    for wants in wants.chunk_by(|one, other| one.container == other.container) {
        let container = wants.first().and_then(|want| pod.containers.get(want.container));
        let Some(container) = container else { continue };
        // No runtime could pull an image whose name cannot be read.
        let Ok(image) = ImageName::parse(&container.image) else { continue };
        let sources = Sources::find(&image, (workload, &container.name), context, &settings.estimates, &mut made.notes);
        for want in wants {
            let scales = |scaler: &Autoscaler<'_>| scaler.scales_by(&owners, &container.name, want.resource);
            if context.autoscalers.iter().any(scales) {
                made.notes.push(format!(
                    "container {}: no {} estimate, because a HorizontalPodAutoscaler scales by it",
                    shortened(&container.name),
                    want.resource.name()
                ));
                continue;
            }
            let estimate = estimate(*want, container, &image, &sources, ranges, context, settings, &mut made.notes);
            made.estimates.extend(estimate);
        }
    }
    dedup(&mut made.notes);
    Ok(made)
}

/// Who makes a pod: the controller that owns it, and the Deployment behind a ReplicaSet. Of a controller itself, that
/// controller.
pub fn owners<'d>(request: &Request<'d>, pod: &Pod<'d>) -> Result<Vec<Owner<'d>>, Malformed> {
    if request.kind != "Pod" {
        return Ok(vec![Owner { kind: request.kind.clone(), name: request.name.clone() }]);
    }
    let mut owners = Vec::new();
    let Some(metadata) = pod.node.get("metadata")? else { return Ok(owners) };
    for reference in metadata.list("ownerReferences")? {
        if !matches!(reference.get("controller")?.map(Node::bool), Some(Ok(true))) {
            continue;
        }
        let (Some(kind), Some(name)) = (reference.string("kind")?, reference.string("name")?) else { continue };
        if kind == "ReplicaSet"
            && let Some(hash) = metadata.at(&["labels", "pod-template-hash"])?
            && let Some(deployment) = name.strip_suffix(hash.str()?.as_ref()).and_then(|rest| rest.strip_suffix('-'))
        {
            owners.push(Owner { kind: Cow::Borrowed("Deployment"), name: Cow::Owned(deployment.to_owned()) });
        }
        owners.push(Owner { kind, name });
        // A pod has one controller.
        break;
    }
    Ok(owners)
}

#[expect(clippy::too_many_arguments, reason = "all that an estimate depends on, handed over once")]
pub fn estimate<'d>(
    want: Want,
    container: &Container<'d>,
    image: &ImageName<'_>,
    sources: &Sources<'_, 'd>,
    ranges: &[Range<'d>],
    context: &Context<'d>,
    settings: &Settings<'d>,
    notes: &mut Vec<String>,
) -> Option<Estimate<'d>> {
    let resource = want.resource;
    let chosen_by = &settings.estimates;
    let (chosen, passed_over) = sources.choose(resource, chosen_by, notes);
    let mut adjustments = Vec::new();
    let from_history = chosen.and_then(|chosen| {
        let measured = Measured::of(&chosen, resource, context, settings, &mut adjustments);
        measured
            .map_err(|unusable| {
                adjustments.clear();
                notes.push(sources.unused(&unusable));
            })
            .ok()
    });
    let Measured { quantity, basis } = match from_history {
        Some(measured) => measured,
        None if chosen_by.well_known_images => {
            let known = well_known::requests(image.repository())?;
            let quantity = match resource {
                Resource::Cpu => known.cpu,
                Resource::Memory => known.memory,
                Resource::EphemeralStorage => return None,
            };
            Measured { quantity, basis: Basis::WellKnown { source: known.source } }
        }
        None => return None,
    };
    let floor = chosen_by.floor.of(resource);
    let mut quantity = in_usual_suffixes(quantity, resource);
    if quantity < *floor {
        adjustments.push(Adjustment { from: quantity, reason: Reason::Floor });
        quantity = in_usual_suffixes(floor.clone(), resource);
    }
    let rounding = chosen_by.rounding.of(resource);
    quantity = quantity.rounded_up_to_multiple_of(rounding);
    let mut least = Quantity::ZERO;
    if !want.beside {
        let repairs = settings.limit_ranges.repair_default_limit;
        let capped = caps::fit(quantity, container, resource, ranges, repairs, rounding);
        (quantity, least) = (capped.quantity, capped.least);
        adjustments.extend(capped.adjustments);
    }
    let only_told = want.beside || chosen_by.dry_run;
    let amount = |requirement| container.resources.quantity(requirement, resource.name());
    let set = amount(Requirement::Request).or(amount(Requirement::Limit)).filter(|_| want.beside).cloned();
    let container = container.name.clone();
    Some(Estimate { want, container, set, quantity, least, basis, adjustments, passed_over, only_told })
}

/// The same amount as people write it: `250m` of cpu, `100Mi` of memory.
fn in_usual_suffixes(quantity: Quantity, resource: Resource) -> Quantity {
    quantity.to_family(match resource {
        Resource::Cpu => Family::DecimalSi,
        Resource::Memory | Resource::EphemeralStorage => Family::BinarySi,
    })
}

/// Says each thing once, in the order in which it was first said.
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
    /// Whether any value is set by them.
    pub fn set_anything(&self) -> bool {
        self.estimates.iter().any(|estimate| !estimate.only_told)
    }

    /// Sets them in the pod, or puts them beside what the author set.
    pub fn apply(&self, pod: &mut Pod<'d>) {
        for estimate in &self.estimates {
            let Some(container) = pod.containers.get_mut(estimate.want.container) else { continue };
            let values = match (estimate.only_told, estimate.want.beside) {
                (false, _) => &mut container.resources.requests,
                (true, true) => &mut container.told,
                (true, false) => continue,
            };
            let value = Value { quantity: estimate.quantity.clone(), origin: estimate.origin() };
            values.set(estimate.want.resource.name().into(), value);
        }
    }

    /// Tells each in words that begin with `whose`.
    pub fn tell(&self, whose: &str) -> Vec<Told> {
        self.estimates.iter().map(|estimate| estimate.told(whose)).collect()
    }
}

/// An estimate in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// One line, as `kubectl apply` shows a warning.
    pub text: String,
    /// All that the estimate is based on, where no annotation of the pod tells it.
    pub full: Option<String>,
    /// Not for an estimate that says much the same as the author.
    pub is_worth_a_warning: bool,
}

/// What the author set is much different from the estimate if it differs by more than this, in percent of it.
const MUCH_PERCENT: u64 = 20;

impl Estimate<'_> {
    /// Where the amount comes from.
    fn origin<'d>(&self) -> Origin<'d> {
        let basis = explanation::of(&self.basis, &self.adjustments);
        Origin::Estimate(Box::new(EstimateOrigin {
            basis,
            passed_over: explanation::of_passed_over(&self.passed_over),
        }))
    }

    fn told(&self, whose: &str) -> Told {
        let Self { container, set, quantity, .. } = self;
        let name = self.want.resource.name();
        // Room for the longest that is usual: growing a text costs more than writing it.
        let mut text = String::with_capacity(192);
        text.extend([whose, &shortened(container), ": ", name]);
        match set {
            Some(set) => push(&mut text, format_args!(" is set to {set}, estimated at {quantity}")),
            None if self.only_told => push(&mut text, format_args!(" request would be set to {quantity}")),
            None => push(&mut text, format_args!(" request set to {quantity}")),
        }
        let full = self.only_told.then(|| format!("{text} ({})", self.origin()));
        text.push_str(" (");
        explanation::push_brief(&mut text, &self.basis, &self.adjustments, &self.passed_over);
        text.push(')');
        let is_much = |set: &Quantity| {
            *set > quantity.scaled(100 + MUCH_PERCENT, 100) || *set < quantity.scaled(100 - MUCH_PERCENT, 100)
        };
        let is_worth_a_warning = set.as_ref().is_none_or(is_much);
        Told { text, full, is_worth_a_warning }
    }
}

fn push(text: &mut String, words: fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _ = text.write_fmt(words);
}
