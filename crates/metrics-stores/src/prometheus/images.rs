//! The images of containers over time, in kube-state-metrics' series and in the usage series. Pure.
//!
//! A pod's name can come back with another image (a StatefulSet that is rolled out), so an image is claimed for spans
//! of time, and a sample belongs to the span that contains it. Images and usage are scraped at different times, and the source of
//! images may be away for a while: a sample in no span belongs to the nearest one of its container.

use std::cmp::Reverse;
use std::collections::HashMap;

use headroom_usage::sample::{SampledContainer, Series};

use super::answer::AnswerSeries;
use super::names::State;

/// A break longer than this ends a span.
const BREAK_SECONDS: i64 = 300;

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
    /// Adds the spans of one series of kube-state-metrics.
    pub fn add(&mut self, row: &AnswerSeries, state: &State) {
        let (pod, container) = (row.label(&state.place.pod), row.label(&state.place.container));
        let spans = row.points().chunk_by(|(before, _), (after, _)| after - before <= BREAK_SECONDS);
        for span in spans {
            if let (Some((from, _)), Some((to, _))) = (span.first(), span.last()) {
                let span = ImageSpan { image: row.label(&state.image).to_owned(), from: *from, to: *to };
                let containers = self.pods.entry(pod.to_owned()).or_default();
                containers.entry(container.to_owned()).or_default().push(span);
            }
        }
    }

    /// The series by the images of its samples; nothing if none is known.
    pub fn split(&self, series: Series) -> Vec<Series> {
        let claims = self.claims(&series.container.pod, &series.container.name);
        let mut by_image: Vec<Series> = Vec::new();
        for sample in series.samples {
            let Some(image) = nearest(claims, sample.time) else { return Vec::new() };
            match by_image.iter_mut().find(|known| known.container.image == image) {
                Some(known) => known.samples.push(sample),
                None => {
                    let container = SampledContainer { image: image.to_owned(), ..series.container.clone() };
                    by_image.push(Series { container, resource: series.resource, samples: vec![sample] });
                }
            }
        }
        by_image
    }

    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

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

/// The image in a label of a usage series, if a pod's spec could name it so: a runtime that knows an image only by its digest
/// writes that.
pub fn of_usage<'a>(row: &'a AnswerSeries, label: Option<&str>) -> Option<&'a str> {
    label.map(|label| row.label(label)).filter(|image| !image.is_empty() && !image.starts_with("sha256:"))
}

#[cfg(test)]
mod tests {
    use super::super::answer;
    use super::super::names::{ContainerLabels, Overrides, PLACE};
    use headroom_usage::sample::{Resource, Sample};

    use super::*;

    fn state() -> State {
        let mut states = Overrides::default().states().into_iter();
        states.find(|state| state.place == ContainerLabels::of(PLACE)).unwrap()
    }

    fn images(rows: &[(&str, &[i64])]) -> Images {
        let mut images = Images::default();
        for (image, times) in rows {
            let values: Vec<_> = times.iter().map(|time| format!(r#"[{time},"1"]"#)).collect();
            let text = format!(
                r#"{{"metric":{{"pod":"p","container":"c","image_spec":"{image}"}},"values":[{}]}}"#,
                values.join(",")
            );
            images.add(&answer::row(text.as_bytes()).unwrap(), &state());
        }
        images
    }

    fn check(images: &Images, time: i64, expected: Option<&str>) {
        assert_eq!(images.at("p", "c", time), expected, "at {time}");
    }

    #[test]
    fn a_sample_has_the_image_of_its_time() {
        let images = images(&[("a:1", &[0, 60, 120, 3000, 3060]), ("a:2", &[180, 240, 300, 360])]);
        check(&images, 60, Some("a:1"));
        check(&images, 150, Some("a:2")); // as near to both: the newer
        check(&images, 240, Some("a:2"));
        check(&images, 500, Some("a:2")); // unknown: the nearest
        check(&images, 2900, Some("a:1"));
        check(&images, 9999, Some("a:1"));
        assert_eq!(images.at("p", "other", 60), None);
        let samples = [0, 60, 200, 3000].map(|time| Sample { time, value: 1, seconds: 60 });
        let container = SampledContainer::of(["n", "p", "c", ""]);
        let split = images.split(Series { container, resource: Resource::Cpu, samples: samples.into() });
        let split: Vec<_> = split.iter().map(|of| (of.container.image.as_str(), of.samples.len())).collect();
        assert_eq!(split, [("a:1", 3), ("a:2", 1)]);
    }

    #[test]
    fn where_two_are_claimed_the_newer_is_right() {
        let images = images(&[("a:1", &[0, 60, 120, 180]), ("a:2", &[120, 180, 240])]);
        check(&images, 60, Some("a:1"));
        check(&images, 120, Some("a:2"));
        check(&images, 180, Some("a:2"));
    }
}
