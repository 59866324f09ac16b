//! Finds the object at the top of an entry's owners.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::WorkloadEntry;
use crate::owner::{MAX_CHAIN, Owner, WorkloadRef};
use headroom_objects::cluster_reader::ClusterReader;

/// The tops of the chains of owners; each object above a workload is read once.
#[derive(Default)]
pub struct TopOwners {
    above: HashMap<WorkloadRef, Option<Owner>>,
    refused: BTreeSet<String>,
    /// The first thing that could not be read.
    pub problem: Option<String>,
}

impl TopOwners {
    /// The object that manages a workload from the top of its chain of owners.
    pub fn above(&mut self, entry: &WorkloadEntry, cluster: &mut dyn ClusterReader) -> Option<Owner> {
        let first = match entry.through {
            // The workload itself is the owner of what was read.
            Some(_) => self.next(&entry.api_version, &entry.key, cluster),
            None => entry.managed_by.clone(),
        };
        let mut top = first?;
        for _ in 0..MAX_CHAIN {
            match self.next(&top.api_version, &top.within(&entry.key.namespace), cluster) {
                Some(next) => top = next,
                None => break,
            }
        }
        Some(top)
    }

    fn next(&mut self, api_version: &str, key: &WorkloadRef, cluster: &mut dyn ClusterReader) -> Option<Owner> {
        if let Some(known) = self.above.get(key) {
            return known.clone();
        }
        let next = self.read(api_version, key, cluster).and_then(|object| Owner::of(&object));
        self.above.insert(key.clone(), next.clone());
        next
    }

    fn read(&mut self, api_version: &str, key: &WorkloadRef, cluster: &mut dyn ClusterReader) -> Option<Value> {
        let kind = format!("{api_version} {}", key.kind);
        if self.refused.contains(&kind) {
            return None;
        }
        match cluster.get((api_version, &key.kind, Some(&key.namespace)), &key.name) {
            Ok(object) => object,
            Err(error) => {
                self.refused.insert(kind);
                if !error.is_unknown_kind() && self.problem.is_none() {
                    self.problem = Some(format!("owners of {} are not known: {error}", key));
                }
                None
            }
        }
    }
}
