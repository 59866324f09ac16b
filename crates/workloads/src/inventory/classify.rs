//! Decides which of the objects that were read are workloads of their own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::{Inventory, RunningPods, WorkloadEntry};
use crate::kinds::{self, JOB, POD_KINDS, comes_and_goes};
use crate::owner::{MAX_CHAIN, Owner, Owners, PodOwners, WorkloadRef};
use crate::running;
use headroom_objects::cluster_reader::{ClusterReader, CompressedObject, without_bookkeeping};
use headroom_objects::kinds::{metadata, number};

/// Collects objects, and decides in the end which are workloads.
#[derive(Default)]
pub struct Classifier {
    owners: Owners,
    entries: BTreeMap<WorkloadRef, WorkloadEntry>,
    /// The newest object that each owner of an unknown kind made, with its time: it may stand for its owner.
    made: BTreeMap<WorkloadRef, (String, WorkloadEntry)>,
    /// By what made the pods; one that nobody made stands for itself.
    running: HashMap<WorkloadRef, RunningPods>,
    /// The newest pod of each object that makes some, with its time.
    newest: BTreeMap<WorkloadRef, (String, CompressedObject)>,
    ended: u64,
    scaled_to_zero: u64,
}

impl Classifier {
    pub fn add_template(&mut self, object: Value) {
        let (key, owner) = (WorkloadRef::of(&object), Owner::of(&object));
        if let Some(owner) = &owner {
            self.owners.add(&key, &owner.kind, &owner.name);
        }
        let (is_made, is_scaled) = (comes_and_goes(&key.kind), number(&object, "/spec/replicas") != Some(0));
        match owner.clone().filter(|owner| is_made && owner.counts()) {
            // Its maker is read, or will be.
            Some(owner) if owner.is_read() => {
                if key.kind == JOB.kind {
                    let running = self.running.entry(owner.within(&key.namespace)).or_default();
                    running.add(RunningPods::of_job(&object));
                }
            }
            _ if is_made && has_ended(&object) => self.ended += 1,
            Some(owner) if is_scaled => self.add_made(owner, object),
            // A Rollout's older ReplicaSets are scaled to 0.
            Some(_) => {}
            None => {
                self.scaled_to_zero += u64::from(!is_scaled);
                self.add(key, owner.filter(|owner| owner.kind != "Node"), object);
            }
        }
    }

    fn add(&mut self, key: WorkloadRef, managed_by: Option<Owner>, mut object: Value) {
        without_bookkeeping(&mut object);
        self.entries.insert(key, WorkloadEntry { managed_by, ..WorkloadEntry::of_cluster(&object) });
    }

    fn add_made(&mut self, owner: Owner, mut object: Value) {
        without_bookkeeping(&mut object);
        let of_object = WorkloadEntry::of_cluster(&object);
        let key = owner.within(&of_object.key.namespace);
        let time = metadata(&object, "creationTimestamp");
        if self.made.get(&key).is_none_or(|(of_newest, _)| time > of_newest.as_str()) {
            let through = Some(of_object.key.to_string());
            let entry = WorkloadEntry { key: key.clone(), api_version: owner.api_version, through, ..of_object };
            self.made.insert(key, (time.to_owned(), entry));
        }
    }

    pub fn add_pod(&mut self, object: Value) {
        let key = WorkloadRef::of(&object);
        let owner = Owner::of(&object).filter(|owner| owner.kind != "Node");
        let counted = owner.clone().filter(Owner::counts);
        if let Some(owner) = &counted {
            self.owners.add(&key, &owner.kind, &owner.name);
        }
        if has_ended(&object) {
            self.ended += u64::from(counted.is_none());
            return;
        }
        let maker = counted.as_ref().map(|owner| owner.within(&key.namespace));
        self.running.entry(maker.clone().unwrap_or_else(|| key.clone())).or_default().add(RunningPods::of_pod(&object));
        let time = metadata(&object, "creationTimestamp");
        if let Some(maker) = maker
            && self.newest.get(&maker).is_none_or(|(of_newest, _)| time > of_newest.as_str())
        {
            // Nothing but what a pod runs is asked for.
            let spec = json!({"spec": object.get("spec")});
            self.newest.insert(maker, (time.to_owned(), CompressedObject::from(&spec)));
        }
        match counted {
            Some(owner) if owner.is_read() => {}
            Some(owner) => self.add_made(owner, object),
            None => self.add(key, owner, object),
        }
    }

