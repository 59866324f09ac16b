//! The images of containers over time. Pure.
//!
//! A pod's name can come back with another image (a StatefulSet that is rolled out), so an image is claimed for spans
//! of time, and a sample belongs to the span that contains it. Images and usage are scraped at different times, and the source of
//! images may be away for a while: a sample in no span belongs to the nearest one of its container.

use std::cmp::Reverse;
use std::collections::HashMap;

use headroom_usage::sample::Sample;

/// The images of the containers of one namespace.
#[derive(Debug, Default)]
pub struct Images {
    /// By pod and container.
    pods: HashMap<String, HashMap<String, Vec<ImageSpan>>>,
}

/// An image, and from when to when it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ImageSpan {
    image: String,
    from: i64,
    to: i64,
}

impl Images {
    pub fn add(&mut self, pod: &str, container: &str, image: &str, from: i64, to: i64) {
        let containers = self.pods.entry(pod.to_owned()).or_default();
        containers.entry(container.to_owned()).or_default().push(ImageSpan { image: image.to_owned(), from, to });
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The samples of a container, by their image; nothing if none is known.
    pub fn split(&self, pod: &str, container: &str, samples: impl Iterator<Item = Sample>) -> Vec<(&str, Vec<Sample>)> {
        let claims = self.claims(pod, container);
        let mut by_image: Vec<(&str, Vec<Sample>)> = Vec::new();
        for sample in samples {
            let Some(image) = nearest(claims, sample.time) else { return Vec::new() };
            match by_image.iter_mut().find(|(known, _)| *known == image) {
                Some((_, samples)) => samples.push(sample),
                None => by_image.push((image, vec![sample])),
            }
        }
        by_image
    }

    /// The image of a container at a time.
    pub fn at(&self, pod: &str, container: &str, time: i64) -> Option<&str> {
        nearest(self.claims(pod, container), time)
    }

    fn claims(&self, pod: &str, container: &str) -> &[ImageSpan] {
        self.pods.get(pod).and_then(|containers| containers.get(container)).map_or(&[], Vec::as_slice)
    }
}

/// The newest of several claims at one time is right (a response that came late, from one of two kube-state-metrics).
fn nearest(claims: &[ImageSpan], time: i64) -> Option<&str> {
    let distance = |claim: &ImageSpan| (claim.from - time).max(time - claim.to).max(0);
    claims
        .iter()
        .min_by_key(|claim| (distance(claim), Reverse(claim.from), Reverse(claim.to)))
        .map(|claim| claim.image.as_str())
}

/// Logs that usage of these containers is left out, by namespace, pod and container in order.
pub fn warn_of_unknown<'a>(unknown: impl Iterator<Item = (&'a str, (&'a str, &'a str))>) {
    let unknown: Vec<_> = unknown.collect();
    for of_namespace in unknown.chunk_by(|(before, _), (namespace, _)| before == namespace) {
        let [(namespace, (pod, container)), ..] = *of_namespace else { continue };
        tracing::warn!(
            namespace,
            containers = of_namespace.len(),
            "the image of some containers is not known, so their usage is left out; one is `{container}` of `{pod}`"
        );
    }
}
