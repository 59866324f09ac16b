//! Fields that nobody reads, which are left out of objects: of texts as they arrive, so that no value is made of them.
//!
//! Also objects as the host passes them on: pruned to the fields that a policy asks it for, without the API server's bookkeeping. A
//! path of keys is about everything below it and passes through lists. Type and metadata always stay.

use headroom_admission::json::{Node, write_string};
use serde_json::Value;

use crate::kinds::keep;

/// The part of a value that is left out; of a list, that of each item.
#[derive(Debug)]
pub enum LeftOut {
    Nothing,
    /// Some fields, and parts of others.
    Fields(&'static [&'static str], &'static [(&'static str, Self)]),
    AllFieldsBut(&'static [&'static str]),
    /// The items of a list with another `type`.
    OtherTypes(&'static str),
}

impl LeftOut {
    /// The part of a field that is left out; none if that is all of it.
    fn inside(&self, field: &str) -> Option<&Self> {
        match self {
            Self::Fields(all, parts) => (!all.contains(&field))
                .then(|| parts.iter().find(|(of, _)| *of == field).map_or(&Self::Nothing, |(_, part)| part)),
            Self::AllFieldsBut(kept) => kept.contains(&field).then_some(&Self::Nothing),
            Self::Nothing | Self::OtherTypes(_) => Some(&Self::Nothing),
        }
    }

    /// True if all of an item of this `type` is left out.
    fn is_of(&self, kind: impl FnOnce() -> Option<String>) -> bool {
        matches!(self, Self::OtherTypes(of) if kind().as_deref() != Some(of))
    }

    pub fn leave_out(&self, of: &mut Value) {
        match of {
            // Most of an object, which is not gone through.
            _ if matches!(self, Self::Nothing) => {}
            Value::Object(fields) => keep(fields, &mut |name, value| {
                let part = self.inside(name);
                part.into_iter().for_each(|part| part.leave_out(value));
                part.is_some()
            }),
            Value::Array(items) => {
                items.retain(|item| !self.is_of(|| Some(item.get("type")?.as_str()?.to_owned())));
                items.iter_mut().for_each(|item| self.leave_out(item));
            }
            _ => {}
        }
    }

    /// Appends a value without these parts.
    pub fn write_rest(parts: &[&Self], of: Node<'_>, to: &mut String) {
        if parts.iter().all(|part| matches!(part, Self::Nothing)) {
            return to.push_str(of.text());
        }
        write_parts(of, to, &mut |name, part, to| {
            let Some(name) = name else {
                let kind = || Some(part.get("type").ok()??.str().ok()?.into_owned());
                let is_kept = !parts.iter().any(|out| out.is_of(kind));
                if is_kept {
                    Self::write_rest(parts, part, to);
                }
                return is_kept;
            };
            let inside = parts.iter().map(|out| out.inside(name));
            // Most have no such parts, and then no list of them.
            let inside = inside.filter(|out| !matches!(out, Some(Self::Nothing)));
            let inside = inside.collect::<Option<Vec<&Self>>>();
            inside.iter().for_each(|inside| Self::write_rest(inside, part, to));
            inside.is_some()
        });
    }
}

/// Appends an object or a list out of the values that `write` appends, which returns false for those that it leaves out; other values
/// as they are. Items have no name.
fn write_parts(of: Node<'_>, to: &mut String, write: &mut dyn FnMut(Option<&str>, Node<'_>, &mut String) -> bool) {
    let mut append = |name: Option<&str>, part: Node<'_>, to: &mut String| {
        let before = to.len();
        if !to.ends_with(['{', '[']) {
            to.push(',');
        }
        if let Some(name) = name {
            write_string(to, name);
            to.push(':');
        }
        if !write(name, part, to) {
            to.truncate(before);
        }
    };
    match of.text().as_bytes().first() {
        Some(b'{') => {
            to.push('{');
            // OK because names are strings.
            let fields = of.fields().into_iter().flatten();
            fields.for_each(|(name, value)| append(Some(&name.str().unwrap_or_default()), value, to));
            to.push('}');
        }
        Some(b'[') => {
            to.push('[');
            of.items().into_iter().flatten().for_each(|item| append(None, item, to));
            to.push(']');
        }
        _ => to.push_str(of.text()),
    }
}

