//! The workloads that are asked about: everything that runs in some namespaces, a few by name, or those of manifests.

use anyhow::{anyhow, bail};
use headroom_objects::cluster_reader::folder::in_namespace;
use headroom_objects::cluster_reader::{ClusterReader as _, CompressedObject, ReadError};
use headroom_objects::kinds::{ApiKind, labels_of};
use headroom_output::progress::Progress;
use headroom_recommend::advice::template::merge_resources;
use headroom_workloads::inventory::{Inventory, WorkloadEntry};
use headroom_workloads::kinds::{self, POD, comes_and_goes};
use headroom_workloads::owner::{Owner, WorkloadRef};
use serde_json::Value;

use super::arguments::Args;
use crate::command::cluster_args::{Opened, advised, elsewhere, find, is_kind, named, one_by_one};

/// Rules and autoscalers that every evaluation reads.
const RULES: [(&str, &str); 3] =
    [("v1", "LimitRange"), ("v1", "ResourceQuota"), ("autoscaling/v2", "HorizontalPodAutoscaler")];

/// Kinds that say more of the workloads beside them.
const READ: [&str; 4] = ["HorizontalPodAutoscaler", "ConfigMap", "PriorityClass", "Service"];

pub fn read(args: &Args, opened: &mut Opened, progress: &Progress) -> anyhow::Result<Inventory> {
    let mut inventory = if args.is_of_files() {
        of_files(args, opened)?
    } else {
        opened.prefetch(&RULES, progress);
        let mut inventory = of_scope(args, opened)?;
        if !args.objects.is_empty() {
            keep_named(args, opened, &mut inventory)?;
        }
        inventory
    };
    select(args, &mut inventory)?;
    if inventory.entries.is_empty() && args.is_of_files() {
        bail!("no workloads found in the manifests");
    }
    if inventory.entries.is_empty() && opened.scope.is_all() {
        bail!("no workloads found in any namespace");
    }
    if inventory.entries.is_empty() {
        let advice = elsewhere(&opened.scope, &mut opened.cluster);
        let advice = advice.unwrap_or_else(|| "choose another namespace with -n, or all with -A".to_owned());
        bail!("no workloads found in {}: {advice}", opened.scope);
    }
    inventory.renumber();
    Ok(inventory)
}

fn select(args: &Args, inventory: &mut Inventory) -> anyhow::Result<()> {
    let Some(selector) = args.selector.as_ref().filter(|_| !inventory.entries.is_empty()) else { return Ok(()) };
    let asked = inventory.entries.iter().filter(|entry| !inventory.peers.contains(&entry.key));
    let wanted = asked.filter(|entry| selector.matches(&labels_of(&entry.object.value()))).cloned().collect();
    inventory.keep(wanted);
    if inventory.entries.is_empty() {
        bail!(
            "no workload here has the labels that --selector asks for: `kubectl get deployments --show-labels` lists labels"
        );
    }
    Ok(())
}

fn of_scope(args: &Args, opened: &mut Opened) -> anyhow::Result<Inventory> {
    let advised = |problem| advised(problem, args.target.all_namespaces);
    let (cluster, parts) = (&mut opened.cluster, opened.scope.parts());
    let mut inventory = Inventory::read(cluster, &parts, advised).map_err(|problem| anyhow!(problem))?;
    let missing = |error: ReadError| advised(error.context("pods that are blocked now may be missing"));
    match inventory.read_events(cluster, &parts, missing) {
        Ok(false) => {}
        Ok(true) => inventory.notes.push(
            "more Events than are read tell of rejected pods, so workloads that are blocked now may be missing"
                .to_owned(),
        ),
        Err(problem) => inventory.notes.push(problem),
    }
    Ok(inventory)
}

/// Keeps the workloads that were named. A pod or a ReplicaSet of a workload is read by itself.
fn keep_named(args: &Args, opened: &mut Opened, inventory: &mut Inventory) -> anyhow::Result<()> {
    if args.target.all_namespaces {
        bail!("names are not supported with -A: leave them out, or choose a namespace with -n");
    }
    args.target.check_single()?;
    // A kind may be one that is not known here.
    let is_kind =
        |word: &str| is_kind(word) || inventory.entries.iter().any(|entry| entry.key.kind.eq_ignore_ascii_case(word));
    let mut wanted = Vec::new();
    for text in &one_by_one(&args.objects, is_kind) {
        let is_it = |entry: &&WorkloadEntry| entry.key.to_string() == text.to_lowercase();
        if let Some(entry) = inventory.entries.iter().find(is_it) {
            wanted.push(entry.clone());
            continue;
        }
        let (kind, name) = named(text)?;
        if kinds::of_api(&kind).is_none() {
            bail!("`{text}` has no containers: expected for example `deployment/web` or `pod/db-0`");
        }
        let key = WorkloadRef::new(&opened.namespace, &kind.kind, &name);
        match inventory.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => wanted.push(entry.clone()),
            None => {
                let object = find(&mut opened.cluster, &kind, &name, &opened.namespace)?;
                wanted.push(WorkloadEntry::of_cluster(&object));
            }
        }
    }
    inventory.keep(wanted);
    Ok(())
}

