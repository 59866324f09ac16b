//! Objects as the host passes them on: pruned to the fields that a policy asks it for, without the API server's bookkeeping.
//!
//! A path of keys keeps everything below it and passes through lists. Type and metadata always stay.

use headroom_admission::json::Node;

use super::left_out::{LeftOut, write_parts};

const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// It repeats the object in other words: who manages which field, and what was last applied.
pub(super) const BOOKKEEPING: LeftOut =
    LeftOut::Fields(&[], &[("metadata", LeftOut::Fields(&["managedFields"], &[LAST_APPLIED]))]);
const LAST_APPLIED: (&str, LeftOut) =
    ("annotations", LeftOut::Fields(&["kubectl.kubernetes.io/last-applied-configuration"], &[]));

/// Appends what `masks` name of an object; everything if there are none.
pub fn write_masked(object: Node<'_>, masks: &[&str], to: &mut String) {
    if masks.is_empty() {
        return LeftOut::write_rest(&[&BOOKKEEPING], object, to);
    }
    let paths: Vec<Vec<&str>> = masks.iter().chain(&ALWAYS).map(|mask| mask.split('.').collect()).collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    write(object, &paths, &BOOKKEEPING, to);
}

fn write(value: Node<'_>, paths: &[&[&str]], left_out: &LeftOut, to: &mut String) {
    write_parts(value, to, |name, part, to| {
        let Some(name) = name else {
            write(part, paths, left_out, to);
            return true;
        };
        let within = paths.iter().filter_map(|path| path.split_first()).filter(|(first, _)| **first == name);
        let within: Vec<&[&str]> = within.map(|(_, rest)| rest).collect();
        match left_out.inside(name) {
            Some(left_out) if within.iter().any(|rest| rest.is_empty()) => LeftOut::write_rest(&[left_out], part, to),
            Some(left_out) if !within.is_empty() => write(part, &within, left_out, to),
            _ => return false,
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use serde_json::{Value, json};

    fn check(masks: &[&str], object: Value, expected: Value) {
        let (mut pruned, object) = (String::new(), document(&object).unwrap());
        write_masked(object.root(), masks, &mut pruned);
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
