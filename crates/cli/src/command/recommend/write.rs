//! Recommendations written into manifests, file by file, each as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use headroom_objects::cluster_reader::folder::in_namespace;
use headroom_objects::manifest::Manifest;
use headroom_output::{Exit, LONGEST_TEXT, complain, read_bounded, write_file};

use headroom_objects::kinds::{ApiKind, items};
use headroom_recommend::engine::declined::{self, Declined};
use headroom_recommend::report::Recommendations;
use headroom_recommend::write::edit::{self, EditError};
use headroom_recommend::write::patches::RecommendedChange;
use headroom_workloads::inventory::WorkloadEntry;
use headroom_workloads::kinds;
use serde_json::Value;

use super::arguments::Args;
use super::warn_of_left_out;
use crate::command::manifests::{KUSTOMIZATIONS, LONGEST_MANIFEST, ManifestFiles, ReadOptions};

/// An object of a file, in its namespace.
struct Placed<'m> {
    manifest: &'m Manifest,
    object: Value,
    is_patch: bool,
}

impl<'m> Placed<'m> {
    fn of(manifest: &'m Manifest, namespace: &str) -> Self {
        let object = in_namespace(manifest.object.clone(), namespace);
        let is_patch = kinds::of_api(&ApiKind::of(&object)).is_some() && WorkloadEntry::of_cluster(&object).is_patch();
        Self { manifest, object, is_patch }
    }
}

#[derive(Default)]
struct Edits {
    amounts: Vec<edit::Edit>,
    targets: Vec<edit::TargetEdit>,
}

pub fn declined() -> anyhow::Result<Declined> {
    match read_bounded(Path::new(declined::FILE), LONGEST_TEXT) {
        Ok(text) => Declined::read(&text).map_err(|problem| anyhow!(problem)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(Declined::default()),
        Err(cause) => Err(cause).context(format!("cannot read `{}`", declined::FILE)),
    }
}

/// True for the values of a chart, which are no manifest.
fn is_chart(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("values") && (name.ends_with(".yaml") || name.ends_with(".yml"))
}

/// Writes all that is not written yet, and says so on standard error. What cannot be edited leaves its file alone. The
/// namespace is that of manifests that name none.
pub fn all(args: &Args, paths: &[PathBuf], namespace: &str, report: &Recommendations) -> anyhow::Result<Exit> {
    let (charts, paths): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| is_chart(path));
    let ManifestFiles { files: named, recursive, .. } = &args.manifests;
    let manifests = match paths.as_slice() {
        [] if !charts.is_empty() => Vec::new(),
        [] => args.manifests.read()?,
        paths => ReadOptions::manifests(*recursive).read(paths, &mut io::empty())?,
    };
    let changes = report.changes();
    let mut files: BTreeMap<PathBuf, Edits> = BTreeMap::new();
    let mut edited = vec![false; changes.len()];
    let mut is_here = changes.is_empty();
    let objects: Vec<Placed<'_>> = manifests.iter().map(|manifest| Placed::of(manifest, namespace)).collect();
    for (change, is_edited) in changes.iter().zip(&mut edited) {
        let is_it = |of: &&Placed<'_>| change.is_of(&of.object, &of.manifest.origin.file, of.is_patch);
        let (patches, whole): (Vec<_>, Vec<_>) = objects.iter().filter(is_it).partition(|of| of.is_patch);
        is_here |= !(patches.is_empty() && whole.is_empty());
        for of in patches.iter().chain(&whole) {
            let manifest = &of.manifest.object;
            // An amount that a patch sets is changed only in the patch, because its base may have other patches. The patch gets no
            // further amounts, unless its base is not among these files.
            let edits = change.edits(manifest, |container, requirement, name| match of.is_patch {
                true => whole.is_empty() || change.sets(manifest, container, requirement, name),
                false => !patches.iter().any(|patch| change.sets(&patch.manifest.object, container, requirement, name)),
            });
            *is_edited |= !edits.is_empty();
            let of_file = &mut files.entry(of.manifest.origin.file.clone()).or_default().amounts;
            // A file may be named twice.
            edits.into_iter().for_each(|edit| add(of_file, edit));
        }
    }
    for chart in &charts {
        let text =
            read_bounded(chart, LONGEST_MANIFEST).with_context(|| format!("cannot read `{}`", chart.display()))?;
        let values: Value =
            serde_saphyr::from_str(&text).with_context(|| format!("`{}` is no YAML", chart.display()))?;
        for (change, is_edited) in changes.iter().zip(&mut edited) {
            let of_file = &mut files.entry(chart.clone()).or_default().amounts;
            for edit in change.edits_of_values(&values, &args.values_path) {
                (is_here, *is_edited) = (true, true);
                if of_file.iter().any(|other| (&other.place, other.requirement) == (&edit.place, edit.requirement)) {
                    bail!(
                        "two containers would have their values at `{}` of `{}`: choose --values-path with {{name}} and \
                         {{container}} in it, or name one object",
                        edit.place,
                        chart.display()
                    );
                }
                of_file.push(edit);
            }
        }
    }
    // Only an autoscaler whose workload is changed is changed, too.
    for (change, _) in changes.iter().zip(edited).filter(|(_, is_edited)| *is_edited) {
        let mut names: Vec<&str> = change.workload.autoscalers.iter().map(|scaled| scaled.name.as_str()).collect();
        for Placed { manifest, object, .. } in &objects {
            let targets = change.targets(object, &manifest.object);
            names.retain(|name| !targets.iter().any(|target| target.object.name == *name));
            let of_file = &mut files.entry(manifest.origin.file.clone()).or_default().targets;
            targets.into_iter().for_each(|target| add(of_file, target));
        }
        let missing = change.workload.autoscalers.iter().filter(|scaled| names.contains(&scaled.name.as_str()));
        missing.for_each(|scaled| complain!("warning: not in the manifests: {scaled}"));
    }
    let paths = if paths.is_empty() { named } else { &paths };
    let by_hand = operations_on(&changes, paths, *recursive);
    by_hand.iter().for_each(|line| complain!("warning: {line}"));
    let left_out = report.left_out();
    warn_of_left_out(&left_out);
    report.beside_changes().iter().for_each(|line| complain!("note: {line}"));
    let exit = write(files)?;
    if exit == WriteOutcome::Nothing {
        complain!("nothing to write: {}", why_nothing(report, is_here || !left_out.is_empty()));
    }
    Ok(if exit == WriteOutcome::Refused || !left_out.is_empty() || !by_hand.is_empty() {
        Exit::Refused
    } else {
        Exit::Ok
    })
}

