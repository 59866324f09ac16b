//! Recommendations written into manifests, file by file, each as a whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use headroom_dryrun::cluster_reader::folder::in_namespace;
use headroom_dryrun::manifest::Manifest;
use headroom_report::Exit;
use headroom_report::complain;

use headroom_rightsize::edit::{self, EditError};
use headroom_rightsize::patches::RecommendedChange;

/// What is to be edited in a file.
#[derive(Default)]
struct Edits {
    amounts: Vec<edit::Edit>,
    targets: Vec<edit::Target>,
}

/// Writes all that is not written yet, and says so on standard error. What cannot be edited leaves its file alone. The
/// namespace is that of manifests that name none.
pub fn all(manifests: &[Manifest], namespace: &str, changes: &[RecommendedChange]) -> anyhow::Result<Exit> {
    let mut files: BTreeMap<PathBuf, Edits> = BTreeMap::new();
    let mut edited: Vec<&RecommendedChange> = Vec::new();
    for manifest in manifests {
        let object = in_namespace(manifest.object.clone(), namespace);
        for change in changes.iter().filter(|change| change.is_of(&object, &manifest.origin.file)) {
            let edits = change.edits(&manifest.object);
            if !edits.is_empty() {
                edited.push(change);
            }
            let of_file = &mut files.entry(manifest.origin.file.clone()).or_default().amounts;
            // A file may be named twice.
            edits.into_iter().for_each(|edit| add(of_file, edit));
        }
    }
    // Only an autoscaler whose workload is changed is changed, too.
    for change in edited {
        let mut names: Vec<&str> = change.autoscalers.iter().map(|scaled| scaled.name.as_str()).collect();
        for manifest in manifests {
            let object = in_namespace(manifest.object.clone(), namespace);
            let targets = change.targets(&object, &manifest.object);
            names.retain(|name| !targets.iter().any(|target| target.object.name == *name));
            let of_file = &mut files.entry(manifest.origin.file.clone()).or_default().targets;
            targets.into_iter().for_each(|target| add(of_file, target));
        }
        let missing = change.autoscalers.iter().filter(|scaled| names.contains(&scaled.name.as_str()));
        missing.for_each(|scaled| complain!("warning: not in the manifests: {scaled}"));
    }
    write(files)
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn write(files: BTreeMap<PathBuf, Edits>) -> anyhow::Result<Exit> {
    let mut exit = Exit::Fine;
    let mut written = 0;
    for (file, edits) in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        match edits.made_in(&text) {
            Ok(None) => {}
            Ok(Some(edited)) => {
                replace(&file, &edited).with_context(|| format!("cannot write `{}`", file.display()))?;
                complain!("wrote {}", file.display());
                written += 1;
            }
            Err(refused) => {
                complain!("error: `{}` not changed: {refused}", file.display());
                exit = Exit::Refused;
            }
        }
    }
    if written == 0 && exit == Exit::Fine {
        complain!("nothing to write: the manifests already have these values");
    }
    Ok(exit)
}

impl Edits {
    /// The text with the edits; none if it says all that already.
    fn made_in(&self, text: &str) -> Result<Option<String>, EditError> {
        let changed = edit::set_amounts(text, &self.amounts)?;
        let targeted = edit::set_targets(changed.as_deref().unwrap_or(text), &self.targets)?;
        Ok(targeted.or(changed))
    }
}

/// Written whole and then renamed, so that no reader sees half a file.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    // A link stays a link: what it leads to is replaced.
    let file = fs::canonicalize(file)?;
    let unfinished = file.with_extension("headroom-unfinished");
    fs::write(&unfinished, text)?;
    fs::set_permissions(&unfinished, fs::metadata(&file)?.permissions())?;
    fs::rename(&unfinished, &file)
}
