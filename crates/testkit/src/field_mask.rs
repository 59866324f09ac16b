//! Field masks: the parts of an object that the host passes to a policy.
//!
//! A path names nested keys with dots, keeps the whole subtree below it, and passes through arrays. `apiVersion`,
//! `kind` and `metadata` are never pruned; every other top-level key needs a path.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The paths of a mask as a tree; a leaf keeps everything below it.
#[derive(Default)]
struct Kept(BTreeMap<String, Kept>);

impl Kept {
    fn new(paths: &BTreeSet<String>) -> Self {
        let mut root = Self::default();
        for path in paths {
            let mut node = &mut root;
            for key in path.split('.') {
                node = node.0.entry(key.to_owned()).or_default();
            }
        }
        root
    }

    fn prune(&self, value: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        match value {
            Value::Object(fields) => fields.retain(|key, field| match self.0.get(key) {
                Some(below) => {
                    below.prune(field);
                    true
                }
                None => false,
            }),
            Value::Array(items) => items.iter_mut().for_each(|item| self.prune(item)),
            _ => {}
        }
    }
}

/// Prunes a Kubernetes object to the paths of `mask`.
pub fn prune(object: &mut Value, mask: &BTreeSet<String>) {
    let Value::Object(fields) = object else { return };
    let always: Vec<(String, Value)> =
        ["apiVersion", "kind", "metadata"].iter().filter_map(|key| fields.remove_entry(*key)).collect();
    Kept::new(mask).prune(object);
    if let Value::Object(fields) = object {
        fields.extend(always);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(mask: &[&str], object: Value, expected: Value) {
        let mut pruned = object;
        prune(&mut pruned, &mask.iter().map(|&path| path.to_owned()).collect());
        assert_eq!(pruned, expected, "{mask:?}");
    }

    #[test]
    fn a_path_keeps_its_subtree_and_passes_through_arrays() {
        check(
            &["spec.containers.resources", "spec.overhead"],
            json!({"spec": {
                "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}],
                "overhead": {"cpu": "1m"},
                "nodeName": "n"
            }}),
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}, {}], "overhead": {"cpu": "1m"}}}),
        );
    }

    #[test]
    fn type_and_metadata_are_never_pruned() {
        check(
            &["spec.limits"],
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": []}, "status": {}}),
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": []}}),
        );
    }

    #[test]
    fn a_mistyped_path_leaves_nothing_of_the_data() {
        check(&["spce"], json!({"kind": "Pod", "spec": {"a": 1}}), json!({"kind": "Pod"}));
    }

    #[test]
    fn a_key_with_dots_cannot_be_addressed_below_its_parent() {
        let quota = json!({"spec": {"hard": {"requests.cpu": "1"}}});
        check(&["spec.hard.requests.cpu"], quota.clone(), json!({"spec": {"hard": {}}}));
        check(&["spec.hard"], quota.clone(), quota);
    }
}
