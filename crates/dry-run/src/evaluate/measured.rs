//! The usage that an estimated request was made from, for people who want to see it beside the request.

use headroom_admission::cluster::usage::{Percentile, Resource};
use headroom_admission::estimate::Sources;
use headroom_admission::image::ImageName;
use headroom_admission::request::{Container, Pod};
use headroom_admission::settings::EstimateSettings;
use headroom_admission::{Context, Request, Settings};

use super::object_decision::{ContainerValues, Measured, SetBy};

/// Adds its history to each estimated request. Values and pod are of the same containers.
pub fn add(
    values: &mut [ContainerValues],
    pod: &Pod<'_>,
    request: &Request<'_>,
    context: &Context<'_>,
    settings: &Settings<'_>,
) {
    for (values, container) in values.iter_mut().zip(&pod.containers) {
        if values.values.iter().any(|value| value.set_by == SetBy::Estimate) {
            add_to_container(values, container, request, context, &settings.estimates);
        }
    }
}

fn add_to_container(
    values: &mut ContainerValues,
    container: &Container<'_>,
    request: &Request<'_>,
    context: &Context<'_>,
    settings: &EstimateSettings<'_>,
) {
    let Ok(image) = ImageName::parse(&container.image) else { return };
    // Faults of a history were noted when the estimate was made.
    let notes = &mut Vec::new();
    let sources = Sources::find(&image, (request.workload_name(), &container.name), context, settings, notes);
    for value in values.values.iter_mut().filter(|value| value.set_by == SetBy::Estimate) {
        let resource = Resource::ALL.into_iter().find(|resource| resource.name() == value.resource);
        let chosen = resource.and_then(|resource| sources.choose(resource, settings, notes).0);
        let Some(observed) = chosen.map(|chosen| chosen.observed) else { continue };
        let percentiles = Percentile::PUBLISHED.into_iter().filter_map(|at| Some((at, observed.percentile(at).ok()?)));
        let levels = percentiles.chain(observed.peak().ok().map(|peak| (Percentile::PEAK, peak)));
        value.usage = levels.map(|(at, amount)| Measured { at: at.to_string(), amount: amount.to_string() }).collect();
    }
}
