//! Manifests as they are typed, `-f`, `-k` and `-R` as kubectl has them: read from files, folders, standard input and kustomize.
//! `headroom_objects::manifest` parses them.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{fmt, fs};

use anyhow::bail;
use headroom_admission::truncate::count_of;
use headroom_api_server::shell::quoted_path;
use headroom_objects::manifest::{Malformed, Manifest, Origin, read_each, read_text};
use headroom_output::progress::Progress;
use headroom_output::{complain, read_bounded, read_bounded_from};

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
            match kustomized(folder) {
                Ok(built) => manifests.extend(built.into_iter().map(Ok)),
                Err(problem) => manifests.push(Err(problem)),
            }
        }
        manifests
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("{}", unreadable(.path, .cause))]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("`{}` holds no manifests: expected files that end in .yaml, .yml or .json", .path.display())]
    NoManifests { path: PathBuf },
    #[error(
        "`{}` is not built: kubectl, which -k needs, is not in PATH; pipe what kustomize builds: kustomize build {} | \
         kubectl headroom … -f -",
        .folder.display(), quoted_path(.folder)
    )]
    NoKubectl { folder: PathBuf },
    #[error("`kubectl kustomize {}` failed: {said}", .folder.display())]
    Kustomize { folder: PathBuf, said: String },
    #[error("`{}` is a Helm chart: run `helm template --skip-tests {} | kubectl headroom check -f -` instead", .folder.display(), quoted_path(.folder))]
    HelmChart { folder: PathBuf },
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

pub fn unreadable(path: &Path, cause: &io::Error) -> String {
    match cause.kind() {
        ErrorKind::NotFound => format!("`{}` does not exist", path.display()),
        ErrorKind::IsADirectory => format!("`{}` is a folder, expected a file", path.display()),
        _ => format!("cannot read `{}`: {cause}", path.display()),
    }
}

impl ManifestError {
    /// The place of the problem, and the problem without it.
    pub fn with_place(self) -> (Origin, String) {
        let at = |file: &Path| Origin { file: file.to_owned(), line: 1, document: 0 };
        let problem = self.to_string();
        match self {
            Self::Malformed(Malformed { origin, problem, .. }) => (origin, problem),
            Self::Unreadable { path, .. } | Self::NoManifests { path } => (at(&path), problem),
            Self::NoKubectl { folder } | Self::Kustomize { folder, .. } | Self::HelmChart { folder } => {
                (at(&folder), problem)
            }
        }
    }
}

/// The endings of files that hold manifests, as kubectl has them.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// The file that makes a folder a Helm chart.
const CHART: &str = "Chart.yaml";
/// Instructions to kustomize, which kubectl takes for an object and stumbles over.
const KUSTOMIZATION: &str = "kustomization";
/// The names that they may have.
pub const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The longest manifest: far above what an API server stores, and far below the memory of a machine.
pub const LONGEST_MANIFEST: u64 = 64 << 20;
/// The longest file of `--cluster-dir`, which may be a snapshot of a large cluster.
const LONGEST_SNAPSHOT: u64 = 8 << 30;

/// The length of a file whose reading people notice.
const LARGE: u64 = 16 << 20;

#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    recursive: bool,
    longest: u64,
}

impl ReadOptions {
    pub fn manifests(recursive: bool) -> Self {
        Self { recursive, longest: LONGEST_MANIFEST }
    }

    pub fn cluster_dir() -> Self {
        Self { recursive: true, longest: LONGEST_SNAPSHOT }
    }