fn of_files(args: &Args, opened: &mut Opened) -> anyhow::Result<Inventory> {
    let (mut inventory, mut patches) = (Inventory::default(), Vec::new());
    for manifest in args.manifests.read()? {
        let kind = ApiKind::of(&manifest.object);
        let object = in_namespace(manifest.object, &opened.namespace);
        // The manifests' own count, whatever the cluster has.
        if READ.contains(&kind.kind.as_str()) {
            opened.cluster.put(object).map_err(|malformed| anyhow!("{}: {malformed}", manifest.origin))?;
        } else if kind.kind == "ScaledObject" {
            inventory.autoscalers.add(&object);
        } else if kinds::of_api(&kind).is_some() {
            let entry = WorkloadEntry::of_cluster(&object);
            if entry.is_patch() {
                patches.push(WorkloadEntry { origin: Some(manifest.origin), ..entry });
                continue;
            }
            // If the cluster cannot tell, the quotas have to bear the worst.
            let exists = matches!(of_cluster(opened, &entry), Ok(Some(_)));
            inventory.entries.push(WorkloadEntry { origin: Some(manifest.origin), exists, ..entry });
        }
    }
    merge_patches(&mut inventory.entries, &patches)?;
    for patch in patches {
        if inventory.entries.iter().any(|entry| entry.key == patch.key) {
            continue;
        }
        match of_cluster(opened, &patch) {
            Ok(Some(object)) => inventory.entries.push(WorkloadEntry::of_cluster(&object)),
            _ => {
                let place = patch.origin.map(|origin| format!("{origin}: ")).unwrap_or_default();
                bail!("{place}{} has no images, as a patch: give the object that it patches too", patch.key)
            }
        }
    }
    for namespace in inventory.namespaces() {
        let advised = |problem| advised(problem, false);
        inventory.add_autoscalers(&mut opened.cluster, Some(&namespace), advised);
    }
    Ok(inventory)
}

/// Puts the requests and limits of a patch over those of the workload that it patches. Several patches of one workload are of
/// several overlays, of which nobody knows which is applied.
fn merge_patches(entries: &mut [WorkloadEntry], patches: &[WorkloadEntry]) -> anyhow::Result<()> {
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

fn of_cluster(opened: &mut Opened, entry: &WorkloadEntry) -> Result<Option<Value>, ReadError> {
    let WorkloadRef { namespace, kind, name } = &entry.key;
    opened.cluster.get((&entry.api_version, kind, Some(namespace)), name)
}

/// Prepares for a source that knows pods: manifests are joined with the workloads and pods of the cluster, and what only
/// belongs to a workload has no usage of its own.
pub fn check_readable(args: &Args, opened: &mut Opened, inventory: &mut Inventory) -> anyhow::Result<()> {
    if args.is_of_files() {
        let namespaces = inventory.namespaces();
        let parts: Vec<Option<&str>> = namespaces.iter().map(|namespace| Some(namespace.as_str())).collect();
        let advised = |problem| advised(problem, false);
        let live = Inventory::read(&mut opened.cluster, &parts, advised).map_err(|problem| anyhow!(problem))?;
        for entry in &mut inventory.entries {
            if let Some(live) = live.entries.iter().find(|live| live.key == entry.key) {
                entry.running = live.running.clone();
                entry.managed_by.clone_from(&live.managed_by);
                entry.newest.clone_from(&live.newest);
            }
        }
        inventory.pods.owners = live.pods.owners;
        inventory.add_autoscalers_of_owners();
    }
    let owned = inventory.entries.iter().find(|entry| {
        let kind = entry.key.kind.as_str();
        let is_counted_above = entry.through.is_none() && (kind == POD.kind || comes_and_goes(kind));
        is_counted_above && Owner::of(&entry.object.value()).is_some_and(|owner| owner.is_read())
    });
    match owned {
        Some(owned) => bail!("{} belongs to a workload, and usage is kept by workload: name its controller", owned.key),
        None => Ok(()),
    }
}
