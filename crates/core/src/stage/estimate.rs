//! Estimates requests that nobody set from what the image has used before.
//!
//! For each container and each of cpu and memory with neither an author's request nor an author's limit: the configured
//! percentile of the first history with enough samples ([`step`]), else the table of well-known images, else nothing.
//! Only a request is set. It is raised by the margin, by out-of-memory kills ([`oom`]) and to the floor, rounded up, and
//! brought inside the ranges, of the container ([`caps`]) and of the pod ([`give_way`]). An estimate never refuses
//! anything: what is wrong with a history becomes a note.
//!
//! This is the retired [InitialResources](https://github.com/kubernetes/design-proposals-archive/blob/main/autoscaling/initial-resources.md)
//! as it was meant.

mod caps;
mod explanation;
mod give_way;
mod oom;
pub mod recommend;
mod step;
pub mod want;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use super::ranges::Range;
use crate::amount::{Family, Quantity};
use crate::context::autoscaler;
use crate::context::usage::Resource;
use crate::context::{Context, usage::read::Unusable};
use crate::image::ImageName;
use crate::json::Malformed;
use crate::request::Request;
use crate::request::template::{Bound, Container, Origin, PodTemplate, Value};
use crate::settings::{EstimateMode, Settings};
use crate::subject::Subject;
use crate::well_known;
use step::Sources;
use want::Want;

pub use explanation::{Adjustment, Basis, Reason};
pub use give_way::may_shrink;
pub use step::{PassedOver, Whose};

/// The estimates for a pod.
#[derive(Debug, Default)]
pub struct Estimates<'d> {
    estimates: Vec<Estimate<'d>>,
    /// What is wrong with the history, and what was left out for whose sake.
    pub notes: Vec<String>,
}

/// One estimate.
#[derive(Debug)]
struct Estimate<'d> {
    want: Want,
    container: Cow<'d, str>,
    /// What the author set, if it is beside that.
    set: Option<Quantity>,
    quantity: Quantity,
    /// The least that the ranges allow the container.
    least: Quantity,
    basis: Basis,
    adjustments: Vec<Adjustment<'d>>,
    passed_over: Vec<PassedOver>,
    /// Told, and not set.
    only_told: bool,
}

/// Whether estimates are made for such a subject at all.
pub fn is_on(subject: Subject, settings: &Settings<'_>) -> bool {
    let makes_pods = matches!(subject, Subject::Pod | Subject::Workload);
    makes_pods && settings.estimates.mode != EstimateMode::Never
}

