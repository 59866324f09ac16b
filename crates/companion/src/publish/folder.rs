//! Profiles as files, for clusters that are changed through a repository: `<folder>/<namespace>/<name>.yaml`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use headroom_advice::profile::UsageProfile;
use headroom_core::cluster::usage::{Scope, Shard};
use serde_json::Value;

use super::manifest::{self, Format};
use super::{ObjectName, Written, change};

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
    pub fn write(&self, profile: &UsageProfile, object: &Value, refresh_seconds: i64) -> Result<Written, FolderError> {
        let path = self.place(&profile.namespace, &profile.scope.object_name());
        let failed = |error| FolderError { path: path.clone(), error };
        match fs::read_to_string(&path) {
            Ok(text) => {
                // A file that somebody spoiled is written anew.
                let old = match self.format {
                    Format::Json => serde_json::from_str(&text).ok(),
                    Format::Yaml => serde_saphyr::from_str(&text).ok(),
                };
                if old.is_some_and(|old: Value| !change::is_due(&old, object, refresh_seconds)) {
                    return Ok(Written::Unchanged);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        // Renamed when whole, so that nobody reads or commits half a file.
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, manifest::text(object, self.format)).map_err(failed)?;
        fs::rename(&unfinished, &path).map_err(failed)?;
        Ok(Written::Written)
    }

    /// Takes away the files of profiles that are no more. Only names that profiles have are touched.
    pub fn delete_others(&self, current: &BTreeSet<ObjectName>, pool_namespace: &str) -> Result<u64, FolderError> {
        let mut deleted = 0;
        let failed = |path: &Path, error| FolderError { path: path.to_owned(), error };
        let namespaces = match fs::read_dir(&self.path) {
            Ok(namespaces) => namespaces,
            // Nothing was ever written.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(failed(&self.path, error)),
        };
        for entry in namespaces {
            let entry = entry.map_err(|error| failed(&self.path, error))?;
            let Ok(namespace) = entry.file_name().into_string() else { continue };
            let pooled = Shard::all().map(Scope::Pool).filter(|_| namespace == pool_namespace);
            for scope in pooled.chain([Scope::Namespace]) {
                let name = (namespace.clone(), scope.object_name());
                let path = self.place(&name.0, &name.1);
                if !current.contains(&name) && path.exists() {
                    fs::remove_file(&path).map_err(|error| failed(&path, error))?;
                    deleted += 1;
                }
            }
        }
        Ok(deleted)
    }

    fn place(&self, namespace: &str, name: &str) -> PathBuf {
        self.path.join(namespace).join(format!("{name}.{}", self.format.name()))
    }
}
