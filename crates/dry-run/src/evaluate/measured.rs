//! The usage that an estimated request was made from, for people who want to see it beside the request.

use headroom_admission::cluster::usage::{Percentile, Resource};
use headroom_admission::estimate::Sources;
use headroom_admission::image::ImageName;
use headroom_admission::request::Pod;
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
    let settings = &settings.estimates;
    for (ContainerValues { values, .. }, container) in values.iter_mut().zip(&pod.containers) {
        let mut estimated = values.iter_mut().filter(|value| value.set_by == SetBy::Estimate).peekable();
        let Ok(image) = ImageName::parse(&container.image) else { continue };
        if estimated.peek().is_none() {
            continue;
        }
        // Faults of a history were noted when the estimate was made.
        let notes = &mut Vec::new();
        let sources = Sources::find(&image, (request.workload_name(), &container.name), context, settings, notes);
        for value in estimated {
            let resource = Resource::ALL.into_iter().find(|resource| resource.name() == value.resource);
            let chosen = resource.and_then(|resource| sources.choose(resource, settings, notes).0);
            let Some(observed) = chosen.map(|chosen| chosen.observed) else { continue };
            let percentiles = Percentile::PUBLISHED.into_iter();
            let percentiles = percentiles.filter_map(|at| Some((at, observed.percentile(at).ok()?)));
            let levels = percentiles.chain(observed.peak().ok().map(|peak| (Percentile::PEAK, peak)));
            let told = levels.map(|(at, amount)| Measured { at: at.to_string(), amount: amount.to_string() });
            value.usage = told.collect();
        }
    }
}
