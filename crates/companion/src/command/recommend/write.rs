//! Advice written into the manifests that it is about, file by file, each as a whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use headroom_core::amount::Requirement;
use serde_json::Value;

use super::Asked;
use crate::edit::{self, Change, Identity};
use crate::kinds::metadata;
use crate::output::Exit;
use crate::recommend::{Advice, Workload};

/// Writes all that is not written yet, and says so on standard error; each of `asked` has its workload in the advice.
/// What cannot be edited leaves its file alone.
pub(super) fn all(asked: &[&Asked], advice: &Advice) -> anyhow::Result<Exit> {
    let mut files: BTreeMap<PathBuf, Vec<Change>> = BTreeMap::new();
    for (asked, workload) in asked.iter().zip(&advice.workloads) {
        let Some(origin) = &asked.origin else { continue };
        let of_file = files.entry(origin.file.clone()).or_default();
        for change in changes(&asked.object, workload) {
            // A file may be named twice.
            if !of_file.contains(&change) {
                of_file.push(change);
            }
        }
    }
    files_with(files)
}

/// Makes changes in files, and says so on standard error.
pub(in crate::command) fn files_with(files: BTreeMap<PathBuf, Vec<Change>>) -> anyhow::Result<Exit> {
    let mut exit = Exit::Fine;
    let mut written = 0;
    for (file, changes) in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        match edit::set_amounts(&text, &changes) {
            Ok(None) => {}
            Ok(Some(edited)) => {
                replace(&file, &edited).with_context(|| format!("cannot write `{}`", file.display()))?;
                eprintln!("wrote {}", file.display());
                written += 1;
            }
            Err(refused) => {
                eprintln!("error: `{}` is left as it is: {refused}", file.display());
                exit = Exit::Refused;
            }
        }
    }
    if written == 0 && exit == Exit::Fine {
        eprintln!("nothing to write: the manifests say it already");
    }
    Ok(exit)
}

fn changes(object: &Value, workload: &Workload) -> Vec<Change> {
    let text = |field| Some(metadata(object, field)).filter(|text| !text.is_empty()).map(str::to_owned);
    let object =
        Identity { kind: workload.kind.clone(), namespace: text("namespace"), name: text("name").unwrap_or_default() };
    let change = |(container, amounts): (&str, Vec<(&'static str, String)>)| Change {
        requirement: Requirement::Request,
        object: object.clone(),
        path: workload.path.clone(),
        container: container.to_owned(),
        amounts,
    };
    let wanted = workload.containers.iter().map(|container| (container.name.as_str(), container.to_write()));
    wanted.filter(|(_, requests)| !requests.is_empty()).map(change).collect()
}

/// Renamed when whole, so that nobody meets half a file.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    // A link stays a link: what it leads to is replaced.
    let file = fs::canonicalize(file)?;
    let unfinished = file.with_extension("headroom-unfinished");
    fs::write(&unfinished, text)?;
    fs::set_permissions(&unfinished, fs::metadata(&file)?.permissions())?;
    fs::rename(&unfinished, &file)
}
