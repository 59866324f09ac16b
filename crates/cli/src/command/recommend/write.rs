//! Recommendations written into manifests, file by file, each as a whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use headroom_objects::cluster_reader::folder::in_namespace;
use headroom_objects::manifest::Manifest;
use headroom_report::{Exit, complain, write_file};

use headroom_rightsize::edit::{self, EditError};
use headroom_rightsize::patches::RecommendedChange;
use headroom_rightsize::report::Report;

use super::left_out;

/// Edits of one file.
#[derive(Default)]
struct Edits {
    amounts: Vec<edit::Edit>,
    targets: Vec<edit::Target>,
}

/// Writes all that is not written yet, and says so on standard error. What cannot be edited leaves its file alone. The
/// namespace is that of manifests that name none.
pub fn all(manifests: &[Manifest], namespace: &str, report: &Report) -> anyhow::Result<Exit> {
    let changes = report.changes();
    let mut files: BTreeMap<PathBuf, Edits> = BTreeMap::new();
    let mut edited: Vec<&RecommendedChange> = Vec::new();
    let mut is_here = changes.is_empty();
    for manifest in manifests {
        let object = in_namespace(manifest.object.clone(), namespace);
        for change in changes.iter().filter(|change| change.is_of(&object, &manifest.origin.file)) {
            is_here = true;
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
    let left_out = if report.leaves_out_blocked() { report.blocked() } else { Vec::new() };
    let left_out: Vec<String> = left_out.iter().map(|line| format!("left out: {line}")).collect();
    left_out::tell(&left_out);
    let exit = write(files)?;
    if exit == Written::Nothing {
        complain!("nothing to write: {}", why_nothing(report, is_here || !left_out.is_empty()));
    }
    Ok(if exit == Written::Refused || !left_out.is_empty() { Exit::Refused } else { Exit::Ok })
}

/// Explains why no file was changed; `is_here` is false if the manifests have none of the workloads to change.
fn why_nothing(report: &Report, is_here: bool) -> String {
    let left_alone = report.left_alone().join("; ");
    if report.leaves_out_blocked() {
        "what differs would be blocked".to_owned()
    } else if !is_here {
        "no workload with a recommendation is in the manifests".to_owned()
    } else if report.writes_nothing() {
        left_alone
    } else if left_alone.is_empty() {
        "the manifests already have these values".to_owned()
    } else {
        format!("the manifests already have these values; {left_alone}")
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Written {
    Nothing,
    Something,
    Refused,
}

fn write(files: BTreeMap<PathBuf, Edits>) -> anyhow::Result<Written> {
    let mut outcome = Written::Nothing;
    for (file, edits) in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        match edits.made_in(&text) {
            Ok(None) => {}
            Ok(Some(edited)) => match replace(&file, &edited) {
                Ok(()) => {
                    complain!("wrote {}", file.display());
                    outcome = outcome.max(Written::Something);
                }
                Err(cause) => {
                    complain!("error: cannot write `{}`: {cause}", file.display());
                    outcome = Written::Refused;
                }
            },
            Err(refused) => {
                complain!("error: `{}` not changed: {refused}", file.display());
                outcome = Written::Refused;
            }
        }
    }
    Ok(outcome)
}

impl Edits {
    /// The text with the edits; none if it says all that already.
    fn made_in(&self, text: &str) -> Result<Option<String>, EditError> {
        let changed = edit::set_amounts(text, &self.amounts)?;
        let targeted = edit::set_targets(changed.as_deref().unwrap_or(text), &self.targets)?;
        Ok(targeted.or(changed))
    }
}

fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    // A link stays a link: the manifest that it leads to is replaced.
    let file = fs::canonicalize(file)?;
    write_file(&file, text)
}
