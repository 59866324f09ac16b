//! The outcomes of requests, and counts of pods by a watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_admission::json::Node;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ListOptions};
use headroom_api_server::watch::{WatchUpdate, follow};
use headroom_e2e::wait::within;
use kube::Client;
use kube::api::DynamicObject;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub stored: usize,
    /// Refused by the quota, with its text.
    pub refused: usize,
    /// Asked to retry.
    pub busy: usize,
    /// All other outcomes, which must not occur.
    pub wrong: Vec<String>,
}

impl Tally {
    pub fn of(outcomes: impl IntoIterator<Item = kube::Result<DynamicObject>>) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            match outcome {
                Ok(_) => tally.stored += 1,
                Err(kube::Error::Api(status)) if status.message.contains("exceeded quota") => {
                    tally.refused += 1;
                    if status.code != 403 {
                        tally.wrong.push(format!("{} {}", status.code, status.message));
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 429 => tally.busy += 1,
                Err(error) => tally.wrong.push(error.to_string()),
            }
        }
        tally
    }
}

pub struct Watched {
    /// In how many states there were this many pods.
    states: Arc<Mutex<BTreeMap<usize, usize>>>,
    stop: CancellationToken,
}

impl Watched {
    /// Counts the pods of a namespace, or of all, after every event from now on.
    pub async fn start(client: &Client, namespace: Option<&str>) -> Self {
        let watched = Self { states: Arc::default(), stop: CancellationToken::new() };
        let (states, mut there) = (Arc::clone(&watched.states), BTreeSet::new());
        let uid = |pod: Node<'_>| Some(pod.at(&["metadata", "uid"]).unwrap().unwrap().str().unwrap().into_owned());
        let (client, path) = (ApiClient::new(client.clone()), ApiPath::new("/api/v1").collection(namespace, "pods"));
        tokio::spawn(follow(client, path, ListOptions::WHOLE, watched.stop.clone(), uid, move |seen| {
            match seen {
                WatchUpdate::Listed(_, uids) => there = uids.into_iter().collect(),
                WatchUpdate::Stored(uid) => _ = there.insert(uid),
                WatchUpdate::Deleted(uid) => _ = there.remove(&uid),
                WatchUpdate::UpTo(_) | WatchUpdate::Lost(_) => return,
            }
            *states.lock().unwrap().entry(there.len()).or_default() += 1;
        }));
        until("pods are listed", || !watched.states.lock().unwrap().is_empty()).await;
        watched
    }

    /// The number of states with more pods than fit.
    pub fn above(&self, room: usize) -> usize {
        self.states.lock().unwrap().range(room + 1..).map(|(_, states)| states).sum()
    }

    /// The most pods at any time, and the number of states.
    pub fn end(self) -> (usize, usize) {
        self.stop.cancel();
        let states = self.states.lock().unwrap();
        (*states.last_key_value().unwrap().0, states.values().sum())
    }
}

pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let attempt = async || is_so().then_some(()).ok_or_else(|| "it is not so".to_owned());
    within([Duration::from_secs(60), Duration::from_millis(5)], what, attempt).await.unwrap();
}
