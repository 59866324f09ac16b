//! The quotas of a cluster, seen write by write. A ResourceQuota is not exact while its controller recounts: between the charge of
//! a pod and the pod itself, the recount can write the charge away, and one pod too many is admitted.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use headroom_admission::amount::Quantity;
use headroom_admission::json::Node;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ListOptions};
use headroom_api_server::watch::{WatchUpdate, follow};
use headroom_e2e::cluster::Cluster;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The writes of a namespace by revision.
type Writes = BTreeMap<u64, Write>;

enum Write {
    PodIsGone,
    /// The pods that the quota counts, and whether it counts more of anything than it allows.
    Counted {
        pods: u64,
        is_above: bool,
    },
}

pub struct QuotaWatch {
    seen: Arc<Mutex<HashMap<String, Writes>>>,
    _stop: DropGuard,
}

impl QuotaWatch {
    /// Watches all namespaces, each of which has one quota of pods.
    pub async fn start(cluster: &Cluster) -> Self {
        let (watched, end) = (Arc::<Mutex<HashMap<String, Writes>>>::default(), CancellationToken::new());
        for path in ["/api/v1/pods", "/api/v1/resourcequotas"] {
            let (seen, stop) = (Arc::clone(&watched), end.clone());
            let add = move |object: Value, write: Option<Write>| {
                let metadata = &object["metadata"];
                let revision = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
                let namespace = metadata["namespace"].as_str().unwrap().to_owned();
                seen.lock().unwrap().entry(namespace).or_default().extend(write.map(|write| (revision, write)));
            };
            let whole = |object: Node<'_>| serde_json::from_str(object.text()).ok();
            let client = ApiClient::new(cluster.client().await.unwrap());
            let at = ApiPath::new(path);
            tokio::spawn(follow(client, at, ListOptions::WHOLE, stop, whole, move |update| match update {
                WatchUpdate::Deleted(pod) if path.ends_with("pods") => add(pod, Some(Write::PodIsGone)),
                WatchUpdate::Stored(quota) if path.ends_with("quotas") => {
                    let counted = counted(&quota["status"]);
                    add(quota, counted);
                }
                _ => {}
            }));
        }
        Self { seen: watched, _stop: end.drop_guard() }
    }

    /// True if a charge was written away, or the quota is above its bound: `used` went down further than pods were deleted, or it
    /// exceeds `hard`.
    pub fn has_raced(&self, namespace: &str) -> bool {
        let seen = self.seen.lock().unwrap();
        let (mut counted, mut gone) = (0, 0);
        seen.get(namespace).into_iter().flat_map(BTreeMap::values).any(|write| match *write {
            Write::PodIsGone => {
                gone += 1;
                false
            }
            Write::Counted { pods, is_above } => {
                let fall = u64::saturating_sub(counted, pods);
                counted = pods;
                let is_unexplained = fall > gone;
                gone = gone.saturating_sub(fall);
                is_unexplained || is_above
            }
        })
    }
}

fn counted(status: &Value) -> Option<Write> {
    let amount = |of: &Value, name: &str| of[name].as_str()?.parse::<Quantity>().ok();
    let (used, hard) = (&status["used"], &status["hard"]);
    let is_above = |name: &String| amount(used, name) > amount(hard, name);
    Some(Write::Counted {
        pods: used["pods"].as_str()?.parse().ok()?,
        is_above: used.as_object()?.keys().any(is_above),
    })
}
