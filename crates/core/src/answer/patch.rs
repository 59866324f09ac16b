//! Writes what was decided into the object: splices into its own text, so that nothing else moves.

use std::fmt::Write as _;
use std::ops::Range;

use super::annotation;
use crate::amount::{Quantity, ResourceName};
use crate::json::{Malformed, Node, write_string};
use crate::order;
use crate::request::template::{Bound, Container, Origin, PodTemplate, Value};
use crate::stage::authored::{LIMIT_RANGER, LIMIT_RANGER_PREFIX};

/// The object with the pod's new values and their explanation in it; none if there are none.
pub fn apply(object: Node<'_>, pod: &PodTemplate<'_>, explanation: Option<&str>) -> Result<Option<String>, Malformed> {
    let mut edits = Edits::default();
    for container in &pod.containers {
        write_container(&mut edits, container)?;
    }
    let has_new_values = !edits.splices.is_empty();
    write_annotations(&mut edits, pod, explanation.filter(|_| has_new_values))?;
    Ok((!edits.splices.is_empty()).then(|| edits.applied_to(object)))
}

fn write_container(edits: &mut Edits, container: &Container<'_>) -> Result<(), Malformed> {
    let is_new = |bound| container.resources.of(bound).iter().any(|(_, value)| value.origin.is_new());
    if !is_new(Bound::Limit) && !is_new(Bound::Request) {
        return Ok(());
    }
    let resources = container.node.get("resources")?;
    let mut whole_lists = String::new();
    for bound in [Bound::Limit, Bound::Request].into_iter().filter(|bound| is_new(*bound)) {
        let new = container.resources.of(bound).iter().filter(|(_, value)| value.origin.is_new());
        match (resources, resources.map(|resources| resources.get(bound.field())).transpose()?.flatten()) {
            (_, Some(list)) => {
                for (name, value) in new {
                    edits.set(list, name, quoted(&value.quantity))?;
                }
            }
            (Some(resources), None) => edits.set(resources, bound.field(), amounts(new))?,
            (None, None) => push_field(&mut whole_lists, bound.field(), &amounts(new)),
        }
    }
    if !whole_lists.is_empty() {
        edits.set(container.node, "resources", format!("{{{whole_lists}}}"))?;
    }
    Ok(())
}

fn amounts<'v, 'd: 'v>(values: impl Iterator<Item = (&'v ResourceName<'d>, &'v Value<'d>)>) -> String {
    let mut fields = String::with_capacity(64);
    fields.push('{');
    for (name, value) in values {
        push_field(&mut fields, name, &quoted(&value.quantity));
    }
    fields.push('}');
    fields
}

fn write_annotations(edits: &mut Edits, pod: &PodTemplate<'_>, explanation: Option<&str>) -> Result<(), Malformed> {
    let limit_ranger = limit_ranger_annotation(pod);
    let told = annotation::write_told(pod);
    let has_told = told.is_some() && pod.annotation(annotation::TOLD)?.as_deref() == told.as_deref();
    let texts = [
        (LIMIT_RANGER, limit_ranger.as_deref()),
        (annotation::NAME, explanation),
        (annotation::TOLD, told.as_deref().filter(|_| !has_told)),
    ];
    if texts.iter().all(|(_, text)| text.is_none()) {
        return Ok(());
    }
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
    if let Some(annotations) = pod.annotations {
        for (name, text) in texts {
            edits.set(annotations, name, quoted_text(text))?;
        }
        return Ok(());
    }
    let mut annotations = String::with_capacity(512);
    annotations.push('{');
    for (name, text) in texts {
        push_field(&mut annotations, name, &quoted_text(text));
    }
    annotations.push('}');
    match pod.node.get("metadata")? {
        Some(metadata) => edits.set(metadata, "annotations", annotations),
        None => edits.set(pod.node, "metadata", format!("{{\"annotations\":{annotations}}}")),
    }
}

/// LimitRanger's own annotation, as it would stand if LimitRanger had set the defaults that we set. It covers what
/// LimitRanger itself put in before us as well; none if we set no default.
fn limit_ranger_annotation(pod: &PodTemplate<'_>) -> Option<String> {
    let mut has_new = false;
    let mut text = String::with_capacity(256);
    text.push_str(LIMIT_RANGER_PREFIX);
    for container in &pod.containers {
        for bound in [Bound::Request, Bound::Limit] {
            let mut is_first = true;
            for (name, value) in container.resources.of(bound).iter() {
                has_new |= matches!(value.origin, Origin::Default(_));
                if matches!(value.origin, Origin::Default(_) | Origin::LimitRanger) {
                    let is_first_clause = text.len() == LIMIT_RANGER_PREFIX.len();
                    text.push_str(if !is_first {
                        ", "
                    } else if is_first_clause {
                        ""
                    } else {
                        "; "
                    });
                    text.push_str(name);
                    is_first = false;
                }
            }
            if !is_first {
                for piece in [" ", bound.noun(), " for ", container.role.noun(), " ", &container.name] {
                    text.push_str(piece);
                }
            }
        }
    }
    has_new.then_some(text)
}

fn quoted(amount: &Quantity) -> String {
    let mut json = String::with_capacity(32);
    json.push('"');
    // Writing into a string does not fail.
    let _ = write!(json, "{amount}");
    json.push('"');
    json
}

fn quoted_text(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + text.len() / 4 + 2);
    write_string(&mut json, text);
    json
}

/// Adds a field to the inside of an object's text; `value` is JSON already.
fn push_field(fields: &mut String, name: &str, value: &str) {
    if !matches!(fields.as_bytes().last(), None | Some(b'{' | b',')) {
        fields.push(',');
    }
    write_string(fields, name);
    fields.push(':');
    fields.push_str(value);
}

/// Replacements in a document's text.
#[derive(Debug, Default)]
struct Edits {
    splices: Vec<(Range<usize>, String)>,
}

impl Edits {
    /// Sets a field of an object: one that is there is replaced, a `null` one too, another is added at its end.
    fn set(&mut self, object: Node<'_>, name: &str, value: String) -> Result<(), Malformed> {
        let mut is_empty = true;
        let mut old = None;
        for (key, value) in object.fields()? {
            is_empty = false;
            if key.is(name) {
                old = Some(value);
            }
        }
        if let Some(old) = old {
            self.splices.push((old.span(), value));
            return Ok(());
        }
        let end = object.span().end - 1;
        let follows_another = self.splices.last().is_some_and(|(place, _)| *place == (end..end));
        let mut text = String::with_capacity(name.len() + value.len() + 4);
        text.push_str(if is_empty && !follows_another { "" } else { "," });
        push_field(&mut text, name, &value);
        self.splices.push((end..end, text));
        Ok(())
    }

    /// The text of `object` with the replacements in it.
    fn applied_to(mut self, object: Node<'_>) -> String {
        // The sort is stable, so what is added to one object stays in order.
        order::sort_by(&mut self.splices, |(a, _), (b, _)| a.start.cmp(&b.start));
        let text = object.text();
        let start = object.span().start;
        let more: usize = self.splices.iter().map(|(_, new)| new.len()).sum();
        let mut edited = String::with_capacity(text.len() + more);
        let mut copied_to = 0;
        for (place, new) in &self.splices {
            edited.push_str(text.get(copied_to..place.start - start).unwrap_or_default());
            edited.push_str(new);
            copied_to = place.end - start;
        }
        edited.push_str(text.get(copied_to..).unwrap_or_default());
        edited
    }
}
