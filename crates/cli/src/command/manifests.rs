//! Manifests as they are typed: `-f`, `-k` and `-R`, as kubectl has them.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::{fmt, io};

use anyhow::bail;
use headroom_objects::manifest::Manifest;

use crate::manifest::{self, ManifestError, ReadOptions};

/// Manifests in files.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ManifestFiles {
    /// Files, folders, or `-` for standard input; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1.., value_delimiter = ',')]
    pub files: Vec<PathBuf>,
    /// Read folders within folders too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    #[arg(skip)]
    read: OnceLock<Vec<Manifest>>,
}

/// Manifests in files, or that kustomize builds.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Manifests {
    #[command(flatten)]
    pub of_files: ManifestFiles,
    /// Folder of a kustomization, which `kubectl kustomize` builds; may be given more than once
    #[arg(short = 'k', long = "kustomize", value_name = "FOLDER")]
    pub kustomizations: Vec<PathBuf>,
}

/// Several errors, which are printed one a line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct ErrorList(pub Vec<String>);

/// All values, or all errors.
pub fn all<T, E: fmt::Display>(results: impl IntoIterator<Item = Result<T, E>>) -> anyhow::Result<Vec<T>> {
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(problem) => problems.push(problem.to_string()),
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(ErrorList(problems).into()) }
}

impl ManifestFiles {
    /// They are read once. The error is all problems.
    pub fn read(&self) -> anyhow::Result<Vec<Manifest>> {
        if let Some(read) = self.read.get() {
            return Ok(read.clone());
        }
        let read = all(self.read_all())?;
        Ok(self.read.get_or_init(|| read).clone())
    }

    fn read_all(&self) -> Vec<Result<Manifest, ManifestError>> {
        ReadOptions::manifests(self.recursive).read_all(&self.files, &mut io::stdin().lock())
    }
}

impl Manifests {
    pub fn is_given(&self) -> bool {
        !self.of_files.files.is_empty() || !self.kustomizations.is_empty()
    }

    /// An error if files are given and hold no objects; `verb` says what they were wanted for.
    pub fn require_objects<T>(&self, found: &[T], verb: &str) -> anyhow::Result<()> {
        if self.is_given() && found.is_empty() {
            bail!("nothing to {verb}: the files hold no objects");
        }
        Ok(())
    }

    /// Those of files first, with each problem in place of what cannot be read.
    pub fn read_all(&self) -> Vec<Result<Manifest, ManifestError>> {
        let mut manifests = self.of_files.read_all();
        for folder in &self.kustomizations {
            match manifest::kustomized(folder) {
                Ok(built) => manifests.extend(built.into_iter().map(Ok)),
                Err(problem) => manifests.push(Err(problem)),
            }
        }
        manifests
    }
}