const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// They repeat the object in other words: who manages which field, and what was last applied.
const BOOKKEEPING: LeftOut =
    LeftOut::Fields(&[], &[("metadata", LeftOut::Fields(&["managedFields"], &[LAST_APPLIED]))]);
const LAST_APPLIED: (&str, LeftOut) =
    ("annotations", LeftOut::Fields(&["kubectl.kubernetes.io/last-applied-configuration"], &[]));

/// The path of the value itself.
const WHOLE: &str = "";

pub fn without_bookkeeping(object: &mut Value) {
    BOOKKEEPING.leave_out(object);
}

/// The text of what `masks` name of an object, without its bookkeeping; of all of it if there are none.
pub fn masked(object: Node<'_>, masks: &[&str]) -> String {
    let mut paths = if masks.is_empty() { vec![WHOLE] } else { ALWAYS.to_vec() };
    paths.extend(masks);
    let mut text = String::new();
    write_masked(object, &paths, &BOOKKEEPING, &mut text);
    text
}

fn write_masked(value: Node<'_>, kept: &[&str], dropped: &LeftOut, to: &mut String) {
    if kept.contains(&WHOLE) {
        return LeftOut::write_rest(&[dropped], value, to);
    }
    write_parts(value, to, &mut |name, part, to| {
        let Some(name) = name else {
            write_masked(part, kept, dropped, to);
            return true;
        };
        let kept: Vec<&str> = kept.iter().filter_map(|path| below(path, name)).collect();
        let Some(dropped) = dropped.inside(name).filter(|_| !kept.is_empty()) else { return false };
        write_masked(part, &kept, dropped, to);
        true
    });
}

/// The part of a path below a field; none if it does not lead there. Names of annotations have points too.
fn below<'p>(path: &'p str, field: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(field)?;
    if rest.is_empty() { Some(WHOLE) } else { rest.strip_prefix('.') }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use serde_json::json;

    #[test]
    fn a_text_and_a_value_lose_the_same() {
        const PARTS: LeftOut = LeftOut::Fields(
            &["a"],
            &[
                ("list", LeftOut::Fields(&["b"], &[])),
                ("few", LeftOut::AllFieldsBut(&["c\"", "null"])),
                ("typed", LeftOut::OtherTypes("x")),
            ],
        );
        let whole = json!({"a": 1, "list": [{"b": [1], "c": 2}, 3, {"b": {}}], "few": {"c\"": {"a": "é\n"}, "d": 1, "null": null},
            "typed": [{"type": "y"}, {"type": "x", "a": {}}, 1], "rest": {"a": [{}]}});
        let rest = json!({"list": [{"c": 2}, 3, {}], "few": {"c\"": {"a": "é\n"}, "null": null},
            "typed": [{"type": "x", "a": {}}], "rest": {"a": [{}]}});
        let mut value = whole.clone();
        PARTS.leave_out(&mut value);
        assert_eq!(value, rest);
        let (mut text, whole) = (String::new(), document(&whole).unwrap());
        LeftOut::write_rest(&[&PARTS, &LeftOut::Nothing], whole.root(), &mut text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), rest);
    }

    fn check(masks: &[&str], object: Value, expected: Value) {
        let pruned = masked(document(&object).unwrap().root(), masks);
        assert_eq!(serde_json::from_str::<Value>(&pruned).unwrap(), expected, "{masks:?}");
    }

    #[test]
    fn a_path_keeps_what_is_below_it_and_passes_through_lists() {
        let quota = json!({"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, "scopes": []}, "status": {}});
        check(
            &["spec.hard"],
            quota.clone(),
            json!({"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}),
        );
        check(&[], quota.clone(), quota.clone());
        check(&["spce"], quota, json!({"kind": "ResourceQuota", "metadata": {"name": "q"}}));
        check(
            &["spec.containers.name"],
            json!({"spec": {"containers": [{"name": "a", "image": "b"}]}}),
            json!({"spec": {"containers": [{"name": "a"}]}}),
        );
        check(
            &["spec"],
            json!({"metadata": {"managedFields": [{}], "annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}),
            json!({"metadata": {"annotations": {"a": "b"}}}),
        );
        check(&["spec", "spec.hard"], json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}));
    }
}
