//! Manifests as people keep them: files, folders, or what kustomize and Helm print, as objects with their places.
//!
//! A file holds JSON, or YAML of several documents; a `List` stands for its items. What the objects mean is for others.
//! A key that is written twice in one YAML mapping is refused: which of the two its author meant, nobody knows.

pub mod documents;

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// One object, and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub origin: Origin,
    pub object: Value,
}

/// Where an object was written. The items of a `List` share its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `-` for standard input.
    pub file: PathBuf,
    /// The line of the document's first value, from 1.
    pub line: usize,
    /// Which document of the file it is, from 0.
    pub document: usize,
}

/// Why manifests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot read `{}`: {cause}", .path.display())]
    Unreadable { path: PathBuf, cause: std::io::Error },
    #[error("`{}` holds no manifests: expected files that end in .yaml, .yml or .json", .path.display())]
    NoManifests { path: PathBuf },
    #[error("{origin}: {problem}")]
    Malformed { origin: Origin, problem: String },
}

/// The endings of files that hold manifests, as kubectl has them.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// Instructions to kustomize, which kubectl takes for an object and stumbles over.
const KUSTOMIZATION: &str = "kustomization";

/// Reads files, the files of folders, and standard input for `-`, in the order given; a folder's files in name order.
pub fn read(paths: &[PathBuf], recursive: bool, stdin: &mut dyn Read) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            let read = stdin.read_to_string(&mut text);
            read.map_err(|cause| ManifestError::Unreadable { path: path.clone(), cause })?;
            manifests.extend(read_text(path, &text)?);
        } else if path.is_dir() {
            let files = files_of(path, recursive)?;
            if files.is_empty() {
                return Err(ManifestError::NoManifests { path: path.clone() });
            }
            for file in files {
                manifests.extend(read_file(&file)?);
            }
        } else {
            manifests.extend(read_file(path)?);
        }
    }
    Ok(manifests)
}

fn read_file(path: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let text = fs::read_to_string(path).map_err(|cause| ManifestError::Unreadable { path: path.to_owned(), cause })?;
    read_text(path, &text)
}

/// The manifests of a folder in name order, those of folders in it too if asked for.
fn files_of(folder: &Path, recursive: bool) -> Result<Vec<PathBuf>, ManifestError> {
    let unreadable = |cause| ManifestError::Unreadable { path: folder.to_owned(), cause };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            if recursive {
                files.extend(files_of(&path, recursive)?);
            }
        } else if is_manifest(&path) {
            files.push(path);
        }
    }
    Ok(files)
}

fn is_manifest(path: &Path) -> bool {
    let is = |part: Option<&std::ffi::OsStr>, texts: &[&str]| {
        part.and_then(|part| part.to_str()).is_some_and(|part| texts.contains(&part))
    };
    is(path.extension(), &ENDINGS) && !is(path.file_stem(), &[KUSTOMIZATION])
}

/// The objects in a text that came from `file`.
pub fn read_text(file: &Path, text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for (document, read) in documents::read(text).into_iter().enumerate() {
        let origin = |line| Origin { file: file.to_owned(), line, document };
        match read {
            Ok((line, object)) => flatten(&origin(line), object, &mut manifests)?,
            Err((line, problem)) => return Err(ManifestError::Malformed { origin: origin(line), problem }),
        }
    }
    Ok(manifests)
}

/// Adds an object, or each item of a list.
fn flatten(origin: &Origin, mut object: Value, into: &mut Vec<Manifest>) -> Result<(), ManifestError> {
    let malformed = |problem: String| Err(ManifestError::Malformed { origin: origin.clone(), problem });
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
