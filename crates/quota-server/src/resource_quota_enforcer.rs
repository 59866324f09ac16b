//! ResourceQuotas, for API servers without the admission plugin that enforces them.
//!
//! If the plugin is enabled, nothing is done: each of its writes would conflict with ours, and when the plugin retries
//! after a conflict on one quota, it admits what another quota refused (kubernetes#141904).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headroom_admission::amount::ResourceList;
use headroom_objects::kinds::set;
use headroom_quota_protocol::plan::PlanNode;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::objects::{namespace_of, to_amounts};
use crate::replica::Replica;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiError, revision_of};
use headroom_api_server::event::EventType;
use headroom_api_server::parts::locked;

/// The interval of probes of the API server, and the pause after a failed probe.
const ASKED_AGAIN: Duration = Duration::from_secs(3600);
const RETRY: Duration = Duration::from_secs(5);
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// The plugin notices a new quota after a short delay, and after a longer one on a busy machine.
const TRIES: u32 = 4;
const TRIES_IF_NEW: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// The last correct status of a quota.
#[derive(Debug, Clone)]
struct Published {
    status: Value,
    /// The quota's version with this status.
    version: u64,
    /// The ledger's revision that it was made from.
    ledger_revision: u64,
    /// A version in which another client has written a different status.
    suspect: u64,
}

/// By namespace and name. A later term does not know them: in between another replica writes.
type AllPublished = BTreeMap<(String, String), Published>;

/// Probes whether the plugin is on, and publishes usage if it is off. Ends with the term.
pub async fn keep(replica: Arc<Replica>) {
    let (mut ask_at, mut published) = (Instant::now(), AllPublished::new());
    loop {
        if Instant::now() >= ask_at {
            ask_at = Instant::now() + ask(&replica).await;
        }
        if replica.enforces_resource_quotas() == Some(true) {
            publish(&replica, &mut published).await;
        }
        tokio::time::sleep(REPORT_INTERVAL).await;
    }
}

/// Probes the API server. Returns when to probe again.
async fn ask(replica: &Replica) -> Duration {
    let is_ours = match has_plugin(replica).await {
        Ok(has_plugin) => !has_plugin,
        Err(failure) => {
            tracing::warn!(%failure, "cannot find out whether the API server enforces ResourceQuotas");
            return RETRY;
        }
    };
    if locked(&replica.are_resource_quotas_ours).replace(is_ours) != Some(is_ours) {
        if is_ours {
            tracing::info!("enforcing ResourceQuotas");
        } else {
            tracing::warn!(
                "the API server enforces ResourceQuotas itself: --resource-quotas does nothing (switch the plugin off with \
                 --disable-admission-plugins=ResourceQuota)"
            );
        }
        replica.tenants.changes.send_replace(());
    }
    ASKED_AGAIN
}

const PROBE: &str = "headroom-probe";

/// Returns true if a dry run is refused by a probe quota without room. It bounds PodTemplates, which are hardly
/// used.
async fn has_plugin(replica: &Replica) -> Result<bool, ApiError> {
    let namespace = &replica.options.namespace;
    let metadata = json!({"name": PROBE, "namespace": namespace});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
        "spec": {"hard": {"count/podtemplates": "0"}}});
    let of = |plural: &str| ApiPath::new("/api/v1").collection(Some(namespace), plural);
    let tries = match replica.api.create(&of("resourcequotas"), &quota).await {
        Ok(_) => TRIES_IF_NEW,
        Err(ApiError::Conflict { .. }) => TRIES,
        Err(failure) => return Err(failure),
    };
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": {
        "spec": {"containers": [{"name": "probe", "image": "probe"}]}}});
    for _ in 0..tries {
        match replica.api.create(&of("podtemplates").dry_run(), &template).await {
            Ok(_) => tokio::time::sleep(BETWEEN_TRIES).await,
            // The quota is exceeded, or has no usage yet.
            Err(ApiError::Refused { message }) if message.contains(&format!("quota: {PROBE}")) => return Ok(true),
            Err(failure) => return Err(failure),
        }
    }
    Ok(false)
}

/// Writes usage into the status of each quota, like the quota controller, and reports other writers of the status.
async fn publish(replica: &Replica, published: &mut AllPublished) {
    published.retain(|key, _| replica.tenants.resource_quota(key).is_some());
    for view in replica.ledgers.views() {
        let Some(namespace) = namespace_of(&view.ledger) else { continue };
        for (node, used) in view.plan.nodes.iter().zip(&view.state.used) {
            let key = (namespace.to_owned(), node.quota.clone());
            if let Some(object) = replica.tenants.resource_quota(&key) {
                publish_one(replica, published, key, &object, view.revision, node, used).await;
            }
        }
    }
}

async fn publish_one(
    replica: &Replica,
    published: &mut AllPublished,
    key: (String, String),
    object: &Value,
    ledger_revision: u64,
    node: &PlanNode,
    used: &ResourceList<'static>,
) {
    let Some(version) = revision_of(object) else { return };
    let is_done = |known: &Published| known.version == version && known.ledger_revision == ledger_revision;
    let known = match published.get(&key) {
        Some(known) if is_done(known) => return,
        known => known.cloned(),
    };
    let wanted = json!({"hard": to_amounts(&node.hard), "used": to_amounts(used)});
    let existing = object.get("status").cloned().unwrap_or_default();
    if let Some(known) = known.filter(|known| existing != wanted && known.status != existing) {
        if version < known.version {
            // The watch has not delivered the last write yet.
            return;
        }
        if known.suspect != version {
            // The other writer may have counted objects that are not seen here yet. Check again in the next round.
            published.insert(key, Published { suspect: version, ..known });
            return;
        }
        let used = existing.get("used").cloned().unwrap_or_default();
        let problem = format!("status.used was {used}, which differs from the count; rewritten");
        replica.metrics.foreign_statuses.inc();
        replica.events.record(("v1", "ResourceQuota", object), EventType::Warning, "StatusDrift", &problem).await;
    }
    let mut note = |version: u64| {
        let status = Published { status: wanted.clone(), version, ledger_revision, suspect: 0 };
        published.insert(key.clone(), status);
    };
    if existing == wanted {
        return note(version);
    }
    let (namespace, name) = &key;
    let mut after = object.clone();
    set(&mut after, "apiVersion", json!("v1"));
    set(&mut after, "kind", json!("ResourceQuota"));
    set(&mut after, "status", wanted.clone());
    let path = ApiPath::new("/api/v1").collection(Some(namespace), "resourcequotas").at(name).at("status");
    match replica.api.replace(&path, &after).await {
        Ok(written) => note(revision_of(&written).unwrap_or_default()),
        // The watch delivers the new version.
        Err(ApiError::Conflict { .. } | ApiError::NotFound(_)) => {}
        Err(failure) => tracing::warn!(namespace, name, %failure, "cannot write the status of a quota"),
    }
}
