//! Manifests as objects with their places in a text.
//!
//! A text holds JSON values, or YAML of several documents; a `List` stands for its items. What the objects mean is for
//! others. A key that is written twice in one YAML mapping is refused: which of the two its author meant is unknown.

pub mod yaml;

pub mod documents;
pub mod yaml_spans;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::kinds::{metadata, text};

#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub origin: Origin,
    pub object: Value,
}

/// The place of an object in a file. The items of a `List` share its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `-` for standard input.
    pub file: PathBuf,
    /// The line of the document's first value, from 1.
    pub line: usize,
    /// The index of the document in the file.
    pub document: usize,
}

/// A problem of a text that should hold manifests.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct Malformed {
    pub origin: Origin,
    pub problem: String,
    /// True if it is YAML of another kind, such as values of a Helm chart: a list, or a mapping without `apiVersion` and `kind`.
    pub is_other_yaml: bool,
}

pub fn read_text(file: &Path, text: &str) -> Result<Vec<Manifest>, Malformed> {
    read_each(file, text).into_iter().collect()
}

/// The objects in a text, and in place of each that cannot be read the problem.
pub fn read_each(file: &Path, text: &str) -> Vec<Result<Manifest, Malformed>> {
    read_each_with(file, text, &mut documents::parse)
}

/// The same where `parse` reads YAML documents.
pub fn read_each_with(
    file: &Path,
    text: &str,
    parse: &mut dyn FnMut(&str) -> documents::Parsed,
) -> Vec<Result<Manifest, Malformed>> {
    let mut manifests = Vec::new();
    for (document, read) in documents::read_with(text, parse).into_iter().enumerate() {
        let origin = |line| Origin { file: file.to_owned(), line, document };
        match read {
            Ok((line, object)) if object.get("apiVersion").is_none() && object.get("kind").is_none() => {
                let problem = problem_of(&object).unwrap_or_default();
                manifests.push(Err(Malformed { origin: origin(line), problem, is_other_yaml: true }));
            }
            Ok((line, object)) => flatten(&origin(line), object, &mut manifests),
            Err((line, problem)) => {
                manifests.push(Err(Malformed { origin: origin(line), problem, is_other_yaml: false }));
            }
        }
    }
    manifests
}

/// Adds an object, or each item of a list.
fn flatten(origin: &Origin, mut object: Value, into: &mut Vec<Result<Manifest, Malformed>>) {
    if let Some(problem) = problem_of(&object) {
        into.push(Err(Malformed { origin: origin.clone(), problem, is_other_yaml: false }));
        return;
    }
    let item_kind = text(&object, "/kind").strip_suffix("List").map(str::to_owned);
    let (Some(item_kind), Some(Value::Array(items))) = (item_kind, object.get_mut("items").map(Value::take)) else {
        into.push(Ok(Manifest { origin: origin.clone(), object }));
        return;
    };
    let api_version = object.get("apiVersion").cloned().unwrap_or_default();
    for mut item in items {
        // The items of a typed list leave out what its own kind says already.
        if let (Value::Object(fields), false) = (&mut item, item_kind.is_empty()) {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone());
            fields.entry("kind").or_insert_with(|| json!(item_kind));
        }
        flatten(origin, item, into);
    }
}

/// The reason why a value is no Kubernetes object.
fn problem_of(object: &Value) -> Option<String> {
    if !object.is_object() {
        return Some("expected a Kubernetes object with `apiVersion` and `kind`".to_owned());
    }
    for field in ["apiVersion", "kind"] {
        if text(object, &format!("/{field}")).is_empty() {
            return Some(format!("`{field}` is missing: expected a Kubernetes object"));
        }
    }
    metadata(object, "name").contains(documents::TEMPLATE).then(|| documents::UNRENDERED.to_owned())
}

/// `app.yaml:12`
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file.to_str() {
            Some("-") => write!(f, "standard input:{}", self.line),
            _ => write!(f, "{}:{}", self.file.display(), self.line),
        }
    }
}

#[cfg(test)]
mod tests;
