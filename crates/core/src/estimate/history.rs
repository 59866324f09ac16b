//! Finds the images whose histories are needed, and the objects to read: first each image's root, then the page that
//! the root points to if the history is too large for one object. So an image never costs more than two reads.

use std::borrow::Cow;
use std::rc::Rc;

use crate::cluster::Context;
use crate::cluster::lookup::Lookup;
use crate::cluster::usage::profile_layout::{HEADER_MASK, Parts, ProfileKey, ProfileName, TagKey, field_masks};
use crate::cluster::usage::workload;
use crate::image::ImageName;
use crate::request::{Pod, Request};
use crate::settings::{EstimateSettings, HistoryMatch, HistoryOwner, Settings};

/// The images of containers that need an estimate.
#[derive(Debug, Default)]
pub struct HistoryLookups<'d>(Vec<ImageLookup<'d>>);

#[derive(Debug)]
struct ImageLookup<'d> {
    text: &'d str,
    name: ImageName<'d>,
    place: Rc<ProfileKey>,
    /// The containers that have it.
    workloads: Vec<String>,
}

impl<'d> HistoryLookups<'d> {
    /// The images of these containers of a pod. An image whose name cannot be parsed has no history.
    pub fn of(request: &Request<'d>, pod: Option<&Pod<'d>>, containers: impl IntoIterator<Item = usize>) -> Self {
        let mut images: Vec<ImageLookup<'d>> = Vec::new();
        let Some(pod) = pod else { return Self(images) };
        let workload = request.workload_name();
        let containers = containers.into_iter().filter_map(|container| pod.containers.get(container));
        for container in containers {
            // A valid image name needs no escapes.
            let Cow::Borrowed(text) = container.image else { continue };
            let key = workload::key(workload, &container.name);
            match images.iter_mut().find(|image| image.text == text) {
                Some(image) if image.workloads.contains(&key) => {}
                Some(image) => image.workloads.push(key),
                None => {
                    let Ok(name) = ImageName::parse(text) else { continue };
                    let place = Rc::new(ProfileKey::of(name.repository()));
                    images.push(ImageLookup { text, name, place, workloads: vec![key] });
                }
            }
        }
        Self(images)
    }

    /// The roots to read.
    pub fn roots(&self, request: &'d Request<'d>, settings: &'d Settings<'d>) -> Vec<Lookup<'d>> {
        self.lookups(request, settings, |place| Some(ProfileName::of_root(place.root())))
    }

    /// The pages to read, according to the roots in `context`.
    pub fn pages(&self, request: &'d Request<'d>, settings: &Settings<'d>, context: &Context<'d>) -> Vec<Lookup<'d>> {
        self.lookups(request, settings, |place| {
            context.usage.iter().find(|found| found.place == *place).and_then(|found| found.page.clone())
        })
    }

    fn lookups(
        &self,
        request: &'d Request<'d>,
        settings: &Settings<'d>,
        name: impl Fn(&Rc<ProfileKey>) -> Option<ProfileName>,
    ) -> Vec<Lookup<'d>> {
        let mut lookups = Vec::new();
        let estimates = &settings.estimates;
        let Some(namespace) = estimates.namespace.as_ref().filter(|_| !estimates.history.is_empty()) else {
            return lookups;
        };
        for image in &self.0 {
            if let Some(name) = name(&image.place) {
                add(&mut lookups, image, name, namespace.clone(), request, estimates);
            }
        }
        lookups
    }
}

/// Adds the parts of an image's history to the lookups; the lookup of the same object is extended if there is one.
fn add<'d>(
    lookups: &mut Vec<Lookup<'d>>,
    image: &ImageLookup<'d>,
    name: ProfileName,
    namespace: Cow<'d, str>,
    request: &'d Request<'d>,
    chosen_by: &EstimateSettings<'d>,
) {
    let is_by = |matching| chosen_by.history.iter().any(|step| step.matching == matching);
    let tags: Vec<TagKey> = if is_by(HistoryMatch::Tag) { TagKey::of(&image.name).collect() } else { Vec::new() };
    let workloads: &[String] = if is_by(HistoryMatch::Workload) { &image.workloads } else { &[] };
    let own = chosen_by.reads(HistoryOwner::OwnNamespace).then_some(request.namespace.as_ref());
    let parts = Parts { own, pool: chosen_by.reads(HistoryOwner::AllNamespaces), tags: &tags, workloads };
    let masks = field_masks(&image.place, parts);
    let of_object = lookups.iter_mut().find_map(|lookup| match lookup {
        Lookup::UsageProfile { name: known, places, field_masks, .. } if *known == name => Some((places, field_masks)),
        _ => None,
    });
    match of_object {
        Some((places, field_masks)) => {
            if !places.contains(&image.place) {
                places.push(Rc::clone(&image.place));
            }
            masks.into_iter().for_each(|mask| {
                if !field_masks.contains(&mask) {
                    field_masks.push(mask);
                }
            });
        }
        None => {
            let mut field_masks = masks;
            field_masks.push(HEADER_MASK.to_owned());
            lookups.push(Lookup::UsageProfile {
                name,
                namespace,
                places: vec![Rc::clone(&image.place)],
                of: &request.namespace,
                field_masks,
            });
        }
    }
}
