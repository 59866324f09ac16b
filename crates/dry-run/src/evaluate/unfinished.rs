//! Updates that controllers have not carried out yet.

use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{ApiKind, metadata, number};
use headroom_workloads::kinds::{DAEMON_SET, DEPLOYMENT, REPLICA_SET, counts};
use headroom_workloads::running::earlier_template;
use serde_json::{Value, json};

use super::request;

/// An update that keeps the template, as the one that its controllers still have to carry out: from the pods that exist to those
/// that are wanted. None if they have done so, and for an update that the core evaluates itself.
pub fn unfinished(request: &Value, cluster: &mut dyn ClusterReader) -> Option<Value> {
    let (object, old) = (request.get("object")?, request.get("oldObject")?);
    let kind = ApiKind::of(object);
    let [wanted_at, present_at] = counts(&kind)?;
    let is_kept = old.get("status").is_some_and(|status| !status.is_null())
        && object.pointer("/spec/template") == old.pointer("/spec/template")
        && object.pointer("/spec/paused") != Some(&json!(true));
    let (wanted, before) = (number(object, wanted_at).unwrap_or(1), number(old, wanted_at).unwrap_or(1));
    let present = number(old, present_at).unwrap_or(0);
    let updated = number(old, "/status/updatedReplicas").unwrap_or(0);
    let mut request = request.clone();
    let mut set = |at: &str, value: Value| {
        if let Some((Value::Object(fields), name)) =
            at.rsplit_once('/').and_then(|(path, name)| Some((request.pointer_mut(path)?, name)))
        {
            fields.insert(name.to_owned(), value);
        }
    };
    if !is_kept {
        return None;
    }
    if kind.kind == DEPLOYMENT.kind && updated < present && updated < wanted {
        // Only those of the earlier template are left to replace.
        set("/oldObject/spec/template", earlier_template(old, cluster)?);
        set("/object/spec/replicas", json!(wanted - updated));
        set("/oldObject/spec/replicas", json!(before.saturating_sub(updated)));
        for field in ["replicas", "updatedReplicas"] {
            set(&format!("/oldObject/status/{field}"), json!(present - updated));
        }
        return Some(request);
    }
    if present >= wanted || wanted > before {
        return None;
    }
    if kind.kind == DAEMON_SET.kind {
        let replica_set = |replicas: u64| {
            json!({"apiVersion": REPLICA_SET.api_version, "kind": REPLICA_SET.kind, "metadata": object.get("metadata"),
                "spec": {"replicas": replicas, "template": object.pointer("/spec/template")}})
        };
        let kind = ApiKind::new(REPLICA_SET.api_version, REPLICA_SET.kind);
        return Some(request::update(replica_set(wanted), replica_set(present), &kind, metadata(object, "namespace")));
    }
    set(&format!("/oldObject{wanted_at}"), json!(present));
    Some(request)
}
