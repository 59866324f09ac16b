//! Our annotation, with each value we set and its source: `{"web":{"limits.cpu":"500m: default of LimitRange
//! limits"}}`.
//!
//! It is for people, and for ourselves: when we evaluate the same object again, it distinguishes our values from the
//! author's.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::amount::ResourceName;
use crate::find;
use crate::json::{Document, Malformed, json_string, write_string, write_string_with};
use crate::request::origin::OF_EARLIER;
use crate::request::pod::ContainerIndex;
use crate::request::{Container, Pod, Requirement, Value, ValueOrigin};
use crate::truncate::{count_of, shortened};

pub const NAME: &str = "headroom.dev/resources";

/// The same for estimates that are only reported, because the author set a value.
pub const REPORTED: &str = "headroom.dev/estimated";

/// Our annotation stays small, because it is stored with every pod.
const MAX_LENGTH: usize = 1024;

/// Precedes a value's reason.
const REASON: &str = ": ";

/// Marks the place in the annotation where values were left out.
const CUT: &str = "\"…\":";

/// True if the pod has an annotation of ours that left values or reasons out.
pub fn is_cut(pod: &Pod<'_>) -> Result<bool, Malformed> {
    Ok(text_of(pod)?.is_some_and(|text| find::contains(&text, CUT) || !find::contains(&text, REASON)))
}

/// The text that we wrote; none if there is only one that we would never write. A forged one could claim thousands of
/// values, each of which we would then repair.
fn text_of<'d>(pod: &Pod<'d>) -> Result<Option<Cow<'d, str>>, Malformed> {
    Ok(pod.annotation(NAME)?.filter(|text| text.len() <= MAX_LENGTH))
}

/// A value in the annotation, as claimed by it.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimedValue<'a> {
    pub container: &'a str,
    pub requirement: Requirement,
    pub resource: &'a str,
    pub value: &'a str,
    pub reason: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// As a JSON string, for both the object and the audit log.
    pub json: String,
    /// True if every value is in it with its whole reason.
    pub is_full: bool,
}

/// The annotation for a pod; none if no value is ours.
pub fn write(pod: &Pod<'_>) -> Option<Explanation> {
    let (text, is_full) = explain(pod, Values::Ours)?;
    Some(Explanation { json: json_string(&text), is_full })
}

/// The text of the annotation with the reported estimates; none if there are none.
pub fn write_reported(pod: &Pod<'_>) -> Option<String> {
    explain(pod, Values::Reported).map(|(text, _)| text)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Ours,
    Reported,
}

impl Values {
    fn of<'v, 'd>(
        self,
        container: &'v Container<'d>,
        requirement: Requirement,
    ) -> impl Iterator<Item = (&'v ResourceName<'d>, &'v Value<'d>)> {
        let list = match (self, requirement) {
            (Self::Ours, _) => Some(container.resources.of(requirement)),
            (Self::Reported, Requirement::Request) => Some(&container.reported),
            (Self::Reported, Requirement::Limit) => None,
        };
        list.into_iter().flat_map(|list| list.iter()).filter(move |(_, value)| self == Self::Reported || is_ours(value))
    }
}

/// The part of a value's source that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reasons {
    Full,
    /// Without the histories that were skipped.
    Brief,
    None,
}

/// The text, and whether it is complete.
fn explain(pod: &Pod<'_>, values: Values) -> Option<(String, bool)> {
    // If it is too long: first with shorter reasons, then without, then without some values, with a note of how many.
    for reasons in [Reasons::Full, Reasons::Brief] {
        match attempt(pod, values, reasons) {
            (_, 0, 0) => return None,
            (text, _, 0) => return Some((text, reasons == Reasons::Full)),
            _ => {}
        }
    }
    Some((attempt(pod, values, Reasons::None).0, false))
}

/// The text, how many values are in it, and how many had to be left out.
fn attempt(pod: &Pod<'_>, values: Values, reasons: Reasons) -> (String, usize, u64) {
    /// Room for the note of what was left out.
    const NOTE: usize = 40;
    let mut text = String::with_capacity(MAX_LENGTH / 2);
    text.push('{');
    let (mut written, mut left_out) = (0, 0_u64);
    for container in &pod.containers {
        let mut is_open = false;
        for requirement in [Requirement::Request, Requirement::Limit] {
            for (resource, value) in values.of(container, requirement) {
                let end = text.len();
                if left_out == 0 {
                    push_value(&mut text, (!is_open).then_some(&container.name), requirement, resource, value, reasons);
                }
                if left_out > 0 || text.len() + NOTE > MAX_LENGTH {
                    text.truncate(end);
                    left_out += 1;
                    // A shorter attempt follows, which has to go through all values itself.
                    if reasons != Reasons::None {
                        return (text, written, left_out);
                    }
                } else {
                    is_open = true;
                    written += 1;
                }
            }
        }
        text.push_str(if is_open { "}" } else { "" });
    }
    if left_out > 0 {
        let comma = if written > 0 { "," } else { "" };
        text.push_str(&format!("{comma}{CUT}\"{} set\"", count_of(left_out, "more value")));
    }
    text.push('}');
    (text, written, left_out)
}