/// The estimates for a pod whose values are marked with who spoke them.
pub fn make<'d>(
    request: &Request<'d>,
    pod: &PodTemplate<'d>,
    ranges: &[Range<'_, 'd>],
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Estimates<'d>, Malformed> {
    let mut made = Estimates::default();
    let mode = want::mode(pod, context, &settings.estimates, &mut made.notes)?;
    let wants = want::all(pod, mode, &settings.estimates);
    // Where the LimitRanges are unknown, an estimate could not be brought inside them.
    if wants.is_empty() || context.limit_ranges.is_none() {
        return Ok(made);
    }
    let owners = if context.autoscalers.is_empty() { Vec::new() } else { autoscaler::owners(request, pod)? };
    for wants in wants.chunk_by(|one, other| one.container == other.container) {
        let container = wants.first().and_then(|want| pod.containers.get(want.container));
        let Some(container) = container else { continue };
        // No runtime could pull an image whose name cannot be read.
        let Ok(image) = ImageName::parse(&container.image) else { continue };
        let sources = Sources::find(&image, context, &settings.estimates, &mut made.notes);
        for want in wants {
            let scales =
                |scaler: &autoscaler::Autoscaler<'_>| scaler.scales_by(&owners, &container.name, want.resource);
            if context.autoscalers.iter().any(scales) {
                made.notes.push(format!(
                    "container {}: no {} estimate, because a HorizontalPodAutoscaler scales by it",
                    container.name,
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

#[expect(clippy::too_many_arguments, reason = "all that an estimate depends on, handed over once")]
fn estimate<'d>(
    want: Want,
    container: &Container<'d>,
    image: &ImageName<'_>,
    sources: &Sources<'_, 'd>,
    ranges: &[Range<'_, 'd>],
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
                notes.push(step::unused(sources.scope_of(chosen.whose), &unusable));
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
    let amount = |bound| container.resources.quantity(bound, resource.name());
    let set = amount(Bound::Request).or(amount(Bound::Limit)).filter(|_| want.beside).cloned();
    let container = container.name.clone();
    Some(Estimate { want, container, set, quantity, least, basis, adjustments, passed_over, only_told })
}

/// An amount out of the history.
struct Measured {
    quantity: Quantity,
    basis: Basis,
}

impl Measured {
    /// The percentile, with the margin and what out-of-memory kills add.
    fn of(
        chosen: &step::Chosen<'_>,
        resource: Resource,
        context: &Context<'_>,
        settings: &Settings<'_>,
        adjustments: &mut Vec<Adjustment<'_>>,
    ) -> Result<Self, Unusable> {
        let settings = &settings.estimates;
        let percentile = *settings.percentile.of(resource);
        let mut quantity = in_usual_suffixes(chosen.observed.percentile(percentile)?, resource);
        let margin = *settings.margin.of(resource);
        if margin > 0 {
            let raised = quantity.scaled(100 + margin, 100);
            adjustments.push(Adjustment { from: quantity, reason: Reason::Margin(margin) });
            quantity = raised;
        }
        if resource == Resource::Memory
            && let Some(now) = settings.now.or(context.now)
        {
            let kills = chosen.history.oom_kills(chosen.collected_at)?;
            if let Some(raised) = oom::raise(&quantity, &kills, &chosen.observed.peak()?, now) {
                let reason = Reason::OomKill { memory: raised.killed_at, age: raised.age };
                adjustments.push(Adjustment { from: quantity, reason });
                quantity = raised.to;
            }
        }
        let basis = Basis::History {
            percentile,
            window: chosen.window,
            key: chosen.key.clone(),
            whose: chosen.whose,
            samples: chosen.observed.samples,
            age: chosen.age,
        };
        Ok(Self { quantity, basis })
    }
}

/// The same amount as people write it: `250m` of cpu, `100Mi` of memory.
fn in_usual_suffixes(quantity: Quantity, resource: Resource) -> Quantity {
    quantity.to_family(match resource {
        Resource::Cpu => Family::DecimalSi,
        Resource::Memory => Family::BinarySi,
    })
}

fn dedup(notes: &mut Vec<String>) {
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

    /// Sets them in the pod, or puts them beside what the author set; where they come from is said by [`Self::tell`].
    pub fn apply(&self, pod: &mut PodTemplate<'d>) {
        for estimate in &self.estimates {
            let Some(container) = pod.containers.get_mut(estimate.want.container) else { continue };
            let values = match (estimate.only_told, estimate.want.beside) {
                (false, _) => &mut container.resources.requests,
                (true, true) => &mut container.told,
                (true, false) => continue,
            };
            let origin = Origin::Estimate { basis: String::new(), passed_over: String::new() };
            values.set(estimate.want.resource.name().into(), Value { quantity: estimate.quantity.clone(), origin });
        }
    }

    /// Tells each in words that begin with `whose`, and says in the pod where its value comes from.
    pub fn tell(&self, whose: &str, pod: &mut PodTemplate<'d>) -> Vec<Told> {
        let tell = |estimate: &Estimate<'d>| {
            let (told, origin) = estimate.told(whose);
            let container = pod.containers.get_mut(estimate.want.container);
            let values = container.map(|container| match estimate.only_told {
                false => &mut container.resources.requests,
                true => &mut container.told,
            });
            if let Some(value) = values.and_then(|values| values.get_mut(estimate.want.resource.name())) {
                value.origin = origin;
            }
            told
        };
        self.estimates.iter().map(tell).collect()
    }
}

/// An estimate in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub text: String,
    /// Whether the pod gets it.
    pub is_set: bool,
    /// Not for an estimate that says much the same as the author.
    pub is_worth_a_warning: bool,
}

/// What the author set is much different from the estimate if it differs by more than this, in percent of it.
const MUCH_PERCENT: u64 = 20;

impl Estimate<'_> {
    fn told<'d>(&self, whose: &str) -> (Told, Origin<'d>) {
        let Self { container, set, quantity, .. } = self;
        let name = self.want.resource.name();
        // Room for the longest that is usual: growing a text costs more than writing it.
        let mut text = String::with_capacity(320);
        text.extend([whose, "container ", container.as_ref(), ": ", name]);
        match set {
            Some(set) => push(&mut text, format_args!(" is set to {set}, estimated at {quantity}")),
            None if self.only_told => push(&mut text, format_args!(" request would be estimated at {quantity}")),
            None => push(&mut text, format_args!(" request estimated at {quantity}")),
        }
        let basis = explanation::of(&self.basis, &self.adjustments);
        text.extend([": ", basis.as_str()]);
        let passed_over = explanation::of_passed_over(&self.passed_over);
        if !passed_over.is_empty() {
            text.extend(["; passed over: ", passed_over.as_str()]);
        }
        let is_much = |set: &Quantity| {
            *set > quantity.scaled(100 + MUCH_PERCENT, 100) || *set < quantity.scaled(100 - MUCH_PERCENT, 100)
        };
        let is_worth_a_warning = set.as_ref().is_none_or(is_much);
        (Told { text, is_set: !self.only_told, is_worth_a_warning }, Origin::Estimate { basis, passed_over })
    }
}

fn push(text: &mut String, words: fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _ = text.write_fmt(words);
}

/// Whether the pool could add nothing to what the pod's own namespace has seen of an image.
pub fn is_settled_by_own_history(
    image: &ImageName<'_>,
    wants: &[Want],
    context: &Context<'_>,
    settings: &Settings<'_>,
) -> bool {
    let sources = Sources::find(image, context, &settings.estimates, &mut Vec::new());
    wants.iter().all(|want| sources.has_enough_at_first_sight(want.resource, &settings.estimates))
}
