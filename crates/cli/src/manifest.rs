//! Manifests as people keep them: files, folders, or what kustomize and Helm print. What a text holds is for the desk
//! to say; here it is only found and read.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use headroom_dryrun::manifest::{Malformed, Manifest, Origin, documents, read_text};

/// Why manifests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot read `{}`: {cause}", .path.display())]
    Unreadable { path: PathBuf, cause: std::io::Error },
    #[error("`{}` holds no manifests: expected files that end in .yaml, .yml or .json", .path.display())]
    NoManifests { path: PathBuf },
    #[error(
        "`{}` is not built: kubectl, which -k needs, is not in PATH; pipe what kustomize builds: kustomize build {} | \
         kubectl headroom … -f -",
        .folder.display(), .folder.display()
    )]
    NoKubectl { folder: PathBuf },
    #[error("`kubectl kustomize {}` failed: {said}", .folder.display())]
    Kustomize { folder: PathBuf, said: String },
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// The endings of files that hold manifests, as kubectl has them.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// Instructions to kustomize, which kubectl takes for an object and stumbles over.
const KUSTOMIZATION: &str = "kustomization";
/// The names that they may have.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

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

/// What kustomize builds of a folder. Each object's place is the kustomization: which of its files an object comes from,
/// kustomize does not tell.
pub fn kustomized(folder: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let failed = |said: String| ManifestError::Kustomize { folder: folder.to_owned(), said };
    let output = Command::new("kubectl").arg("kustomize").arg(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => ManifestError::NoKubectl { folder: folder.to_owned() },
        _ => failed(cause.to_string()),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.trim().trim_start_matches("error: ").to_owned()));
    }
    let file = KUSTOMIZATIONS.iter().map(|name| folder.join(name)).find(|file| file.exists());
    let file = file.unwrap_or_else(|| folder.to_owned());
    let text = String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))?;
    let mut manifests = read_text(&file, &text)?;
    manifests.iter_mut().for_each(|manifest| manifest.origin.line = 1);
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