    /// Lists the workloads with their running pods. An owner that was not read is listed by what it made.
    pub fn finish(mut self, cluster: &mut dyn ClusterReader) -> Inventory {
        for (key, (_, entry)) in self.made {
            self.entries.entry(key).or_insert(entry);
        }
        let mut entries: Vec<WorkloadEntry> = self.entries.into_values().collect();
        let rank = |entry: &WorkloadEntry| {
            let known = kinds::makers().position(|kind| kind.kind == entry.key.kind);
            (entry.key.namespace.clone(), known.unwrap_or(POD_KINDS.len()), entry.key.clone())
        };
        entries.sort_by_cached_key(rank);
        let mut top_owners = TopOwners::default();
        for entry in &mut entries {
            entry.managed_by = top_owners.above(entry, cluster);
        }
        let ended = counted_note(self.ended, "finished pod or Job skipped", "finished pods or Jobs skipped");
        let scaled_to_zero = counted_note(
            self.scaled_to_zero,
            "workload is scaled to 0; its recommendation saves nothing until it runs",
            "workloads are scaled to 0; their recommendations save nothing until they run",
        );
        let notes = top_owners.notes().into_iter().chain([ended, scaled_to_zero].into_iter().flatten()).collect();
        let pods = PodOwners { owners: self.owners, ..PodOwners::default() };
        let mut inventory = Inventory { entries, pods, notes, ..Inventory::default() };
        inventory.renumber();
        for (maker, running) in self.running {
            if let Some(entry) = inventory.entry_of(maker) {
                entry.running.add(running);
            }
        }
        let mut newest: Vec<_> = self.newest.into_iter().collect();
        // A workload may have several makers, as a Deployment has ReplicaSets: its newest pod is set last.
        newest.sort_by(|(_, (time, _)), (_, (other, _))| time.cmp(other));
        for (maker, (_, pod)) in newest {
            if let Some(entry) = inventory.entry_of(maker) {
                entry.newest = Some(pod);
            }
        }
        inventory
    }
}

fn counted_note(count: u64, one: &str, several: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { several }))
}

/// A pod or a job that will never ask for anything again.
fn has_ended(object: &Value) -> bool {
    running::has_ended(object) || object.pointer("/status/completionTime").is_some()
}

/// The most problems with owners that are told: whoever creates a pod may name any number of owners.
const MOST_PROBLEMS: usize = 20;

/// The tops of the chains of owners; each object above a workload is read once.
#[derive(Default)]
struct TopOwners {
    /// By API version, and kind and name in a namespace.
    above: HashMap<(String, WorkloadRef), Option<Owner>>,
    /// Kinds that cannot be read, by API version, each in one namespace: an owner that somebody made up hides no other namespace's.
    refused: BTreeSet<(String, WorkloadRef)>,
    problems: Vec<String>,
}

impl TopOwners {
    /// The object that manages a workload from the top of its chain of owners.
    fn above(&mut self, entry: &WorkloadEntry, cluster: &mut dyn ClusterReader) -> Option<Owner> {
        let mut top = match entry.through {
            // The workload itself is the owner of what was read. A patch changes it, so it is asked for whatever was refused.
            Some(_) => self.next((entry.api_version.clone(), entry.key.clone()), cluster),
            None => entry.managed_by.clone(),
        }?;
        for _ in 0..MAX_CHAIN {
            let object = (top.api_version.clone(), top.within(&entry.key.namespace));
            if self.refused.contains(&kind_of(&object)) {
                break;
            }
            let Some(next) = self.next(object, cluster) else { break };
            top = next;
        }
        Some(top)
    }

    fn next(&mut self, object: (String, WorkloadRef), cluster: &mut dyn ClusterReader) -> Option<Owner> {
        if let Some(known) = self.above.get(&object) {
            return known.clone();
        }
        let (api_version, key) = &object;
        let read = cluster.get((api_version, &key.kind, Some(&key.namespace)), &key.name);
        let next = read.unwrap_or_else(|error| {
            if self.refused.insert(kind_of(&object)) && !error.is_unknown_kind() {
                self.problems.push(format!("owners of {key} are not known: {error}"));
            }
            None
        });
        let next = next.and_then(|object| Owner::of(&object));
        self.above.insert(object, next.clone());
        next
    }

    fn notes(self) -> Vec<String> {
        let mut notes = self.problems;
        let more = notes.len().saturating_sub(MOST_PROBLEMS);
        notes.truncate(MOST_PROBLEMS);
        notes.extend((more > 0).then(|| format!("owners of {more} more are not known")));
        notes
    }
}

/// The kind of an object in its namespace.
fn kind_of((api_version, key): &(String, WorkloadRef)) -> (String, WorkloadRef) {
    (api_version.clone(), WorkloadRef::new(&key.namespace, &key.kind, ""))
}
