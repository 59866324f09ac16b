//! The annotation that says, for each value we set, what it is and where it came from:
//! `{"web":{"limits.cpu":"500m: default of LimitRange limits"}}`.
//!
//! It is for people, and for ourselves: when we judge the same object again it tells our values from the author's.

use crate::json::{Document, write_string};
use crate::request::template::{Bound, Origin, PodTemplate, Value};

pub const NAME: &str = "headroom.dev/resources";

/// Annotations are stored with every pod, so ours stays small.
const LONGEST: usize = 1024;

/// One value that the annotation claims.
#[derive(Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    pub container: &'a str,
    pub bound: Bound,
    pub resource: &'a str,
    pub value: &'a str,
    pub reason: &'a str,
}

/// The text of the annotation for a pod; none if no value is ours.
pub fn write(pod: &PodTemplate<'_>) -> Option<String> {
    let mut entries = Vec::new();
    for container in &pod.containers {
        for bound in [Bound::Request, Bound::Limit] {
            for (resource, value) in container.resources.of(bound).iter() {
                if is_ours(value) {
                    let key = format!("{}.{resource}", bound.field());
                    entries.push((container.name.as_ref(), key, value.quantity.to_string(), value.origin.to_string()));
                }
            }
        }
    }
    if entries.is_empty() {
        return None;
    }
    let full = text(&entries, true, 0);
    if full.len() <= LONGEST {
        return Some(full);
    }
    // Too long: first the reasons go, then the last values, with a note of how many.
    let count = entries.len();
    while !entries.is_empty() {
        let short = text(&entries, false, count - entries.len());
        if short.len() <= LONGEST {
            return Some(short);
        }
        entries.pop();
    }
    Some(text(&entries, false, count))
}

fn is_ours(value: &Value<'_>) -> bool {
    value.origin.is_new() || matches!(value.origin, Origin::Earlier(_))
}

/// `entries` are (container, key, value, reason), those of one container together.
fn text(entries: &[(&str, String, String, String)], with_reasons: bool, left_out: usize) -> String {
    let mut text = String::from("{");
    let mut current = None;
    for (container, key, value, reason) in entries {
        if current == Some(container) {
            text.push(',');
        } else {
            text.push_str(if current.is_some() { "}," } else { "" });
            write_string(&mut text, container);
            text.push_str(":{");
            current = Some(container);
        }
        write_string(&mut text, key);
        text.push(':');
        if with_reasons {
            write_string(&mut text, &format!("{value}: {reason}"));
        } else {
            write_string(&mut text, value);
        }
    }
    text.push_str(if current.is_some() { "}" } else { "" });
    if left_out > 0 {
        text.push_str(if current.is_some() { "," } else { "" });
        text.push_str(&format!("\"…\":\"{left_out} more values were set\""));
    }
    text.push('}');
    text
}

/// Reads an annotation's claims. One that is not ours to read claims nothing.
pub fn read(text: &str, mut each: impl FnMut(Claim<'_>)) {
    let Ok(document) = Document::read(text) else { return };
    let Ok(containers) = document.root().fields() else { return };
    for (container, values) in containers {
        let (Ok(container), Ok(values)) = (container.str(), values.fields()) else { continue };
        for (key, claim) in values {
            let (Ok(key), Ok(claim)) = (key.str(), claim.str()) else { continue };
            let (bound, resource) = match key.split_once('.') {
                Some(("requests", resource)) => (Bound::Request, resource),
                Some(("limits", resource)) => (Bound::Limit, resource),
                _ => continue,
            };
            let (value, reason) = claim.split_once(": ").unwrap_or((&claim, "set earlier"));
            each(Claim { container: &container, bound, resource, value, reason });
        }
    }
}
