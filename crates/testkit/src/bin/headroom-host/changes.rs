//! A readable form of a patch: each changed value, before and after, by a path that names containers.

use std::fmt;

use serde_json::Value;

/// One value that was added, removed or replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub path: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// All values that differ between two objects, in the order of their keys.
pub fn between(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    collect(String::new(), Some(before), Some(after), &mut changes);
    changes
}

fn collect(path: String, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Change>) {
    if before == after {
        return;
    }
    let either = |test: fn(&Value) -> bool| before.is_none_or(test) && after.is_none_or(test);
    if either(Value::is_object) {
        let keys = |value: Option<&Value>| -> Vec<String> {
            value.and_then(Value::as_object).map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
        };
        let mut all = keys(before);
        all.extend(keys(after));
        all.sort();
        all.dedup();
        for key in all {
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let field = |value: Option<&Value>| value.and_then(|value| value.get(&key)).cloned();
            collect(below, field(before).as_ref(), field(after).as_ref(), changes);
        }
    } else if either(Value::is_array) {
        let length = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
        for index in 0..length(before).max(length(after)) {
            let item = |value: Option<&Value>| value.and_then(|value| value.get(index)).cloned();
            let (before, after) = (item(before), item(after));
            let name = after.as_ref().or(before.as_ref()).and_then(|item| item.get("name")).and_then(Value::as_str);
            let below = name.map_or_else(|| format!("{path}[{index}]"), |name| format!("{path}[{name}]"));
            collect(below, before.as_ref(), after.as_ref(), changes);
        }
    } else {
        changes.push(Change { path, before: before.cloned(), after: after.cloned() });
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| match value {
            None => "(unset)".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        write!(f, "{}: {} -> {}", self.path, text(&self.before), text(&self.after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: Value, after: Value, expected: &[&str]) {
        let changes: Vec<String> = between(&before, &after).iter().map(Change::to_string).collect();
        assert_eq!(changes, expected);
    }

    #[test]
    fn changes_name_their_container() {
        check(
            json!({"spec": {"containers": [{"name": "web", "resources": {}}, {"name": "db", "resources": {"limits": {"cpu": "1"}}}]}}),
            json!({"spec": {"containers": [
                {"name": "web", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}},
                {"name": "db", "resources": {"limits": {"cpu": "2"}}}
            ]}}),
            &[
                "spec.containers[web].resources.requests.cpu: (unset) -> 250m",
                "spec.containers[web].resources.requests.memory: (unset) -> 1Gi",
                "spec.containers[db].resources.limits.cpu: 1 -> 2",
            ],
        );
    }

    #[test]
    fn additions_removals_and_changes_of_type_are_listed() {
        check(
            json!({"a": 1, "b": [1]}),
            json!({"b": {"c": true}, "d": ["x"]}),
            &["a: 1 -> (unset)", r#"b: [1] -> {"c":true}"#, "d[0]: (unset) -> x"],
        );
    }

    #[test]
    fn equal_objects_have_no_changes() {
        check(json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]}), &[]);
    }
}
