//! A pod as its workload's controller would create it.

use headroom_objects::kinds::{metadata, text};
use serde_json::{Value, json};

use crate::kinds::{self, Growth, JOB, POD, REPLICA_SET};
use crate::owner::Owner;

/// The hash of a template that no controller has seen.
const TEMPLATE_HASH: &str = "template";

/// A pod as its workload's controller would create it; none for kinds without pods.
pub fn pod_of(workload: &Value) -> Option<Value> {
    let kind = kinds::of(workload).filter(|kind| kind.growth != Growth::Pod)?;
    let template = workload.pointer(&kinds::pod_at(kind))?;
    let name = metadata(workload, "name");
    // A Deployment creates pods through a ReplicaSet, a CronJob through a Job.
    let (api_version, owner, owner_name) = match kind.growth {
        Growth::Deployment => (REPLICA_SET.api_version.to_owned(), &REPLICA_SET, format!("{name}-{TEMPLATE_HASH}")),
        Growth::CronJob => (JOB.api_version.to_owned(), &JOB, format!("{name}-0")),
        _ => (text(workload, "/apiVersion").to_owned(), kind, name.to_owned()),
    };
    let mut metadata_of_pod = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if let Value::Object(fields) = &mut metadata_of_pod {
        fields.insert("generateName".to_owned(), json!(format!("{name}-")));
        fields.insert("namespace".to_owned(), json!(metadata(workload, "namespace")));
        Owner { api_version, kind: owner.kind.to_owned(), name: owner_name }.write(fields);
        if kind.growth == Growth::Deployment
            && let Value::Object(labels) = fields.entry("labels").or_insert_with(|| json!({}))
        {
            labels.insert("pod-template-hash".to_owned(), json!(TEMPLATE_HASH));
        }
    }
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    // Unlike `json!`, this copies neither.
    let fields = [
        ("apiVersion", json!(POD.api_version)),
        ("kind", json!(POD.kind)),
        ("metadata", metadata_of_pod),
        ("spec", spec),
    ];
    Some(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
