//! Which images' histories are wanted, and where to read them: the namespace's own first, and the pool only for the
//! images whose own history leaves a question open.

use std::borrow::Cow;

use super::step::Sources;
use crate::cluster::Context;
use crate::cluster::lookup::Lookup;
use crate::cluster::usage::address::{Place, Scope, Shard, field_masks};
use crate::image::ImageName;
use crate::plan::Want;
use crate::request::{Pod, Request};
use crate::settings::{Matching, Settings, Whose};

/// The images of containers that want an estimate.
#[derive(Debug, Default)]
pub struct WantedHistory<'d>(Vec<WantedImage<'d>>);

#[derive(Debug)]
struct WantedImage<'d> {
    text: &'d str,
    name: ImageName<'d>,
    wants: Vec<Want>,
}

impl<'d> WantedHistory<'d> {
    /// What a pod wants. An image whose name cannot be read has no history.
    pub fn of(pod: Option<&Pod<'d>>, wants: &[Want]) -> Self {
        let mut images: Vec<WantedImage<'d>> = Vec::new();
        let Some(pod) = pod else { return Self(images) };
        for want in wants {
            let Some(text) = image_of(pod, *want) else { continue };
            match images.iter_mut().find(|image| image.text == text) {
                Some(image) => image.wants.push(*want),
                None => {
                    let Ok(name) = ImageName::parse(text) else { continue };
                    images.push(WantedImage { text, name, wants: vec![*want] });
                }
            }
        }
        Self(images)
    }

    /// The history of the namespace.
    pub fn own(&self, request: &Request<'d>, settings: &Settings<'d>) -> Vec<Lookup<'d>> {
        self.lookups(Whose::OwnNamespace, request, settings, |_| true)
    }

    /// The history of all namespaces, for the images whose own history, in `context`, was not enough.
    pub fn pooled(&self, request: &Request<'d>, settings: &Settings<'d>, context: &Context<'d>) -> Vec<Lookup<'d>> {
        let is_open = |image: &WantedImage<'d>| {
            let sources = Sources::find(&image.name, context, &settings.estimates, &mut Vec::new());
            let is_enough = |want: &Want| sources.has_enough_at_first_sight(want.resource, &settings.estimates);
            !image.wants.iter().all(is_enough)
        };
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
                add(&mut lookups, &image.name, whose, request, settings);
            }
        }
        lookups
    }
}

fn image_of<'d>(pod: &Pod<'d>, want: Want) -> Option<&'d str> {
    match pod.containers.get(want.container)?.image {
        Cow::Borrowed(image) => Some(image),
        // No image name needs escapes.
        Cow::Owned(_) => None,
    }
}

/// Adds what is to be read of an image's history, to the lookup of the same object where there is one.
pub fn add<'d>(
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
