//! ResourceQuotas that the ledger enforces: whether it does, and the statuses that the leader has published.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use headroom_api_server::parts::locked;
use serde_json::Value;

/// The result of the last probe for the plugin, and the statuses that the leader has published.
#[derive(Debug, Default)]
pub struct ResourceQuotaState(Mutex<PublishedState>);

#[derive(Debug, Default)]
pub struct PublishedState {
    /// True if the ledger enforces ResourceQuotas; none until the API server was probed.
    pub is_ours: Option<bool>,
    /// By namespace and name.
    pub published: BTreeMap<(String, String), Published>,
}

/// The last correct status of a quota.
#[derive(Debug, Clone)]
pub struct Published {
    pub status: Value,
    /// The quota's version with this status.
    pub version: u64,
    /// The ledger's revision that it was made from.
    pub ledger_revision: u64,
    /// A version in which another client has written a different status.
    pub suspect: u64,
}

impl ResourceQuotaState {
    pub fn inner(&self) -> MutexGuard<'_, PublishedState> {
        locked(&self.0)
    }

    /// Returns true if the API server was probed and the plugin is off.
    pub fn is_ours(&self) -> bool {
        self.inner().is_ours == Some(true)
    }
}
