//! Objects as the host passes them on: pruned to the fields that a policy asks it for, without the API server's bookkeeping.
//!
//! A path of keys is about everything below it and passes through lists. Type and metadata always stay.

use headroom_admission::json::Node;
use serde_json::Value;

use super::left_out::{LeftOut, write_parts};

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
    write(object, &paths, &BOOKKEEPING, &mut text);
    text
}

fn write(value: Node<'_>, kept: &[&str], dropped: &LeftOut, to: &mut String) {
    if kept.contains(&WHOLE) {
        return LeftOut::write_rest(&[dropped], value, to);
    }
    write_parts(value, to, &mut |name, part, to| {
        let Some(name) = name else {
            write(part, kept, dropped, to);
            return true;
        };
        let kept: Vec<&str> = kept.iter().filter_map(|path| below(path, name)).collect();
        let Some(dropped) = dropped.inside(name).filter(|_| !kept.is_empty()) else { return false };
        write(part, &kept, dropped, to);
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