/// Explains why no file was changed; `is_here` is false if the manifests have none of the workloads to change.
fn why_nothing(report: &Recommendations, is_here: bool) -> String {
    let left_alone = report.left_alone().join("; ");
    if report.leaves_out_blocked() {
        "what differs would be blocked".to_owned()
    } else if !is_here {
        "no workload with a recommendation is in the manifests".to_owned()
    } else if report.containers().all(|(_, container)| container.is_without_advice() || container.is_too_brief()) {
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
enum WriteOutcome {
    Nothing,
    Something,
    Refused,
}

fn write(files: BTreeMap<PathBuf, Edits>) -> anyhow::Result<WriteOutcome> {
    let mut outcome = WriteOutcome::Nothing;
    for (file, edits) in files {
        let text =
            read_bounded(&file, LONGEST_MANIFEST).with_context(|| format!("cannot read `{}`", file.display()))?;
        match edits.made_in(&text) {
            Ok(None) => {}
            Ok(Some(edited)) => match replace(&file, &edited) {
                Ok(()) => {
                    complain!("wrote {}", file.display());
                    outcome = outcome.max(WriteOutcome::Something);
                }
                Err(cause) => {
                    complain!("error: cannot write `{}`: {cause}", file.display());
                    outcome = WriteOutcome::Refused;
                }
            },
            Err(refused) => {
                complain!("error: `{}` not changed: {refused}", file.display());
                outcome = WriteOutcome::Refused;
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

/// Replaces a manifest. A link stays a link: the file that it leads to is replaced, if it is in the same checkout (without
/// Git: in the folder of the first link). Whoever may add a link to a repository must not choose what is written elsewhere.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (file, checkout) = (fs::canonicalize(path)?, checkout_of(path)?);
    if !file.starts_with(&checkout) {
        let (file, checkout) = (file.display(), checkout.display());
        return Err(io::Error::other(format!("it links to `{file}`, outside `{checkout}`; give that file to --write")));
    }
    write_file(&file, text)
}

/// The checkout of a path as it is given: none to which a link in it leads.
fn checkout_of(path: &Path) -> io::Result<PathBuf> {
    let is_checkout = |folder: &Path| folder.join(".git").exists();
    let mut folder = if path.is_absolute() { PathBuf::new() } else { std::env::current_dir()? };
    let mut checkout = folder.ancestors().find(|folder| is_checkout(folder)).map(Path::to_owned);
    for part in path.parent().unwrap_or(Path::new("")).components() {
        let next = folder.join(part);
        // Links above the checkout, such as of the folder for temporary files, are the system's.
        if next.is_symlink() && (checkout.is_some() || !path.is_absolute()) {
            break;
        }
        folder = next;
        if is_checkout(&folder) {
            checkout = Some(folder.clone());
        }
    }
    fs::canonicalize(checkout.unwrap_or(folder))
}

/// A guard, as folders within folders are no deeper.
const DEEPEST: u32 = 32;

/// A line for each kustomization of these files and folders that sets resources of a changed workload by operations, which stand
/// above all that is written.
fn operations_on(changes: &[RecommendedChange<'_>], paths: &[PathBuf], is_recursive: bool) -> Vec<String> {
    let mut folders = BTreeSet::new();
    paths.iter().for_each(|path| add_folders(path, if is_recursive { DEEPEST } else { 0 }, &mut folders));
    let files = folders.iter().flat_map(|folder| KUSTOMIZATIONS.map(|name| folder.join(name)));
    let mut lines = Vec::new();
    for file in files {
        // OK because one that cannot be read is built by nobody.
        let Some(kustomization) = read_kustomization(&file) else { continue };
        for patch in items(&kustomization, "/patches").chain(items(&kustomization, "/patchesJson6902")) {
            let text = |field: &str| patch.get(field).and_then(Value::as_str);
            let operations = match (text("patch"), text("path")) {
                (Some(inline), _) => serde_saphyr::from_str(inline).ok(),
                (None, Some(path)) => file.parent().and_then(|folder| read_kustomization(&folder.join(path))),
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
fn read_kustomization(path: &Path) -> Option<Value> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    serde_saphyr::from_str(&read_bounded(path, LONGEST_MANIFEST).ok()?).ok()
}
