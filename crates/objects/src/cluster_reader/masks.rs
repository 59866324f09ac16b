//! Prunes an object to the fields that a policy asks the host for.
//!
//! A path of keys keeps everything below it and passes through lists. Type and metadata always stay.

use serde_json::Value;

const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Leaves what `masks` name; everything if there are none.
pub fn prune<M: AsRef<str>>(object: &mut Value, masks: &[M]) {
    if masks.is_empty() {
        return;
    }
    let paths: Vec<Vec<&str>> =
        masks.iter().map(|mask| mask.as_ref().split('.').collect()).chain(ALWAYS.map(|key| vec![key])).collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    keep(object, &paths);
}

fn keep(value: &mut Value, paths: &[&[&str]]) {
    match value {
        Value::Object(fields) => fields.retain(|key, field| {
            let below: Vec<&[&str]> = paths
                .iter()
                .filter_map(|path| path.split_first())
                .filter(|(first, _)| *first == key)
                .map(|(_, rest)| rest)
                .collect();
            let is_whole = below.iter().any(|rest| rest.is_empty());
            if !is_whole && !below.is_empty() {
                keep(field, &below);
            }
            !below.is_empty()
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| keep(item, paths)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(masks: &[&str], object: Value, expected: Value) {
        let mut pruned = object;
        prune(&mut pruned, masks);
        assert_eq!(pruned, expected, "{masks:?}");
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
        check(&["spec", "spec.hard"], json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}));
    }
}
