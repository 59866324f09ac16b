//! Profiles as files, for clusters that are changed through a repository: `<folder>/<namespace>/<name>.yaml`.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde_json::Value;

use super::Written;
use super::manifest::{self, Format};

pub struct Folder {
    pub path: PathBuf,
    pub format: Format,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write `{path}`: {error}")]
pub struct FolderError {
    path: PathBuf,
    error: io::Error,
}

impl Folder {
    /// The profile that is there. A file that somebody spoiled is as good as none.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, FolderError> {
        let path = self.place(namespace, name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(match self.format {
                Format::Json => serde_json::from_str(&text).ok(),
                Format::Yaml => serde_saphyr::from_str(&text).ok(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(FolderError { path, error }),
        }
    }

    pub fn write(&self, namespace: &str, name: &str, object: &Value) -> Result<Written, FolderError> {
        let path = self.place(namespace, name);
        let failed = |error| FolderError { path: path.clone(), error };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        // Renamed when whole, so that nobody reads or commits half a file.
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, manifest::text(object, self.format)).map_err(failed)?;
        fs::rename(&unfinished, &path).map_err(failed)?;
        Ok(Written::Written)
    }

    pub fn delete(&self, namespace: &str, name: &str) -> Result<(), FolderError> {
        let path = self.place(namespace, name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FolderError { path, error }),
            _ => Ok(()),
        }
    }

    fn place(&self, namespace: &str, name: &str) -> PathBuf {
        self.path.join(namespace).join(format!("{name}.{}", self.format.name()))
    }
}
