//! The images of containers over time, by Telegraf's inventory: the name and the part after its first colon are two
//! tags, and of a name with several colons it has only the part before the first.

use std::collections::BTreeMap;

use headroom_usage::sample::Sample;

use super::answer::{Point, Series};
use super::query::{CONTAINER, IMAGE_NAME, IMAGE_VERSION, POD};

/// The images of a namespace's containers, by pod and container, each with the last time that it was reported.
#[derive(Debug, Default)]
pub struct Images(BTreeMap<(String, String), Vec<(i64, String)>>);

impl Images {
    /// Adds the last time of an image.
    pub fn take(&mut self, series: &Series<Point>) {
        let Some(image) = image(series.tag(IMAGE_NAME), series.tag(IMAGE_VERSION)) else { return };
        let Some(last) = series.values.iter().map(|point| point.0).max() else { return };
        let of = (series.tag(POD).to_owned(), series.tag(CONTAINER).to_owned());
        let images = self.0.entry(of).or_default();
        images.push((last, image));
        images.sort();
    }

    pub fn knows(&self, pod: &str, container: &str) -> bool {
        self.0.contains_key(&(pod.to_owned(), container.to_owned()))
    }

    /// Each sample with the image that was reported at its time or next, or with the newest.
    pub fn split(&self, pod: &str, container: &str, samples: &[Sample]) -> Vec<(String, Vec<Sample>)> {
        let Some(images) = self.0.get(&(pod.to_owned(), container.to_owned())) else { return Vec::new() };
        let mut split: Vec<(String, Vec<Sample>)> = Vec::new();
        for sample in samples {
            let image = images.iter().find(|(last, _)| *last >= sample.time).or(images.last());
            let Some((_, image)) = image else { continue };
            match split.last_mut().filter(|(same, _)| same == image) {
                Some((_, samples)) => samples.push(*sample),
                None => split.push((image.clone(), vec![*sample])),
            }
        }
        split
    }
}

/// The image's name from its two tags. Of `registry.example:5000/app:1` they have only the registry, which is no image.
fn image(name: &str, version: &str) -> Option<String> {
    let is_host = !name.contains('/') && (name.contains('.') || name == "localhost");
    match version {
        "" => (!name.is_empty() && !is_host).then(|| name.to_owned()),
        version => Some(format!("{name}:{version}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_put_together_again() {
        let check = |name: &str, version: &str, expected: Option<&str>| {
            assert_eq!(image(name, version).as_deref(), expected, "{name} {version}");
        };
        check("nginx", "1.27", Some("nginx:1.27"));
        check("nginx", "", Some("nginx"));
        check("nginx@sha256", "0f1e", Some("nginx@sha256:0f1e"));
        check("registry.example/app", "1", Some("registry.example/app:1"));
        check("registry.example", "5000/app", Some("registry.example:5000/app"));
        check("registry.example", "", None);
        check("", "", None);
    }

    #[test]
    fn samples_go_to_the_image_of_their_time() {
        let series = |image: &str, version: &str, last: i64| -> Series<Point> {
            let tags = serde_json::json!({"pod_name": "p", "container_name": "c", "image": image, "version": version});
            serde_json::from_value(serde_json::json!({"tags": tags, "values": [[last, 0.0]]})).unwrap()
        };
        let mut images = Images::default();
        images.take(&series("nginx", "2", 300));
        images.take(&series("nginx", "1", 120));
        let samples = [60, 120, 180, 360].map(|time| Sample { time, value: 1 });
        let split = images.split("p", "c", &samples);
        let split: Vec<_> = split.iter().map(|(image, samples)| (image.as_str(), samples.len())).collect();
        assert_eq!(split, [("nginx:1", 2), ("nginx:2", 2)]);
        assert!(images.knows("p", "c") && !images.knows("p", "d"));
        assert!(images.split("p", "d", &samples).is_empty());
    }
}
