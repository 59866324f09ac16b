//! The editor's schema of the settings is that of the core and of the reference.

use std::collections::BTreeSet;

use headroom_dry_run::settings;
use serde_json::{Map, Value, json};

const SCHEMA: &str = include_str!("../../../../playground/site/src/schema.json");
const REFERENCE: &str = include_str!("../../../../docs/src/reference/settings.md");

/// The paths of all settings that the schema has, and a value for each that no setting takes.
fn paths(schema: &Value, path: &str, into: &mut BTreeSet<String>) -> Value {
    let fields = schema.get("fields").and_then(Value::as_object);
    let Some(fields) = fields else { return json!({"no": "setting"}) };
    let mut wrong = Map::new();
    for (name, of) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        wrong.insert(name.clone(), paths(of, &path, into));
        into.insert(path);
    }
    Value::Object(wrong)
}

#[test]
fn the_schema_has_settings_of_the_core_and_all_of_the_reference() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let (of_schema, mut known) = (&schema["settings"], BTreeSet::new());
    let wrong = paths(of_schema, "", &mut known);
    assert!(known.len() > 25, "the schema has settings");
    let problems = settings::check(&wrong).unwrap_err().problems.join("\n");
    for path in &known {
        assert!(!problems.contains(&format!("`{path}` is not a setting")), "{path}: {problems}");
    }
    for list in ["limitRanges.rules", "quotas.limitedResources", "estimates.history"] {
        let items = list.split('.').fold(of_schema, |part, name| &part["fields"][name]);
        paths(&items["items"], &format!("{list}[]"), &mut known);
    }
    let rows: Vec<&str> = REFERENCE.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(rows.len() > 40, "the reference has settings");
    for row in rows {
        assert!(known.contains(row), "the schema lacks {row}");
    }
}
