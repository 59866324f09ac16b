//! The images in kube-state-metrics' series, and in the usage series. Pure.

use super::answer::AnswerSeries;
use super::names::State;
use crate::images::Images;

/// A break longer than this ends a span.
const BREAK_SECONDS: i64 = 300;

/// Adds the spans of one series of kube-state-metrics.
pub fn add(images: &mut Images, row: &AnswerSeries, state: &State) {
    let (pod, container) = (row.label(&state.place.pod), row.label(&state.place.container));
    let spans = row.points().chunk_by(|(before, _), (after, _)| after - before <= BREAK_SECONDS);
    for span in spans {
        if let (Some((from, _)), Some((to, _))) = (span.first(), span.last()) {
            images.add(pod, container, row.label(&state.image), *from, *to);
        }
    }
}

/// The image in a label of a usage series, if a pod's spec could name it so: a runtime that knows an image only by its digest
/// writes that.
pub fn of_usage<'a>(row: &'a AnswerSeries, label: Option<&str>) -> Option<&'a str> {
    label.map(|label| row.label(label)).filter(|image| !image.is_empty() && !image.starts_with("sha256:"))
}

#[cfg(test)]
mod tests {
    use super::super::answer;
    use super::super::names::{ContainerLabels, Overrides};
    use super::super::selector::Matchers;
    use headroom_usage::sample::Sample;

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
            add(&mut images, &answer::row(text.as_bytes()).unwrap(), &state());
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
