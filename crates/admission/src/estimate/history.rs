//! Finds the images whose histories are needed, and the objects to read: the quarter of each image's root, and the page
//! that it points to if it has no room for the image. [`crate::cluster::usage::profile_layout`] explains these words.

use std::borrow::Cow;
use std::rc::Rc;

use crate::cluster::Context;
use crate::cluster::lookup::Lookup;
use crate::cluster::usage::profile_layout::{ProfileKey, ProfileName, ProfileParts, TagKey};
use crate::cluster::usage::workload;
use crate::image::ImageName;
use crate::request::{Pod, Request};
use crate::settings::{EstimateSettings, HistoryMatch, HistoryOwner, Settings};

/// The images of containers that need an estimate.
#[derive(Debug)]
pub struct HistoryLookups<'d> {
    request: &'d Request<'d>,
    settings: &'d EstimateSettings<'d>,
    images: Vec<ImageLookup<'d>>,
}

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
    pub fn of(
        request: &'d Request<'d>,
        settings: &'d Settings<'d>,
        pod: Option<&Pod<'d>>,
        containers: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut images: Vec<ImageLookup<'d>> = Vec::new();
        let workload = request.workload_name();
        let all = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
        for container in containers.into_iter().filter_map(|container| all.get(container)) {
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
        Self { request, settings: &settings.estimates, images }
    }

    /// The objects where the histories begin.
    pub fn quarters(&self) -> Vec<Lookup<'d>> {
        self.lookups(|place| Some(ProfileName::of(place.root, &self.request.namespace)))
    }

    /// The objects of the layout before quarters, for images whose quarter the collector has not written yet.
    pub fn older_roots(&self, context: &Context<'d>) -> Vec<Lookup<'d>> {
        self.elsewhere(context, false)
    }

    /// The pages to read, according to the objects in `context`.
    pub fn pages(&self, context: &Context<'d>) -> Vec<Lookup<'d>> {
        self.elsewhere(context, true)
    }

    /// The objects that those in `context` point to: pages, or with `is_page` false the older roots.
    fn elsewhere(&self, context: &Context<'d>, is_page: bool) -> Vec<Lookup<'d>> {
        self.lookups(|place| {
            let found = context.usage.iter().find(|found| found.place == *place)?;
            found.elsewhere.clone().filter(|name| name.is_page() == is_page)
        })
    }

    fn lookups(&self, name: impl Fn(&Rc<ProfileKey>) -> Option<ProfileName>) -> Vec<Lookup<'d>> {
        let mut lookups = Vec::new();
        let Some(namespace) = self.settings.namespace.as_ref().filter(|_| !self.settings.history.is_empty()) else {
            return lookups;
        };
        for image in &self.images {
            if let Some(name) = name(&image.place) {
                self.add(&mut lookups, image, name, namespace.clone());
            }
        }
        lookups
    }

    /// Adds the parts of an image's history to the lookups; the lookup of the same object is extended if there is one.
    fn add(&self, lookups: &mut Vec<Lookup<'d>>, image: &ImageLookup<'d>, name: ProfileName, namespace: Cow<'d, str>) {
        let of_object =
            |lookup: &Lookup<'_>| matches!(lookup, Lookup::UsageProfile { name: known, .. } if *known == name);
        let of: &'d str = &self.request.namespace;
        let at = lookups.iter().position(of_object).unwrap_or_else(|| {
            let parts = ProfileParts {
                own: self.settings.reads(HistoryOwner::OwnNamespace),
                pool: self.settings.reads(HistoryOwner::AllNamespaces),
                ..ProfileParts::default()
            };
            lookups.push(Lookup::UsageProfile { name, namespace, places: Vec::new(), of, parts });
            lookups.len() - 1
        });
        let Some(Lookup::UsageProfile { places, parts, .. }) = lookups.get_mut(at) else { return };
        if !places.contains(&image.place) {
            places.push(Rc::clone(&image.place));
        }
        let is_by = |matching| self.settings.history.iter().any(|step| step.matching == matching);
        let tags = TagKey::of(&image.name).filter(|_| is_by(HistoryMatch::Tag)).map(TagKey::into_string);
        let workloads = image.workloads.iter().filter(|_| is_by(HistoryMatch::Workload)).cloned();
        for key in tags.chain(workloads) {
            if !parts.keys.contains(&key) {
                parts.keys.push(key);
            }
        }
    }
}
