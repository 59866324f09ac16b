//! Simulates the effect of other settings, LimitRanges or quotas on everything that runs.
//!
//! Running pods are not affected: limits apply at creation. Each workload is evaluated through one pod of its template, before
//! and after, and each pod without a known workload as its author wrote it. Quotas are reported once, in total.

mod subjects;

mod effect;
pub mod report;
pub mod unread;

use serde_json::{Value, json};

pub use effect::{Effect, EffectKind, Effects, QuotaEffect, Simulation, ValueChange, charged};
pub use subjects::{Subject, Subjects, listed};

use crate::Overlay;
use crate::overlay::tenants::TENANT_QUOTA;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{metadata, set};

/// Puts a change where it would be. A quota that is there keeps its usage; a new one is counted.
pub fn put(mut object: Value, cluster: &mut Overlay) -> Result<(), String> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (metadata(&object, "namespace"), metadata(&object, "name"));
    let there = match kind {
        "ResourceQuota" => Some((cluster.get(("v1", kind, Some(namespace)), name)?, "/spec/hard")),
        kind if kind == TENANT_QUOTA.1 => Some((cluster.get((TENANT_QUOTA.0, kind, None), name)?, "/spec/quota/hard")),
        _ => None,
    };
    if let Some((there, hard)) = there {
        let used = there.and_then(|there| there.pointer("/status/used").cloned()).unwrap_or(Value::Null);
        let hard = object.pointer(hard).and_then(Value::as_object).cloned().unwrap_or_default();
        // A name that was not bounded before was not counted either.
        let is_known = hard.keys().all(|name| used.get(name).is_some());
        let status = if is_known { json!({"hard": hard, "used": used}) } else { json!({}) };
        set(&mut object, "status", status);
    }
    cluster.put(object).map_err(|malformed| malformed.to_string())
}
