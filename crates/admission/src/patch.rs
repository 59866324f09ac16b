//! Writes the decision into the object, by splices into its own text, so that the rest stays as it is.

use std::fmt::Write as _;
use std::ops::Range;

use crate::amount::{ByResource, Quantity, Requirement, ResourceName};
use crate::annotations::headroom_annotation::{self, Explanation};
use crate::annotations::limit_ranger::{self, LIMIT_RANGER};
use crate::json::{Malformed, Node, json_string, write_string};
use crate::request::{Container, Pod, Value};
use crate::sort;

/// Writes `begin`, and the object with the pod's new values and, if `annotates`, their explanation, to the end of `out`.
/// Without new values, writes nothing and returns false.
pub fn write(
    out: &mut String,
    begin: &str,
    object: Node<'_>,
    pod: &Pod<'_>,
    explanation: Option<&Explanation>,
    annotates: bool,
) -> Result<bool, Malformed> {
    let mut edits = Edits::default();
    for container in &pod.containers {
        write_container(&mut edits, container)?;
    }
    let has_new_values = !edits.splices.is_empty();
    let mut explanation = explanation.filter(|_| has_new_values);
    // Values that an earlier explanation left out now look like the author's. So that explanation is kept unless values
    // change.
    if explanation.is_some_and(|explanation| !explanation.is_full)
        && headroom_annotation::is_cut(pod)?
        && !edits.change(object)
    {
        explanation = None;
    }
    if annotates {
        write_annotations(&mut edits, pod, explanation)?;
    }
    let is_changed = edits.change(object);
    if is_changed {
        out.push_str(begin);
        edits.apply_to(object, out);
    }
    Ok(is_changed)
}

fn write_container(edits: &mut Edits, container: &Container<'_>) -> Result<(), Malformed> {
    let is_new = |requirement| container.resources.of(requirement).iter().any(|(_, value)| value.origin.is_new());
    if !is_new(Requirement::Limit) && !is_new(Requirement::Request) {
        return Ok(());
    }
    let resources = container.node.get("resources")?;
    let mut whole_lists = String::new();
    for requirement in [Requirement::Limit, Requirement::Request].into_iter().filter(|requirement| is_new(*requirement))
    {
        let new = container.resources.of(requirement).iter().filter(|(_, value)| value.origin.is_new());
        match (resources, resources.map(|resources| resources.get(requirement.field())).transpose()?.flatten()) {
            (_, Some(list)) => {
                // In one pass over the list, because it and the new values may be many.
                let present = ByResource::read_with(list, Ok)?;
                let end = list.span().end - 1;
                for (name, value, old) in container.resources.of(requirement).paired_with(&present) {
                    if value.origin.is_new() {
                        let json = match old {
                            Some(old) => edits.replace(*old),
                            None => edits.append(end, present.is_empty(), name),
                        };
                        push_amount(json, &value.quantity);
                    }
                }
            }
            (Some(resources), None) => push_amounts(edits.set(resources, requirement.field())?, new),
            (None, None) => push_amounts(field(&mut whole_lists, requirement.field()), new),
        }
    }
    if !whole_lists.is_empty() {
        edits.set(container.node, "resources")?.extend(["{", whole_lists.as_str(), "}"]);
    }
    Ok(())
}

fn push_amounts<'v, 'd: 'v>(json: &mut String, values: impl Iterator<Item = (&'v ResourceName<'d>, &'v Value<'d>)>) {
    json.push('{');
    for (name, value) in values {
        push_amount(field(json, name), &value.quantity);
    }
    json.push('}');
}

fn write_annotations(edits: &mut Edits, pod: &Pod<'_>, explanation: Option<&Explanation>) -> Result<(), Malformed> {
    let reported = match headroom_annotation::write_reported(pod) {
        // Values that only look like the author's get no estimates for comparison.
        Some(reported) if !headroom_annotation::is_cut(pod)? => Some(reported),
        _ => None,
    };
    let has_reported =
        reported.is_some() && pod.annotation(headroom_annotation::REPORTED)?.as_deref() == reported.as_deref();
    let limit_ranger = limit_ranger::text(pod).map(|text| json_string(&text));
    let reported = reported.filter(|_| !has_reported).map(|text| json_string(&text));
    let annotations = [
        (LIMIT_RANGER, limit_ranger.as_deref()),
        (headroom_annotation::NAME, explanation.map(|explanation| explanation.json.as_str())),
        (headroom_annotation::REPORTED, reported.as_deref()),
    ];
    if annotations.iter().all(|(_, json)| json.is_none()) {
        return Ok(());
    }
    let annotations = annotations.into_iter().filter_map(|(name, json)| Some((name, json?)));
    if let Some(object) = pod.annotations {
        for (name, value) in annotations {
            edits.set(object, name)?.push_str(value);
        }
        return Ok(());
    }
    let (json, end) = match pod.node.get("metadata")? {
        Some(metadata) => (edits.set(metadata, "annotations")?, "}"),
        None => {
            let json = edits.set(pod.node, "metadata")?;
            json.push_str("{\"annotations\":");
            (json, "}}")
        }
    };
    // Growing a text costs more than writing it.
    json.reserve(annotations.clone().map(|(_, value)| value.len() + 40).sum());
    json.push('{');
    for (name, value) in annotations {
        field(json, name).push_str(value);
    }
    json.push_str(end);
    Ok(())
}

fn push_amount(json: &mut String, amount: &Quantity) {
    json.push('"');
    // Writing into a string does not fail.
    let _ = write!(json, "{amount}");
    json.push('"');
}

