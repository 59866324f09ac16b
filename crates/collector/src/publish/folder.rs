//! Profiles as files, for clusters that are deployed from a repository: `<folder>/<namespace>/<name>.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, io};

use headroom_admission::cluster::usage::Root;
use headroom_objects::manifest::yaml;
use headroom_output::page::escaped;
use serde_json::Value;

const ENDING: &str = ".yaml";

pub struct Folder {
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write `{path}`: {error}")]
pub struct FolderError {
    path: PathBuf,
    error: io::Error,
}

impl Folder {
    /// The root and its pages by name. A damaged file counts as missing.
    pub fn list(&self, namespace: &str, root: Root) -> Result<BTreeMap<String, Value>, FolderError> {
        let folder = self.path.join(namespace);
        let failed = |error| FolderError { path: folder.clone(), error };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(failed(error)),
        };
        let root = root.to_string();
        let mut there = BTreeMap::new();
        for entry in entries {
            let file = entry.map_err(failed)?.file_name();
            let Some(name) = file.to_str().and_then(|file| file.strip_suffix(ENDING)) else { continue };
            if name.starts_with(&root) {
                there.extend(self.get(namespace, name)?.map(|object| (name.to_owned(), object)));
            }
        }
        Ok(there)
    }

    fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, FolderError> {
        let path = self.path_of(namespace, name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(serde_saphyr::from_str(&text).ok()),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => Ok(None),
            Err(error) => Err(FolderError { path, error }),
        }
    }

    pub fn write(&self, namespace: &str, name: &str, object: &Value) -> Result<(), FolderError> {
        let path = self.path_of(namespace, name);
        let failed = |error| FolderError { path: path.clone(), error };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        headroom_output::write_file(&path, &document(object)).map_err(failed)
    }

    pub fn delete(&self, namespace: &str, name: &str) -> Result<(), FolderError> {
        let path = self.path_of(namespace, name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FolderError { path, error }),
            _ => Ok(()),
        }
    }

    fn path_of(&self, namespace: &str, name: &str) -> PathBuf {
        self.path.join(namespace).join(format!("{name}{ENDING}"))
    }
}

/// The text of a profile in files and on standard output, which others may follow.
pub fn document(object: &Value) -> String {
    // Names are from a metrics store, and the document may be printed.
    escaped(format!("---\n{}", yaml::write(object)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_in_a_document_acts_on_a_terminal_or_a_log() {
        let object = json!({"##[error]\u{9b}2K": "\u{202e}##vso[task]", "n": ["1", 1, {"50": "12m"}, {}]});
        let text = document(&object);
        assert!(text.is_ascii() && !text.contains("##"), "{text}");
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, object);
    }
}
