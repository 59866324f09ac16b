//! Events about quotas, which `kubectl describe` shows.

use headroom_dryrun::kinds::metadata;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Replica;
use crate::random::token;
use headroom_kube::ApiPath;

/// The namespace of events about cluster-scoped objects.
const DEFAULT: &str = "default";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Normal,
    Warning,
}

/// Writes an event about an object. `apiVersion` and `kind` are given, as lists omit them. A failure is only logged.
pub async fn record(replica: &Replica, about: (&str, &str, &Value), kind: Kind, reason: &str, message: &str) {
    let (api_version, object_kind, object) = about;
    let (name, namespace) = (metadata(object, "name"), metadata(object, "namespace"));
    let home = if namespace.is_empty() { DEFAULT } else { namespace };
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{}", token()), "namespace": home},
        "involvedObject": {"apiVersion": api_version, "kind": object_kind, "name": name, "namespace": namespace,
            "uid": metadata(object, "uid"), "resourceVersion": metadata(object, "resourceVersion")},
        "type": if kind == Kind::Warning { "Warning" } else { "Normal" }, "reason": reason, "message": message,
        "source": {"component": "headroom-ledger"}, "reportingComponent": "headroom-ledger",
        "reportingInstance": replica.identity, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    if let Err(failure) = replica.api.create(&ApiPath::new("/api/v1").collection(Some(home), "events"), &event).await {
        tracing::warn!(name, reason, %failure, "cannot write an event");
    }
}
