//! Workloads of unknown kinds: an Argo Rollout's ReplicaSets, an operator's StatefulSets and pods. Advice on what they
//! own carries their name, because changes to an owned object would not last.

use headroom_dryrun::kinds::metadata;
use serde_json::Value;

use super::{Advice, Workload};

/// Who controls an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

impl Owner {
    /// The controller among an object's owners.
    pub fn of(object: &Value) -> Option<Self> {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
        Some(Self { api_version: text("apiVersion"), kind: text("kind"), name: text("name") })
    }
}

/// Whether an object asks for anything: not if it is scaled to none, as a Rollout's older ReplicaSets are.
pub fn is_scaled(object: &Value) -> bool {
    object.pointer("/spec/replicas").and_then(Value::as_u64) != Some(0)
}

/// Names the owner in the advice instead of the object that it is based on.
pub fn attribute(workload: &mut Workload, owner: &Owner, object: &Value) {
    workload.through = Some(format!("{}/{}", workload.kind.to_lowercase(), metadata(object, "name")));
    workload.api_version.clone_from(&owner.api_version);
    workload.kind.clone_from(&owner.kind);
    workload.name.clone_from(&owner.name);
    // Nobody here knows where its template has the containers.
    workload.path.clear();
    workload
        .notes
        .push("unknown kind: the advice is based on what it owns; set the requests in its own template".to_owned());
}

/// Adds a workload; none is added where the same owner has the same containers in another object already, which then
/// stands for both.
pub fn add(advice: &mut Advice, workload: Workload) {
    let images = |workload: &Workload| -> Vec<(String, String)> {
        workload.containers.iter().map(|container| (container.name.clone(), container.image.clone())).collect()
    };
    let is_same = |known: &&mut Workload| {
        known.through.is_some()
            && workload.through.is_some()
            && known.namespace == workload.namespace
            && known.told() == workload.told()
            && images(known) == images(&workload)
    };
    match advice.workloads.iter_mut().find(is_same) {
        Some(known) => known.pods += workload.pods,
        None => advice.workloads.push(workload),
    }
}