/// Adds a field to the inside of an object's text, and returns the text, to which its value must be appended.
fn field<'t>(fields: &'t mut String, name: &str) -> &'t mut String {
    if !matches!(fields.as_bytes().last(), None | Some(b'{' | b',')) {
        fields.push(',');
    }
    write_string(fields, name);
    fields.push(':');
    fields
}

/// Replacements in a document's text.
#[derive(Debug, Default)]
struct Edits {
    splices: Vec<(Range<usize>, String)>,
}

impl Edits {
    /// Sets a field of an object, and returns the text to which its value must be appended. An existing field, also a
    /// `null` one, is replaced; a new one is added at the end.
    fn set(&mut self, object: Node<'_>, name: &str) -> Result<&mut String, Malformed> {
        let mut is_empty = true;
        let mut old = None;
        for (key, value) in object.fields()? {
            is_empty = false;
            if key.is(name) {
                old = Some(value);
            }
        }
        Ok(match old {
            Some(old) => self.replace(old),
            None => self.append(object.span().end - 1, is_empty, name),
        })
    }

    fn replace(&mut self, old: Node<'_>) -> &mut String {
        &mut self.splices.push_mut((old.span(), String::new())).1
    }

    /// Adds a field to an object that ends at `end`.
    fn append(&mut self, end: usize, is_empty: bool, name: &str) -> &mut String {
        let follows_another = self.splices.last().is_some_and(|(place, _)| *place == (end..end));
        let mut text = String::with_capacity(64);
        text.push_str(if is_empty && !follows_another { "" } else { "," });
        field(&mut text, name);
        &mut self.splices.push_mut((end..end, text)).1
    }

    /// True if any replacement differs from the text that it replaces.
    fn change(&self, object: Node<'_>) -> bool {
        let start = object.span().start;
        self.splices.iter().any(|(place, new)| object.text().get(place.start - start..place.end - start) != Some(new))
    }

    fn apply_to(mut self, object: Node<'_>, out: &mut String) {
        // Fields added to one object stay in order.
        sort::by_number(&mut self.splices, |(place, _)| place.start);
        let text = object.text();
        let start = object.span().start;
        let more: usize = self.splices.iter().map(|(_, new)| new.len()).sum();
        out.reserve(text.len() + more);
        let mut copied_to = 0;
        for (place, new) in &self.splices {
            out.push_str(text.get(copied_to..place.start - start).unwrap_or_default());
            out.push_str(new);
            copied_to = place.end - start;
        }
        out.push_str(text.get(copied_to..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::{Map, Value as Json, json};

    use super::*;
    use crate::json::Document;
    use crate::request::{RangeName, ValueOrigin};

    fn default<'d>() -> Value<'d> {
        let quantity = Quantity::from_units(7);
        Value { quantity, origin: ValueOrigin::Default(RangeName::Rule("rule".into())) }
    }

    #[track_caller]
    fn check(limits: &str, expected: &str) {
        let text = format!(r#"{{"spec":{{"containers":[{{"resources":{{"limits":{limits}}}}}]}}}}"#);
        let document = Document::read(&text).unwrap();
        let mut pod = Pod::read(document.root(), None).unwrap();
        for name in ["a", "c", "e"] {
            pod.containers.first_mut().unwrap().resources.limits.set(name.into(), default());
        }
        let mut out = String::new();
        assert!(write(&mut out, "", document.root(), &pod, None, true).unwrap());
        let changed = Document::read(&out).unwrap();
        let container = changed.root().at(&["spec", "containers"]).unwrap().unwrap().items().unwrap().next().unwrap();
        assert_eq!(container.at(&["resources", "limits"]).unwrap().unwrap().text(), expected);
    }

    #[test]
    fn new_values_replace_the_old_ones_and_follow_the_others() {
        check(r#"{}"#, r#"{"a":"7","c":"7","e":"7"}"#);
        check(r#"{ "b": 1 }"#, r#"{ "b": 1 ,"a":"7","c":"7","e":"7"}"#);
        check(r#"{"d":1,"c":null,"a":1}"#, r#"{"d":1,"c":"7","a":"7","e":"7"}"#);
        // The last of two fields with one name counts.
        check(r#"{"c":1,"c":2}"#, r#"{"c":1,"c":"7","a":"7","e":"7"}"#);
    }

    /// The shortest time of three, which the rest of the machine lengthens least.
    #[expect(clippy::disallowed_methods, reason = "the test measures the time")]
    fn time_to_write(values: usize) -> Duration {
        let limits: Map<String, Json> = (0..values).map(|number| (format!("r{number}"), json!("1"))).collect();
        let text = json!({"spec": {"containers": [{"resources": {"limits": limits}}]}}).to_string();
        let document = Document::read(&text).unwrap();
        let mut pod = Pod::read(document.root(), None).unwrap();
        let added = (0..values).map(|number| (format!("s{number:05}").into(), default())).collect();
        let limits = &mut pod.containers.first_mut().unwrap().resources.limits;
        limits.names().cloned().collect::<Vec<_>>().into_iter().for_each(|name| limits.set(name, default()));
        limits.add_missing(added);
        let timed = |_| {
            let start = Instant::now();
            assert!(write(&mut String::new(), "", document.root(), &pod, None, true).unwrap());
            start.elapsed()
        };
        (0..3).map(timed).min().unwrap()
    }

    /// 32 times as many should take a little more than 32 times as long; quadratic work would take 1,024 times as long.
    #[test]
    fn many_new_values_take_linear_time() {
        // Tried again in case the machine was busy.
        assert!((0..4).any(|_| time_to_write(16_000) < time_to_write(500) * 320));
    }
}
