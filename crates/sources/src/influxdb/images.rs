//! The images of containers over time, by Telegraf's inventory: the name and the part after its first colon are two
//! tags, and of a name with several colons it has only the part before the first.

use std::collections::BTreeMap;

use super::answer::{Point, Series};
use super::query::{CONTAINER, IMAGE_NAME, IMAGE_VERSION, POD};
use crate::images::Images;

/// By pod and container: images with the last time that each was reported.
#[derive(Debug, Default)]
pub struct LastSeen(BTreeMap<(String, String), Vec<(i64, String)>>);

impl LastSeen {
    /// Adds the last time of an image.
    pub fn add(&mut self, series: &Series<Point>) {
        let Some(image) = image(series.tag(IMAGE_NAME), series.tag(IMAGE_VERSION)) else { return };
        let Some(last) = series.values.iter().map(|point| point.0).max() else { return };
        let of = (series.tag(POD).to_owned(), series.tag(CONTAINER).to_owned());
        self.0.entry(of).or_default().push((last, image));
    }

    /// Each image is claimed from the last time of the one before it.
    pub fn images(self) -> Images {
        let mut images = Images::default();
        for ((pod, container), mut found) in self.0 {
            found.sort();
            let mut from = 0;
            for (last, image) in found {
                images.add(&pod, &container, &image, from, last);
                from = last + 1;
            }
        }
        images
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
    use headroom_usage::sample::Sample;

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
        let mut found = LastSeen::default();
        found.add(&series("nginx", "2", 300));
        found.add(&series("nginx", "1", 120));
        let images = found.images();
        let samples = [60, 120, 180, 360].map(|time| Sample { time, value: 1 });
        let split = images.split("p", "c", samples.into_iter());
        let split: Vec<_> = split.iter().map(|(image, samples)| (*image, samples.len())).collect();
        assert_eq!(split, [("nginx:1", 2), ("nginx:2", 2)]);
        assert!(images.split("p", "d", samples.into_iter()).is_empty());
    }
}
