//! Writes what was decided into the object: splices into its own text, so that nothing else moves.

use std::ops::Range;

use super::annotation;
use crate::json::{Malformed, Node, write_string};
use crate::request::template::{Bound, Container, Origin, PodTemplate, Value};
use crate::stage::authored::{LIMIT_RANGER, LIMIT_RANGER_PREFIX};

/// The object with the pod's new values in it; none if there are none.
pub fn apply(object: Node<'_>, pod: &PodTemplate<'_>) -> Result<Option<String>, Malformed> {
    let mut edits = Edits::default();
    for container in &pod.containers {
        write_container(&mut edits, container)?;
    }
    if edits.splices.is_empty() {
        return Ok(None);
    }
    write_annotations(&mut edits, pod)?;
    Ok(Some(edits.applied_to(object)))
}

fn write_container(edits: &mut Edits, container: &Container<'_>) -> Result<(), Malformed> {
    let resources = container.node.get("resources")?;
    let mut whole_lists = Vec::new();
    for bound in [Bound::Limit, Bound::Request] {
        let values = container.resources.of(bound);
        let new = values.iter().filter(|(_, value)| value.origin.is_new());
        let fields: Vec<(String, String)> =
            new.map(|(name, value)| (name.to_string(), quoted(&value.quantity.to_string()))).collect();
        if fields.is_empty() {
            continue;
        }
        match resources.map(|resources| resources.get(bound.field())).transpose()?.flatten() {
            Some(list) => edits.set_fields(list, &fields)?,
            None => whole_lists.push((bound.field().to_owned(), object_of(&fields))),
        }
    }
    match resources {
        Some(resources) => edits.set_fields(resources, &whole_lists),
        None if whole_lists.is_empty() => Ok(()),
        None => edits.set_fields(container.node, &[("resources".to_owned(), object_of(&whole_lists))]),
    }
}

fn write_annotations(edits: &mut Edits, pod: &PodTemplate<'_>) -> Result<(), Malformed> {
    let mut annotations = Vec::new();
    if let Some(text) = limit_ranger_annotation(pod) {
        annotations.push((LIMIT_RANGER.to_owned(), quoted(&text)));
    }
    if let Some(text) = annotation::write(pod) {
        annotations.push((annotation::NAME.to_owned(), quoted(&text)));
    }
    let Some(metadata) = pod.node.get("metadata")? else {
        let metadata = object_of(&[("annotations".to_owned(), object_of(&annotations))]);
        return edits.set_fields(pod.node, &[("metadata".to_owned(), metadata)]);
    };
    match metadata.get("annotations")? {
        Some(have) => edits.set_fields(have, &annotations),
        None => edits.set_fields(metadata, &[("annotations".to_owned(), object_of(&annotations))]),
    }
}

/// LimitRanger's own annotation, as it would stand if LimitRanger had set the defaults that we set. It covers what
/// LimitRanger itself put in before us as well; none if we set no default.
fn limit_ranger_annotation(pod: &PodTemplate<'_>) -> Option<String> {
    let is_default = |value: &Value<'_>| matches!(value.origin, Origin::Default(_) | Origin::LimitRanger);
    let mut has_new = false;
    let mut clauses = Vec::new();
    for container in &pod.containers {
        for bound in [Bound::Request, Bound::Limit] {
            let values = container.resources.of(bound);
            has_new |= values.iter().any(|(_, value)| matches!(value.origin, Origin::Default(_)));
            let names: Vec<&str> =
                values.iter().filter(|(_, value)| is_default(value)).map(|(name, _)| name.as_ref()).collect();
            if !names.is_empty() {
                let (names, noun, name) = (names.join(", "), container.role.noun(), &container.name);
                clauses.push(format!("{names} {bound} for {noun} {name}"));
            }
        }
    }
    has_new.then(|| format!("{LIMIT_RANGER_PREFIX}{}", clauses.join("; ")))
}

fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    write_string(&mut json, text);
    json
}

/// An object of fields whose values are JSON already.
fn object_of(fields: &[(String, String)]) -> String {
    let mut json = String::from("{");
    push_fields(&mut json, fields);
    json.push('}');
    json
}

fn push_fields(json: &mut String, fields: &[(String, String)]) {
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        write_string(json, name);
        json.push(':');
        json.push_str(value);
    }
}

/// Replacements in a document's text.
#[derive(Debug, Default)]
struct Edits {
    splices: Vec<(Range<usize>, String)>,
}

impl Edits {
    /// Sets fields of an object: those that are there are replaced, `null` ones too, the others added at its end.
    fn set_fields(&mut self, object: Node<'_>, fields: &[(String, String)]) -> Result<(), Malformed> {
        let mut added = Vec::new();
        for (name, value) in fields {
            match object.fields()?.filter(|(key, _)| key.is(name)).last() {
                Some((_, old)) => self.splices.push((old.span(), value.clone())),
                None => added.push((name.clone(), value.clone())),
            }
        }
        if !added.is_empty() {
            let mut text = String::new();
            if object.fields()?.next().is_some() {
                text.push(',');
            }
            push_fields(&mut text, &added);
            let end = object.span().end - 1;
            self.splices.push((end..end, text));
        }
        Ok(())
    }

    /// The text of `object` with the replacements in it.
    fn applied_to(mut self, object: Node<'_>) -> String {
        self.splices.sort_by_key(|(span, _)| span.start);
        let text = object.text();
        let start = object.span().start;
        let more: usize = self.splices.iter().map(|(_, new)| new.len()).sum();
        let mut edited = String::with_capacity(text.len() + more);
        let mut copied_to = 0;
        for (span, new) in &self.splices {
            edited.push_str(text.get(copied_to..span.start - start).unwrap_or_default());
            edited.push_str(new);
            copied_to = span.end - start;
        }
        edited.push_str(text.get(copied_to..).unwrap_or_default());
        edited
    }
}
