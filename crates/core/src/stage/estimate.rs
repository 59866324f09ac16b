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

use super::ranges::Range;
use crate::amount::{Family, Quantity};
use crate::context::autoscaler;
use crate::context::usage::{Resource, Scope};
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
    for (index, container) in pod.containers.iter().enumerate() {
        let of_container = || wants.iter().filter(|want| want.container == index);
        // No runtime could pull an image whose name cannot be read.
        let Ok(image) = ImageName::parse(&container.image) else { continue };
        if of_container().next().is_none() {
            continue;
        }
        let sources = Sources::find(&image, context, &settings.estimates, &mut made.notes);
        for want in of_container() {
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
    Some(Estimate { want, quantity, least, basis, adjustments, passed_over, only_told })
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

    /// Sets them in the pod, or puts them beside what the author set.
    pub fn apply(&self, pod: &mut PodTemplate<'d>) {
        for estimate in &self.estimates {
            let Some(container) = pod.containers.get_mut(estimate.want.container) else { continue };
            let name = estimate.want.resource.name();
            let basis = explanation::of(&estimate.basis, &estimate.adjustments);
            let passed_over = explanation::of_passed_over(&estimate.passed_over);
            let origin = Origin::Estimate { basis, passed_over };
            let value = Value { quantity: estimate.quantity.clone(), origin };
            if !estimate.only_told {
                container.resources.requests.set(name.into(), value);
            } else if estimate.want.beside {
                container.told.set(name.into(), value);
            }
        }
    }

    /// Each estimate in words, and whether a person should be warned of it.
    pub fn told(&self, pod: &PodTemplate<'d>) -> Vec<Told> {
        self.estimates.iter().filter_map(|estimate| estimate.told(pod)).collect()
    }
}

/// An estimate in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub text: String,
    /// Not for an estimate that says much the same as the author.
    pub is_worth_a_warning: bool,
}

/// What the author set is much different from the estimate if it differs by more than this, in percent of it.
const MUCH_PERCENT: u64 = 20;

impl Estimate<'_> {
    fn told(&self, pod: &PodTemplate<'_>) -> Option<Told> {
        let container = pod.containers.get(self.want.container)?;
        let name = self.want.resource.name();
        let set =
            container.resources.quantity(Bound::Request, name).or(container.resources.quantity(Bound::Limit, name));
        let explanation = explanation::of(&self.basis, &self.adjustments);
        let quantity = &self.quantity;
        let what = match set {
            Some(set) if self.want.beside => format!("{name} is set to {set}, estimated at {quantity}"),
            _ if self.only_told => format!("{name} request would be estimated at {quantity}"),
            _ => format!("{name} request estimated at {quantity}"),
        };
        let mut text = format!("container {}: {what}: {explanation}", container.name);
        if !self.passed_over.is_empty() {
            text.push_str("; passed over: ");
            text.push_str(&explanation::of_passed_over(&self.passed_over));
        }
        let is_much = |set: &Quantity| {
            *set > quantity.scaled(100 + MUCH_PERCENT, 100) || *set < quantity.scaled(100 - MUCH_PERCENT, 100)
        };
        let is_worth_a_warning = !self.want.beside || set.is_some_and(is_much);
        Some(Told { text, is_worth_a_warning })
    }
}

/// The scopes of a profile that a container's image is looked up in.
pub fn scopes(image: &ImageName<'_>, settings: &Settings<'_>) -> impl Iterator<Item = Scope> {
    let own = settings.estimates.reads_namespace().then_some(Scope::Namespace);
    own.into_iter().chain(settings.estimates.reads_pool().then(|| step::pool_of(image)))
}
