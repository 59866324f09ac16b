//! Patches of kustomizations: those that are objects without images are merged and written, and operations are named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use headroom_objects::cluster_reader::CompressedObject;
use headroom_objects::kinds::items;
use headroom_output::read_bounded;
use headroom_recommend::advice::template::merge_resources;
use headroom_recommend::write::patches::RecommendedChange;
use headroom_workloads::inventory::WorkloadEntry;
use serde_json::Value;

use crate::command::manifests::{KUSTOMIZATIONS, LONGEST_MANIFEST};

/// A guard, as folders within folders are no deeper.
const DEEPEST: u32 = 32;

/// Puts the requests and limits of a patch over those of the workload that it patches. Several patches of one workload are of
/// several overlays, of which nobody knows which is applied.
pub fn merge(entries: &mut [WorkloadEntry], patches: &[WorkloadEntry]) -> anyhow::Result<()> {
    for patch in patches {
        let other = patches.iter().find(|other| other.key == patch.key && other.origin != patch.origin);
        if let Some((one, other)) = other.and_then(|other| patch.origin.as_ref().zip(other.origin.as_ref())) {
            bail!("{one} and {other} patch {}: give the files of one overlay", patch.key);
        }
        if let Some(entry) = entries.iter_mut().find(|entry| entry.key == patch.key) {
            let mut merged = entry.object.value();
            merge_resources(&mut merged, &patch.object.value());
            entry.object = CompressedObject::from(&merged);
        }
    }
    Ok(())
}

/// A line for each kustomization of these files and folders that sets resources of a changed workload by operations, which stand
/// above all that is written.
pub fn operations_on(changes: &[RecommendedChange<'_>], paths: &[PathBuf], is_recursive: bool) -> Vec<String> {
    let mut folders = BTreeSet::new();
    paths.iter().for_each(|path| add_folders(path, if is_recursive { DEEPEST } else { 0 }, &mut folders));
    let files = folders.iter().flat_map(|folder| KUSTOMIZATIONS.map(|name| folder.join(name)));
    let mut lines = Vec::new();
    for file in files {
        // OK because one that cannot be read is built by nobody.
        let Some(kustomization) = read(&file) else { continue };
        for patch in items(&kustomization, "/patches").chain(items(&kustomization, "/patchesJson6902")) {
            let text = |field: &str| patch.get(field).and_then(Value::as_str);
            let operations = match (text("patch"), text("path")) {
                (Some(inline), _) => serde_saphyr::from_str(inline).ok(),
                (None, Some(path)) => file.parent().and_then(|folder| read(&folder.join(path))),
                (None, None) => None,
            };
            let is_of_resources =
                |of: &Value| of.get("path").and_then(Value::as_str).is_some_and(|path| path.contains("/resources"));
            let is_inline =
                |of: &Value| of.is_object() && text("patch").is_some_and(|inline| inline.contains("resources"));
            let sets =
                operations.is_some_and(|of| is_inline(&of) || of.as_array().into_iter().flatten().any(is_of_resources));
            let is_target = |change: &&RecommendedChange<'_>| {
                let is = |field: &str, name: &str| {
                    let target = patch.pointer(&format!("/target/{field}")).and_then(Value::as_str);
                    target.is_none_or(|target| target == name || target.contains(['*', '.', '|']))
                };
                is("kind", &change.workload.key.kind) && is("name", &change.workload.key.name)
            };
            let of = changes.iter().filter(is_target).filter(|_| sets);
            lines.extend(of.map(|change| {
                let place = text("path")
                    .map_or_else(|| file.display().to_string(), |path| file.with_file_name(path).display().to_string());
                format!(
                    "`{place}` patches the resources of {} and is not written: change it by hand",
                    change.workload.key
                )
            }));
        }
    }
    lines
}

/// Adds a folder, or that of a file, and those within.
fn add_folders(path: &Path, deeper: u32, folders: &mut BTreeSet<PathBuf>) {
    if !path.is_dir() {
        folders.extend(path.parent().map(Path::to_owned));
        return;
    }
    folders.insert(path.to_owned());
    let entries = fs::read_dir(path).into_iter().filter(|_| deeper > 0).flatten().flatten();
    let within = entries.filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()));
    within.for_each(|entry| add_folders(&entry.path(), deeper - 1, folders));
}

/// A kustomization may name a device or a pipe, whose reading never ends.
fn read(path: &Path) -> Option<Value> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    serde_saphyr::from_str(&read_bounded(path, LONGEST_MANIFEST).ok()?).ok()
}
