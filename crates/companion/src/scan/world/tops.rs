//! What is at the top of the owners of a workload.

use std::collections::{BTreeSet, HashMap};

use headroom_dryrun::cluster_reader::{ClusterReader, is_of_unknown_kind};
use serde_json::Value;

use super::Workload;
use crate::recommend::owner::Owner;
use crate::scan::owners::Key;

/// Longer chains do not exist but by mistake.
const LONGEST_CHAIN: usize = 8;

/// The tops of the chains of owners, each object above a workload asked for once.
#[derive(Default)]
pub struct Tops {
    above: HashMap<Key, Option<(Owner, Key)>>,
    refused: BTreeSet<String>,
    /// The first thing that could not be read.
    pub problem: Option<String>,
}

impl Tops {
    /// What manages a workload, seen from the very top.
    pub fn above(&mut self, workload: &Workload, around: &mut dyn ClusterReader) -> Option<String> {
        let first = match workload.through {
            // The workload itself is the owner of what was read.
            Some(_) => self.next(&workload.api_version, &workload.key, around),
            None => Owner::of(&workload.object).filter(|owner| owner.kind != "Node").map(|owner| {
                let key = Key::new(&workload.key.namespace, &owner.kind, &owner.name);
                (owner, key)
            }),
        };
        let (mut owner, mut key) = first?;
        for _ in 0..LONGEST_CHAIN {
            match self.next(&owner.api_version, &key, around) {
                Some(next) => (owner, key) = next,
                None => break,
            }
        }
        Some(key.told())
    }

    fn next(&mut self, api_version: &str, key: &Key, around: &mut dyn ClusterReader) -> Option<(Owner, Key)> {
        if let Some(known) = self.above.get(key) {
            return known.clone();
        }
        let next = self.read(api_version, key, around).and_then(|object| {
            let owner = Owner::of(&object)?;
            let key = Key::new(&key.namespace, &owner.kind, &owner.name);
            Some((owner, key))
        });
        self.above.insert(key.clone(), next.clone());
        next
    }

    fn read(&mut self, api_version: &str, key: &Key, around: &mut dyn ClusterReader) -> Option<Value> {
        let kind = format!("{api_version} {}", key.kind);
        if self.refused.contains(&kind) {
            return None;
        }
        match around.get(api_version, &key.kind, Some(&key.namespace), &key.name) {
            Ok(object) => object,
            Err(problem) => {
                self.refused.insert(kind);
                if !is_of_unknown_kind(&problem) && self.problem.is_none() {
                    self.problem = Some(format!("owners of {} are not known: {problem}", key.told()));
                }
                None
            }
        }
    }
}
