//! Which images' histories a request wants, and where to read them: the namespace's own first, and the pool only for the
//! images whose own history leaves a question open.

use super::Context;
use super::lookup::Lookup;
use super::usage::address::{Place, Scope, Shard, field_masks};
use crate::image::ImageName;
use crate::json::Malformed;
use crate::request::Request;
use crate::settings::{Matching, Settings};
use crate::stage::estimate::{Whose, is_on, is_settled_by_own_history, want};
use crate::stage::{authored, ranges};
use crate::subject::Subject;

/// The images of a request's containers that lack what an estimate could supply.
#[derive(Debug, Default)]
pub struct WantedHistory<'d>(Vec<WantedImage<'d>>);

#[derive(Debug)]
struct WantedImage<'d> {
    text: &'d str,
    name: ImageName<'d>,
    wants: Vec<want::Want>,
}

impl<'d> WantedHistory<'d> {
    /// What a request wants, given the answers to [`Lookup::all`]. One that cannot be read wants nothing: the decision
    /// refuses it, and says why.
    pub fn of(request: &'d Request<'d>, settings: &Settings<'d>, context: &Context<'d>) -> Self {
        Self::read(request, settings, context).unwrap_or_default()
    }

    fn read(request: &'d Request<'d>, settings: &Settings<'d>, context: &Context<'d>) -> Result<Self, Malformed> {
        let mut images: Vec<WantedImage<'d>> = Vec::new();
        let is_on = Subject::of(request).is_some_and(|subject| is_on(subject, settings));
        let Some(pod) = request.pod()?.filter(|_| is_on && context.limit_ranges.is_some()) else {
            return Ok(Self(images));
        };
        let ranges = ranges::applicable(request, Some(pod), context, settings)?;
        let marked = authored::marked(pod.clone(), request, Some(&ranges))?;
        let mode = want::mode(&marked, context, &settings.estimates, &mut Vec::new())?;
        for want in want::all(&marked, mode, &settings.estimates) {
            let Some(text) = pod.containers.get(want.container).map(|container| container.image.as_ref()) else {
                continue;
            };
            match images.iter_mut().find(|image| image.text == text) {
                Some(image) => image.wants.push(want),
                None => {
                    let Ok(name) = ImageName::parse(text) else { continue };
                    images.push(WantedImage { text, name, wants: vec![want] });
                }
            }
        }
        Ok(Self(images))
    }

    /// The history of the namespace.
    pub fn own(&self, request: &Request<'d>, settings: &Settings<'d>) -> Vec<Lookup<'d>> {
        self.lookups(Whose::OwnNamespace, request, settings, |_| true)
    }

    /// The history of all namespaces, for the images whose own history, in `context`, was not enough.
    pub fn pooled(&self, request: &Request<'d>, settings: &Settings<'d>, context: &Context<'d>) -> Vec<Lookup<'d>> {
        let is_open =
            |image: &WantedImage<'d>| !is_settled_by_own_history(&image.name, &image.wants, context, settings);
        self.lookups(Whose::AllNamespaces, request, settings, is_open)
    }

    fn lookups(
        &self,
        whose: Whose,
        request: &Request<'d>,
        settings: &Settings<'d>,
        is_open: impl Fn(&WantedImage<'d>) -> bool,
    ) -> Vec<Lookup<'d>> {
        let mut lookups = Vec::new();
        if settings.estimates.reads(whose) {
            for image in self.0.iter().filter(|image| is_open(image)) {
                add_history(&mut lookups, &image.name, whose, request, settings);
            }
        }
        lookups
    }
}

/// Adds what is to be read of an image's history, to the lookup of the same object where there is one.
pub(crate) fn add_history<'d>(
    lookups: &mut Vec<Lookup<'d>>,
    image: &ImageName<'_>,
    whose: Whose,
    request: &Request<'d>,
    settings: &Settings<'d>,
) {
    let chosen_by = &settings.estimates;
    let (scope, namespace) = match whose {
        Whose::OwnNamespace => (Scope::Namespace, &request.namespace),
        Whose::AllNamespaces => (Scope::Pool(Shard::of(image.repository())), &chosen_by.pool.namespace),
    };
    let place = Place::of(image);
    let masks = field_masks(&place, image, &chosen_by.windows(Matching::Tag), &chosen_by.windows(Matching::Image));
    let of_scope = lookups.iter_mut().find_map(|lookup| match lookup {
        Lookup::UsageProfile { scope: known, places, field_masks, .. } if *known == scope => {
            Some((places, field_masks))
        }
        _ => None,
    });
    match of_scope {
        Some((places, field_masks)) => {
            if !places.contains(&place) {
                places.push(place);
            }
            masks.into_iter().for_each(|mask| {
                if !field_masks.contains(&mask) {
                    field_masks.push(mask);
                }
            });
        }
        None => {
            let (places, namespace) = (vec![place], namespace.clone());
            lookups.push(Lookup::UsageProfile { scope, namespace, places, field_masks: masks });
        }
    }
}
