//! What of the objects that were read becomes a workload.

use std::collections::{BTreeMap, HashMap};

use headroom_dryrun::cluster_reader::{ClusterReader, without_bookkeeping};
use headroom_dryrun::kinds::{ApiKind, metadata};
use serde_json::Value;

use super::running::Running;
use super::tops::Tops;
use super::{TEMPLATES, Workload, World};
use crate::recommend::owner::{self, Owner};
use crate::scan::owners::{Key, Owners, Places, comes_and_goes};

/// What may become a workload when all is read.
#[derive(Default)]
pub struct Found {
    owners: Owners,
    workloads: BTreeMap<Key, Workload>,
    /// Objects that unknown kinds made, newest last: each may stand for its owner.
    made: Vec<(Owner, Value)>,
    running: HashMap<(String, String), Running>,
    ended: u64,
    scaled_to_none: u64,
}

impl Found {
    pub fn add_template(&mut self, kind: &str, mut object: Value) {
        let namespace = metadata(&object, "namespace").to_owned();
        let key = Key::new(&namespace, kind, metadata(&object, "name"));
        let owner = Owner::of(&object);
        if let Some(owner) = &owner {
            self.owners.add_owner(key.clone(), owner);
        }
        let is_made = comes_and_goes(kind);
        match owner {
            // Its maker is read, or will be.
            Some(owner) if is_made && is_known(&owner) => return,
            _ if is_made && has_ended(&object) => return self.ended += 1,
            Some(owner) if is_made => {
                if owner::is_scaled(&object) {
                    without_bookkeeping(&mut object);
                    self.made.push((owner, object));
                }
                return;
            }
            _ => {}
        }
        if !owner::is_scaled(&object) {
            self.scaled_to_none += 1;
        }
        self.add(key, object);
    }

    fn add(&mut self, key: Key, mut object: Value) {
        without_bookkeeping(&mut object);
        let api_version = ApiKind::of(&object).api_version();
        let workload = Workload {
            key: key.clone(),
            api_version,
            object,
            through: None,
            managed_by: None,
            running: Running::default(),
        };
        self.workloads.insert(key, workload);
    }

    pub fn add_pod(&mut self, mut object: Value) {
        let (namespace, name) = (metadata(&object, "namespace").to_owned(), metadata(&object, "name").to_owned());
        let key = Key::new(&namespace, "Pod", &name);
        let owner = Owner::of(&object).filter(|owner| owner.kind != "Node");
        if let Some(owner) = &owner {
            self.owners.add_owner(key.clone(), owner);
        }
        if has_ended(&object) {
            self.ended += u64::from(owner.is_none());
            return;
        }
        self.running.insert((namespace, name), Running::of_pod(&object));
        match owner {
            Some(owner) if is_known(&owner) => {}
            Some(owner) => {
                without_bookkeeping(&mut object);
                self.made.push((owner, object));
            }
            None => self.add(key, object),
        }
    }

    pub fn close(mut self, around: &mut dyn ClusterReader, world: &mut World) -> Places {
        // Of what an unknown kind made, the newest stands for its owner.
        self.made.sort_by(|(_, a), (_, b)| metadata(a, "creationTimestamp").cmp(metadata(b, "creationTimestamp")));
        for (owner, object) in std::mem::take(&mut self.made) {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            let through = format!("{}/{}", kind.to_lowercase(), metadata(&object, "name"));
            let key = Key::new(metadata(&object, "namespace"), &owner.kind, &owner.name);
            self.add(key.clone(), object);
            if let Some(workload) = self.workloads.get_mut(&key) {
                workload.api_version = owner.api_version;
                workload.through = Some(through);
            }
        }
        let rank = |workload: &Workload| {
            TEMPLATES.iter().position(|(_, kind)| *kind == workload.key.kind).unwrap_or(TEMPLATES.len())
        };
        world.workloads = std::mem::take(&mut self.workloads).into_values().collect();
        world.workloads.sort_by(|a, b| {
            (&a.key.namespace, rank(a), &a.key.kind, &a.key.name).cmp(&(
                &b.key.namespace,
                rank(b),
                &b.key.kind,
                &b.key.name,
            ))
        });
        let mut tops = Tops::default();
        for workload in &mut world.workloads {
            workload.managed_by = tops.above(workload, around);
        }
        world.notes.extend(tops.problem);
        let numbered = world.workloads.iter().enumerate();
        let numbers = numbered.map(|(number, workload)| (workload.key.clone(), number)).collect();
        let places = Places { owners: self.owners, numbers };
        for ((namespace, pod), running) in self.running {
            let workload = places.of_pod(&namespace, &pod).and_then(|number| world.workloads.get_mut(number));
            if let Some(workload) = workload {
                workload.running.add(running);
            }
        }
        for (count, what) in [
            (self.ended, "finished pods and Jobs are left out: they will not ask for anything again"),
            (self.scaled_to_none, "workloads are scaled to 0: their advice saves nothing until they run"),
        ] {
            if count > 0 {
                world.notes.push(format!("{count} {what}"));
            }
        }
        places
    }
}

/// Whether objects of the owner's kind are read themselves.
fn is_known(owner: &Owner) -> bool {
    let group = ApiKind::new(&owner.api_version, &owner.kind).group;
    TEMPLATES.iter().any(|(api_version, kind)| *kind == owner.kind && ApiKind::new(api_version, kind).group == group)
}

/// A pod or a job that will never ask for anything again.
fn has_ended(object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed")) || object.pointer("/status/completionTime").is_some()
}
