//! Manifests as objects with their places in a text.
//!
//! A text holds JSON values, or YAML of several documents; a `List` stands for its items. What the objects mean is for
//! others. A key that is written twice in one YAML mapping is refused: which of the two its author meant is unknown.

pub mod documents;
pub mod yaml;
pub mod yaml_spans;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// An object, and its place in a file.
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
}

/// The objects in a text that came from `file`.
pub fn read_text(file: &Path, text: &str) -> Result<Vec<Manifest>, Malformed> {
    match read_as_far_as_possible(file, text) {
        (manifests, None) => Ok(manifests),
        (_, Some(problem)) => Err(problem),
    }
}

/// The objects in a text up to the first problem, for editors whose text is not finished.
pub fn read_as_far_as_possible(file: &Path, text: &str) -> (Vec<Manifest>, Option<Malformed>) {
    let mut manifests = Vec::new();
    for (document, read) in documents::read(text).into_iter().enumerate() {
        let origin = |line| Origin { file: file.to_owned(), line, document };
        let flattened = match read {
            Ok((line, object)) => flatten(&origin(line), object, &mut manifests),
            Err((line, problem)) => Err(Malformed { origin: origin(line), problem }),
        };
        if let Err(problem) = flattened {
            return (manifests, Some(problem));
        }
    }
    (manifests, None)
}

/// Adds an object, or each item of a list.
fn flatten(origin: &Origin, mut object: Value, into: &mut Vec<Manifest>) -> Result<(), Malformed> {
    let malformed = |problem: String| Err(Malformed { origin: origin.clone(), problem });
    if !object.is_object() {
        return malformed("expected a Kubernetes object with `apiVersion` and `kind`".to_owned());
    }
    for field in ["apiVersion", "kind"] {
        if object.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
            return malformed(format!("`{field}` is missing: expected a Kubernetes object"));
        }
    }
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let item_kind = kind.strip_suffix("List").map(str::to_owned);
    let (Some(item_kind), Some(Value::Array(items))) = (item_kind, object.get_mut("items").map(Value::take)) else {
        into.push(Manifest { origin: origin.clone(), object });
        return Ok(());
    };
    let api_version = object.get("apiVersion").cloned().unwrap_or_default();
    for mut item in items {
        // The items of a typed list leave out what its own kind says already.
        if let (Value::Object(fields), false) = (&mut item, item_kind.is_empty()) {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone());
            fields.entry("kind").or_insert_with(|| json!(item_kind));
        }
        flatten(origin, item, into)?;
    }
    Ok(())
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
