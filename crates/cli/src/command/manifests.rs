//! Manifests as they are typed: `-f`, `-k` and `-R`, as kubectl has them.

use std::io;
use std::path::PathBuf;

use headroom_dryrun::manifest::Manifest;

use crate::manifest::{self, ManifestError};

#[derive(Debug, Clone, Default, clap::Args)]
pub struct Manifests {
    /// Files, folders, or `-` for standard input; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1.., value_delimiter = ',')]
    pub files: Vec<PathBuf>,
    /// Folder of a kustomization, which `kubectl kustomize` builds; may be given more than once
    #[arg(short = 'k', long = "kustomize", value_name = "FOLDER")]
    pub kustomizations: Vec<PathBuf>,
    /// Read folders within folders too
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

impl Manifests {
    pub fn is_given(&self) -> bool {
        !self.files.is_empty() || !self.kustomizations.is_empty()
    }

    /// Those of files first. The error is the first problem.
    pub fn read(&self) -> Result<Vec<Manifest>, ManifestError> {
        self.read_all().into_iter().collect()
    }

    /// The same, with each problem in place of what cannot be read.
    pub fn read_all(&self) -> Vec<Result<Manifest, ManifestError>> {
        let mut manifests = manifest::read_all(&self.files, self.recursive, &mut io::stdin().lock());
        for folder in &self.kustomizations {
            match manifest::kustomized(folder) {
                Ok(built) => manifests.extend(built.into_iter().map(Ok)),
                Err(problem) => manifests.push(Err(problem)),
            }
        }
        manifests
    }
}
