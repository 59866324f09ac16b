//! Estimates for every container of a pod, whoever spoke of it before: what people are told who ask for advice.
//!
//! The same steps, caps and words as for a pod that is admitted, so advice and admission never differ. What the author
//! limits is the one bound more: a request above it would be refused.

use super::explanation::{Adjustment, Basis, Reason};
use super::step::{PassedOver, Sources};
use super::{Estimate, Estimates, Want, dedup, estimate};
use crate::amount::Quantity;
use crate::context::usage::{OomKill, Percentile, Resource};
use crate::context::{Context, autoscaler};
use crate::image::ImageName;
use crate::json::Malformed;
use crate::request::Request;
use crate::request::template::{Bound, PodTemplate};
use crate::settings::{EstimateSettings, Settings};
use crate::stage::ranges::Range;

/// What can be said of a pod.
#[derive(Debug, Default)]
pub struct Advice<'d> {
    pub estimates: Estimates<'d>,
    pub measured: Vec<Measurements>,
    pub unknown: Vec<Unknown>,
}

/// What a container's image was observed to use, where an estimate is made from that.
#[derive(Debug, Clone)]
pub struct Measurements {
    /// The container's place in the pod.
    pub container: usize,
    pub resource: Resource,
    pub percentiles: Vec<(Percentile, Quantity)>,
    pub peak: Quantity,
    pub pods: u64,
    pub namespaces: u64,
    pub oom_kills: Vec<OomKill>,
}

/// A container and a resource of which nothing is known.
#[derive(Debug, Clone)]
pub struct Unknown {
    pub container: usize,
    pub resource: Resource,
    /// Where it was looked for, or why it was not.
    pub why: String,
}

/// One estimate with what speaks for it.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'e, 'd> {
    pub container: usize,
    pub resource: Resource,
    pub quantity: &'e Quantity,
    pub basis: &'e Basis,
    pub adjustments: &'e [Adjustment<'d>],
    pub passed_over: &'e [PassedOver],
}

impl<'d> Estimates<'d> {
    /// Each estimate as data.
    pub fn evidence(&self) -> impl Iterator<Item = Evidence<'_, 'd>> {
        self.estimates.iter().map(|estimate| Evidence {
            container: estimate.want.container,
            resource: estimate.want.resource,
            quantity: &estimate.quantity,
            basis: &estimate.basis,
            adjustments: &estimate.adjustments,
            passed_over: &estimate.passed_over,
        })
    }
}

/// Estimates for all containers of a pod that has no requests but limits.
pub fn for_all<'d>(
    request: &Request<'d>,
    pod: &PodTemplate<'d>,
    ranges: &[Range<'_, 'd>],
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Advice<'d>, Malformed> {
    let chosen_by = &settings.estimates;
    let mut advice = Advice::default();
    let mut notes = Vec::new();
    let owners = if context.autoscalers.is_empty() { Vec::new() } else { autoscaler::owners(request, pod)? };
    for (index, container) in pod.containers.iter().enumerate() {
        let image = match ImageName::parse(&container.image) {
            Ok(image) => image,
            Err(error) => {
                let why = format!("the image `{}` cannot be read: {error}", container.image);
                let unknown = |resource| Unknown { container: index, resource, why: why.clone() };
                advice.unknown.extend(Resource::ALL.map(unknown));
                continue;
            }
        };
        let sources = Sources::find(&image, context, chosen_by, &mut notes);
        for resource in Resource::ALL.into_iter().filter(|resource| *chosen_by.resources.of(*resource)) {
            let mut unknown =
                |why: &str| advice.unknown.push(Unknown { container: index, resource, why: why.to_owned() });
            if is_of_the_pod(pod, resource) {
                unknown("the pod as a whole has resources, which its containers share");
                continue;
            }
            if context.autoscalers.iter().any(|scaler| scaler.scales_by(&owners, &container.name, resource)) {
                unknown("a HorizontalPodAutoscaler scales by it, so another request would change how many pods run");
                continue;
            }
            let want = Want { container: index, resource, beside: false };
            let made = estimate(want, container, &image, &sources, ranges, context, settings, &mut notes);
            let Some(mut made) = made else {
                unknown(&in_vain(&sources, resource, chosen_by));
                continue;
            };
            made.only_told = false;
            if let Some(limit) = container.resources.quantity(Bound::Limit, resource.name()) {
                made.lower_to_limit(limit);
            }
            if matches!(made.basis, Basis::History { .. }) {
                advice.measured.extend(measurements(&sources, index, resource, chosen_by));
            }
            advice.estimates.estimates.push(made);
        }
    }
    dedup(&mut notes);
    advice.estimates.notes = notes;
    Ok(advice)
}

fn is_of_the_pod(pod: &PodTemplate<'_>, resource: Resource) -> bool {
    [Bound::Request, Bound::Limit].iter().any(|bound| pod.resources.of(*bound).contains(resource.name()))
}

/// Where a history was looked for, none of which will do.
fn in_vain(sources: &Sources<'_, '_>, resource: Resource, settings: &EstimateSettings<'_>) -> String {
    // What is wrong with a profile was noted when the estimate was tried.
    let (_, passed_over) = sources.choose(resource, settings, &mut Vec::new());
    super::explanation::of_passed_over(&passed_over)
}

fn measurements(
    sources: &Sources<'_, '_>,
    container: usize,
    resource: Resource,
    settings: &EstimateSettings<'_>,
) -> Option<Measurements> {
    let (chosen, _) = sources.choose(resource, settings, &mut Vec::new());
    let chosen = chosen?;
    let percentiles =
        Percentile::PUBLISHED.into_iter().filter_map(|p| Some((p, chosen.observed.percentile(p).ok()?))).collect();
    Some(Measurements {
        container,
        resource,
        percentiles,
        peak: chosen.observed.peak().ok()?,
        pods: chosen.observed.pods().ok()?,
        namespaces: chosen.observed.namespaces().ok()?,
        oom_kills: chosen.history.oom_kills(chosen.collected_at).ok()?,
    })
}

impl Estimate<'_> {
    fn lower_to_limit(&mut self, limit: &Quantity) {
        if self.quantity > *limit {
            let from = std::mem::replace(&mut self.quantity, limit.clone());
            self.adjustments.push(Adjustment { from, reason: Reason::Limit(None) });
        }
    }
}
