//! The images of containers over time. Pure.
//!
//! A pod's name can come back with another image (a StatefulSet that is rolled out), so an image is claimed for spans
//! of time, and a sample belongs to the span that contains it. kube-state-metrics and the kubelet are scraped at different
//! times, and kube-state-metrics may be away for a while; a sample in no span belongs to the nearest one of its
//! container.

use std::cmp::Reverse;
use std::collections::HashMap;

use headroom_usage::sample::{Resource, Sample};

use super::answer::Row;
use super::names::State;

/// A break longer than this ends a span.
const BREAK_SECONDS: i64 = 300;

/// The images of the containers of one namespace.
#[derive(Debug, Default)]
pub struct Images {
    /// Images by pod and container.
    pods: HashMap<String, HashMap<String, Vec<Claim>>>,
}

/// An image, and from when to when it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    image: String,
    from: i64,
    to: i64,
}

impl Images {
    /// Notes what one series of the answer says.
    pub fn add(&mut self, row: &Row, state: &State) {
        let claims = self
            .pods
            .entry(row.label(&state.place.pod).to_owned())
            .or_default()
            .entry(row.label(&state.place.container).to_owned())
            .or_default();
        let image = row.label(&state.image);
        let mut last: Option<Claim> = None;
        for &(time, _) in row.points() {
            match &mut last {
                Some(claim) if time - claim.to <= BREAK_SECONDS => claim.to = time,
                _ => claims.extend(last.replace(Claim { image: image.to_owned(), from: time, to: time })),
            }
        }
        claims.extend(last);
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The samples of a container, sorted by their image; nothing if none is known.
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

    fn claims(&self, pod: &str, container: &str) -> &[Claim] {
        self.pods.get(pod).and_then(|containers| containers.get(container)).map_or(&[], Vec::as_slice)
    }
}

/// The newest of several claims at one time is right (a response that came late, from one of two kube-state-metrics).
fn nearest(claims: &[Claim], time: i64) -> Option<&str> {
    let distance = |claim: &Claim| (claim.from - time).max(time - claim.to).max(0);
    claims
        .iter()
        .min_by_key(|claim| (distance(claim), Reverse(claim.from), Reverse(claim.to)))
        .map(|claim| claim.image.as_str())
}

/// The image that a usage series names itself, if it is one that a pod's spec could name: a runtime that knows an
/// image only by its digest writes that.
pub fn of_usage<'a>(row: &'a Row, label: Option<&str>) -> Option<&'a str> {
    label.map(|label| row.label(label)).filter(|image| !image.is_empty() && !image.starts_with("sha256:"))
}

/// All samples of a series, in whole numbers.
pub fn samples(row: &Row, resource: Resource) -> Vec<Sample> {
    row.samples(resource).collect()
}

#[cfg(test)]
mod tests {
    use super::super::answer;
    use super::super::names::{ContainerLabels, Overrides};
    use super::super::selector::Matchers;
    use super::*;

    fn state() -> State {
        let place = ContainerLabels { namespace: "namespace".into(), pod: "pod".into(), container: "container".into() };
        State { info: Overrides::default().info(), place, image: "image_spec".into(), job: Matchers::default() }
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
        let samples = [0, 60, 200, 3000].map(|time| Sample { time, value: 1 });
        let split: Vec<_> = images
            .split("p", "c", samples.into_iter())
            .into_iter()
            .map(|(image, samples)| (image, samples.len()))
            .collect();
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
