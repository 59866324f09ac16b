//! A profile's text for people and their repositories: YAML, or JSON with line breaks.

use std::fmt::Write;

use headroom_core::cluster::usage::Root;
use headroom_report::page::escaped;
use headroom_usage_profile::UsageProfile;
use headroom_usage_profile::custom_resource::ROOT_LABEL;
use serde_json::Value;

/// Who writes the objects; also the name of the field manager.
pub const MANAGER: &str = "headroom-collector";
const MANAGER_LABEL: &str = "app.kubernetes.io/managed-by";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Yaml,
    Json,
}

impl Format {
    /// `yaml`, `json`; also the ending of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Json => "json",
        }
    }
}

/// The store that an object was made of.
const STORE_ANNOTATION: &str = "headroom.dev/store";

/// Marks an object as the collector's, as made of this store, and as a part of a root's.
pub fn mark(profile: &mut UsageProfile, store: &str, root: Root) {
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    profile.metadata.annotations = Some([(STORE_ANNOTATION, store.to_owned())].map(owned).into());
    let labels = [(MANAGER_LABEL, MANAGER.to_owned()), (ROOT_LABEL, root.to_string())];
    profile.metadata.labels = Some(labels.map(owned).into());
}

/// The name of an object.
pub fn name_of(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("name")?.as_str()
}

/// Whether a collector wrote the object.
pub fn is_collected(object: &Value) -> bool {
    metadata(object, "labels", MANAGER_LABEL) == Some(MANAGER)
}

/// The store that the object was made of.
pub fn store_of(object: &Value) -> Option<&str> {
    metadata(object, "annotations", STORE_ANNOTATION)
}

fn metadata<'o>(object: &'o Value, field: &str, key: &str) -> Option<&'o str> {
    object.get("metadata")?.get(field)?.get(key)?.as_str()
}

/// One document; documents may follow each other.
pub fn text(object: &Value, format: Format) -> String {
    // Names are from a metrics store, and the document may be printed.
    escaped(match format {
        Format::Json => format!("{object:#}\n"),
        Format::Yaml => {
            let mut text = String::from("---");
            yaml(&mut text, object, 0);
            text.push('\n');
            text
        }
    })
}

/// What may stand before the colon without quotes: no number, no word that some YAML reader takes for something else.
fn is_plain(key: &str) -> bool {
    let is_word = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
    is_word
        && !["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&key.to_ascii_lowercase().as_str())
}

/// Every text is quoted as in JSON, which YAML understands, so no value can be mistaken for a number or a date.
fn yaml(text: &mut String, value: &Value, depth: usize) {
    let indent = |text: &mut String| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                indent(text);
                match is_plain(key) {
                    true => text.push_str(key),
                    false => quoted(text, key),
                }
                text.push(':');
                yaml(text, value, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(text);
                text.push('-');
                yaml(text, item, depth + 1);
            }
        }
        Value::String(value) => {
            text.push(' ');
            quoted(text, value);
        }
        other => {
            // OK because writing to a string cannot fail.
            let _ = write!(text, " {other}");
        }
    }
}

fn quoted(text: &mut String, value: &str) {
    let _ = write!(text, "{}", Value::from(value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_quotes_whatever_could_be_taken_for_something_else() {
        let object = json!({
            "kind": "UsageProfile",
            "metadata": {
                "annotations": {"headroom.dev/store": "0f1e"},
                "labels": {"app.kubernetes.io/managed-by": "headroom-collector", "headroom.dev/root": "usage-26"},
                "name": "usage-26"
            },
            "spec": {"at": "2026-11-21T00:00:00Z", "n": 1, "percentiles": {"50": "12m", "99.9": "1"}, "kills": [{"memory": "1Gi"}], "tags": {}},
        });
        assert!(is_collected(&object) && store_of(&object) == Some("0f1e"));
        let expected = r#"---
kind: "UsageProfile"
metadata:
  annotations:
    headroom.dev/store: "0f1e"
  labels:
    app.kubernetes.io/managed-by: "headroom-collector"
    headroom.dev/root: "usage-26"
  name: "usage-26"
spec:
  at: "2026-11-21T00:00:00Z"
  kills:
    -
      memory: "1Gi"
  "n": 1
  percentiles:
    "50": "12m"
    "99.9": "1"
  tags: {}
"#;
        assert_eq!(text(&object, Format::Yaml), expected);
        let read: Value = serde_saphyr::from_str(expected).unwrap();
        assert_eq!(read, object);
    }

    #[test]
    fn nothing_in_a_document_acts_on_a_terminal_or_a_log() {
        let object = json!({"##[error]\u{9b}2K": "\u{202e}##vso[task]"});
        for format in [Format::Json, Format::Yaml] {
            let text = text(&object, format);
            assert!(text.is_ascii() && !text.contains("##"), "{text}");
            let read: Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, object);
        }
    }
}
