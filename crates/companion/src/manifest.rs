//! Manifests as people keep them: files, folders, or what kustomize and Helm print. What a text holds is for the desk
//! to say; here it is only found and read.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use headroom_desk::manifest::{Malformed, Manifest, Origin, documents, read_text};

/// Why manifests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot read `{}`: {cause}", .path.display())]
    Unreadable { path: PathBuf, cause: std::io::Error },
    #[error("`{}` holds no manifests: expected files that end in .yaml, .yml or .json", .path.display())]
    NoManifests { path: PathBuf },
    #[error(transparent)]
    Malformed(#[from] Malformed),
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
    Ok(read_text(path, &text)?)
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

#[cfg(test)]
mod tests;