    /// Reads files, the files of folders, and standard input for `-`, in the order given; a folder's files in name order.
    /// The error is the first problem.
    pub fn read(self, paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Vec<Manifest>, ManifestError> {
        self.read_all(paths, stdin).into_iter().collect()
    }

    /// The same, with each problem in place of what cannot be read.
    pub fn read_all(self, paths: &[PathBuf], stdin: &mut dyn Read) -> Vec<Result<Manifest, ManifestError>> {
        let mut files = Vec::new();
        for path in paths {
            if !path.is_dir() {
                files.push((Ok(path.clone()), false));
                continue;
            }
            let of_folder = files_of(path, self.recursive);
            if of_folder.is_empty() {
                files.push((Err(ManifestError::NoManifests { path: path.clone() }), false));
            }
            files.extend(of_folder.into_iter().map(|file| (file, true)));
        }
        let (mut manifests, mut skipped) = (Vec::new(), Vec::new());
        let progress = Progress::for_people();
        progress.begin(files.len() as u64, "Reading files");
        for (file, skips) in files {
            // A snapshot of a large cluster takes seconds.
            let length = file.as_ref().ok().and_then(|file| Some(file.metadata().ok()?.len()));
            if length.is_some_and(|length| length > LARGE) {
                progress.wait("Reading files");
            }
            for read in file.map_or_else(|problem| vec![Err(problem)], |file| self.read_file(&file, stdin)) {
                match read {
                    Err(ManifestError::Malformed(other)) if skips && other.is_other_yaml => skipped.push(other.origin),
                    read => manifests.push(read),
                }
            }
            progress.advance(1);
        }
        progress.end();
        if let Some(first) = skipped.first() {
            let documents = count_of(skipped.len() as u64, "document");
            complain!("note: skipped {documents} without `apiVersion` and `kind`, such as {first}");
        }
        manifests
    }

    fn read_file(self, path: &Path, stdin: &mut dyn Read) -> Vec<Result<Manifest, ManifestError>> {
        let text = match path.as_os_str() == "-" {
            true => read_bounded_from(stdin, self.longest),
            false => read_bounded(path, self.longest),
        };
        match text {
            Ok(_) if path.file_name().is_some_and(|name| name == CHART) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                vec![Err(ManifestError::HelmChart { folder: folder.to_owned() })]
            }
            Ok(text) => read_each(path, &text).into_iter().map(|read| Ok(read?)).collect(),
            Err(cause) => vec![Err(ManifestError::Unreadable { path: path.to_owned(), cause })],
        }
    }
}

/// Builds a folder with kustomize. Each object's place is the kustomization, because kustomize does not name the files of objects.
fn kustomized(folder: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let failed = |said: String| ManifestError::Kustomize { folder: folder.to_owned(), said };
    let output = Command::new("kubectl").arg("kustomize").arg(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => ManifestError::NoKubectl { folder: folder.to_owned() },
        _ => failed(cause.to_string()),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // Old versions of kubectl log it: `E1125 … "command failed" err="must build at directory: …"`.
        let said = match said.rsplit_once("err=\"") {
            Some((_, error)) => error.trim().trim_end_matches('"'),
            None => said.trim().trim_start_matches("error: "),
        };
        return Err(failed(said.to_owned()));
    }
    let file = KUSTOMIZATIONS.iter().map(|name| folder.join(name)).find(|file| file.exists());
    let file = file.unwrap_or_else(|| folder.to_owned());
    let text = String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))?;
    let mut manifests = read_text(&file, &text)?;
    manifests.iter_mut().for_each(|manifest| manifest.origin.line = 1);
    Ok(manifests)
}

/// The manifests of a folder in name order, those of folders in it too if asked for. As for kubectl, a link to a folder is not
/// followed, which may lead back; and what is no file, such as a device, may never end. A Helm chart holds templates.
fn files_of(folder: &Path, recursive: bool) -> Vec<Result<PathBuf, ManifestError>> {
    if folder.join(CHART).is_file() {
        return vec![Err(ManifestError::HelmChart { folder: folder.to_owned() })];
    }
    let entries = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<PathBuf>, _>>());
    let mut paths = match entries {
        Ok(paths) => paths,
        Err(cause) => return vec![Err(ManifestError::Unreadable { path: folder.to_owned(), cause })],
    };
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        match fs::metadata(&path) {
            Ok(folder) if folder.is_dir() => {
                if recursive && !path.is_symlink() {
                    files.extend(files_of(&path, recursive));
                }
            }
            _ if !is_manifest(&path) => {}
            Ok(file) if file.is_file() => files.push(Ok(path)),
            Ok(_) => {
                files.push(Err(ManifestError::Unreadable { path, cause: io::Error::other("it is not a regular file") }))
            }
            Err(cause) => files.push(Err(ManifestError::Unreadable { path, cause })),
        }
    }
    files
}

fn is_manifest(path: &Path) -> bool {
    let is = |part: Option<&OsStr>, texts: &[&str]| {
        part.and_then(|part| part.to_str()).is_some_and(|part| texts.contains(&part))
    };
    is(path.extension(), &ENDINGS) && !is(path.file_stem(), &[KUSTOMIZATION])
}

#[cfg(test)]
mod tests;