fn is_ours(value: &Value<'_>) -> bool {
    value.origin.is_new() || matches!(value.origin, ValueOrigin::Earlier(_))
}

/// `"limits.cpu":"500m: default of LimitRange limits"`, after the container's name if it is the container's first
/// value.
fn push_value(
    text: &mut String,
    container: Option<&Cow<'_, str>>,
    requirement: Requirement,
    resource: &str,
    value: &Value<'_>,
    reasons: Reasons,
) {
    if text.len() > 1 {
        text.push(',');
    }
    if let Some(container) = container {
        write_string(text, &shortened(container));
        text.push_str(":{");
    }
    write_string_with(text, |text| text.extend([requirement.field(), ".", resource]));
    text.push(':');
    write_string_with(text, |text| {
        // Writing into a string does not fail.
        let _ = match reasons {
            Reasons::Full => write!(text, "{}{REASON}{}", value.quantity, value.origin),
            Reasons::Brief => write!(text, "{}{REASON}{:#}", value.quantity, value.origin),
            Reasons::None => write!(text, "{}", value.quantity),
        };
    });
}

/// Marks the values that we set when we evaluated this pod before: those that still equal the annotation.
pub fn mark(pod: &mut Pod<'_>) -> Result<(), Malformed> {
    let Some(text) = text_of(pod)? else { return Ok(()) };
    let index = ContainerIndex::of(&pod.containers);
    read(&text, |claim| {
        let place = [false, true].into_iter().find_map(|is_init| index.find(&pod.containers, is_init, claim.container));
        let Some(container) = place.and_then(|place| pod.containers.get_mut(place)) else { return };
        if let Some(value) = container.resources.of_mut(claim.requirement).get_mut(claim.resource)
            && value.quantity.to_string() == claim.value
        {
            value.origin = ValueOrigin::Earlier(Cow::Owned(claim.reason.to_owned()));
        }
    });
    Ok(())
}

/// Reads an annotation's claims; none from a text in another format, or from one that we would never write.
pub fn read(text: &str, mut each: impl FnMut(ClaimedValue<'_>)) {
    let Some(Ok(document)) = (text.len() <= MAX_LENGTH).then(|| Document::read(text)) else { return };
    let Ok(containers) = document.root().fields() else { return };
    for (container, values) in containers {
        let (Ok(container), Ok(values)) = (container.str(), values.fields()) else { continue };
        for (key, claim) in values {
            let (Ok(key), Ok(claim)) = (key.str(), claim.str()) else { continue };
            let (requirement, resource) = match key.split_once('.') {
                Some(("requests", resource)) => (Requirement::Request, resource),
                Some(("limits", resource)) => (Requirement::Limit, resource),
                _ => continue,
            };
            let (value, reason) = find::split_once(&claim, REASON).unwrap_or((&claim, OF_EARLIER));
            each(ClaimedValue { container: &container, requirement, resource, value, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_annotation_longer_than_ours_is_not_ours() {
        let is_marked = |length: usize| {
            let (start, end) = (r#"{"web":{"limits.cpu":"1: "#, r#""}}"#);
            let text = format!("{start}{}{end}", "x".repeat(length - start.len() - end.len()));
            let pod = json!({
                "metadata": {"annotations": {NAME: text}},
                "spec": {"containers": [{"name": "web", "resources": {"limits": {"cpu": "1"}}}]},
            });
            let pod = pod.to_string();
            let document = Document::read(&pod).unwrap();
            let mut pod = Pod::read(document.root(), None).unwrap();
            mark(&mut pod).unwrap();
            pod.containers.iter().any(|container| container.resources.limits.iter().any(|(_, limit)| is_ours(limit)))
        };
        assert!(is_marked(MAX_LENGTH));
        assert!(!is_marked(MAX_LENGTH + 1));
    }
}
