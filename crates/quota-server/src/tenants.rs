//! TenantQuotas and namespaces, from this replica's watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use headroom_admission::cluster::label_selector::Labels;
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::cluster::tenant_quota::{NEVER_CHARGED, TenantQuota};
use headroom_api_server::parts::locked;
use headroom_objects::document;
use headroom_objects::kinds::{labels_of, metadata, shares_at};
use headroom_quota_protocol::message::Consumers;
use serde_json::Value;
use tokio::sync::watch;

use headroom_api_server::watch::WatchUpdate;

#[derive(Debug)]
pub struct Tenants {
    /// Namespaces that are never charged.
    pub exempt: BTreeSet<String>,
    inner: Mutex<TenantObjects>,
    /// Wakes the planner.
    pub changes: watch::Sender<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    TenantQuota,
    Namespace,
    ResourceQuota,
}

#[derive(Debug, Default)]
struct TenantObjects {
    quotas: BTreeMap<String, ParsedQuota<TenantQuota<'static>>>,
    namespaces: BTreeMap<String, Labels>,
    /// By namespace and name; empty if the ledger does not enforce ResourceQuotas.
    resource_quotas: BTreeMap<(String, String), ParsedQuota<ResourceQuota<'static>>>,
    listed: BTreeSet<Kind>,
}

/// A quota, read once. In large clusters thousands of quotas are asked for every second.
#[derive(Debug, Clone)]
pub struct ParsedQuota<Q> {
    /// The whole object, for its status.
    pub object: Arc<Value>,
    /// An error is a message.
    pub quota: Result<Arc<Q>, String>,
}

impl<Q> ParsedQuota<Q> {
    /// Puts a quota in the place of the one of its key. Returns false if it asks for the same: a changed status needs no new
    /// plan, and every quota's status changes with each pod.
    fn put<K: Ord>(quotas: &mut BTreeMap<K, Self>, key: K, object: Value, quota: Result<Q, String>) -> bool {
        let is_same = quotas.get(&key).is_some_and(|known| known.object.get("spec") == object.get("spec"));
        quotas.insert(key, Self { object: Arc::new(object), quota: quota.map(Arc::new) });
        !is_same
    }
}

impl TenantObjects {
    /// Puts an object that is there, or takes it out. Returns true if plans may depend on the change.
    fn take(&mut self, kind: Kind, object: Value, is_there: bool) -> bool {
        let [namespace, name] = ["namespace", "name"].map(|field| metadata(&object, field).to_owned());
        match (kind, is_there) {
            (Kind::TenantQuota, true) => {
                let quota = read_quota(&object);
                ParsedQuota::put(&mut self.quotas, name, object, quota)
            }
            (Kind::TenantQuota, false) => self.quotas.remove(&name).is_some(),
            (Kind::Namespace, true) => {
                let labels = labels_of(&object);
                self.namespaces.insert(name, labels.clone()).is_none_or(|old| old != labels)
            }
            (Kind::Namespace, false) => self.namespaces.remove(&name).is_some(),
            (Kind::ResourceQuota, true) => {
                let quota = read_resource_quota(&object);
                if let Err(problem) = &quota {
                    tracing::warn!(namespace, name, problem, "a ResourceQuota cannot be read");
                }
                ParsedQuota::put(&mut self.resource_quotas, (namespace, name), object, quota)
            }
            (Kind::ResourceQuota, false) => self.resource_quotas.remove(&(namespace, name)).is_some(),
        }
    }
}

impl Tenants {
    pub fn new(own: &str, exempt: &[String]) -> Self {
        let exempt = NEVER_CHARGED.into_iter().chain([own]).map(str::to_owned).chain(exempt.iter().cloned()).collect();
        Self { exempt, inner: Mutex::default(), changes: watch::Sender::new(()) }
    }

    pub fn is_listed(&self) -> bool {
        [Kind::TenantQuota, Kind::Namespace].into_iter().all(|kind| self.has_listed(kind))
    }

    pub fn has_listed(&self, kind: Kind) -> bool {
        locked(&self.inner).listed.contains(&kind)
    }

    pub fn is_exempt(&self, namespace: &str) -> bool {
        self.exempt.contains(namespace)
    }

    pub fn known_quotas(&self) -> BTreeMap<String, ParsedQuota<TenantQuota<'static>>> {
        locked(&self.inner).quotas.clone()
    }

    pub fn known_quota(&self, name: &str) -> Option<ParsedQuota<TenantQuota<'static>>> {
        locked(&self.inner).quotas.get(name).cloned()
    }

    /// The TenantQuotas that can be read, in the order of their names.
    pub fn quotas(&self) -> Vec<Arc<TenantQuota<'static>>> {
        locked(&self.inner).quotas.values().filter_map(|known| known.quota.as_ref().ok().cloned()).collect()
    }

    /// The ResourceQuotas of namespaces that may be charged, by namespace and in the order of their names. Unreadable ones
    /// are left out: the API server would not store them.
    pub fn resource_quotas(&self) -> BTreeMap<String, Vec<Arc<ResourceQuota<'static>>>> {
        let inner = locked(&self.inner);
        let mut by_namespace: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let charged = inner.resource_quotas.iter().filter(|((namespace, _), _)| !self.is_exempt(namespace));
        for ((namespace, _), quota) in charged.filter_map(|(key, known)| Some((key, known.quota.as_ref().ok()?))) {
            by_namespace.entry(namespace.clone()).or_default().push(Arc::clone(quota));
        }
        by_namespace
    }

    pub fn resource_quota(&self, namespace_and_name: &(String, String)) -> Option<Arc<Value>> {
        Some(Arc::clone(&locked(&self.inner).resource_quotas.get(namespace_and_name)?.object))
    }

    /// The labels of all namespaces that may be charged.
    pub fn namespaces(&self) -> Vec<(String, Labels)> {
        let namespaces = locked(&self.inner).namespaces.clone();
        namespaces.into_iter().filter(|(name, _)| !self.is_exempt(name)).collect()
    }

    pub fn labels(&self, namespace: &str) -> Option<Labels> {
        locked(&self.inner).namespaces.get(namespace).cloned()
    }

    /// Returns true if a valid quota covers a namespace with these labels, so that a plan must list it.
    pub fn is_covered(&self, namespace: &str, labels: &Labels) -> bool {
        let inner = locked(&self.inner);
        let mut quotas = inner.quotas.values().filter_map(|known| known.quota.as_ref().ok());
        quotas.any(|quota| quota.covers(namespace, labels) && quota.problems().is_empty())
    }

    /// The consumers of a bound, from the quota's status.
    pub fn consumers(&self, quota: &str, name: &str) -> Consumers {
        let inner = locked(&self.inner);
        let known = inner.quotas.get(quota);
        let list = |at: &str| Consumers::shares(known.into_iter().flat_map(|known| shares_at(&known.object, at, name)));
        Consumers { namespaces: list("/status/namespaces"), children: list("/status/children") }
    }

    pub fn take(&self, kind: Kind, seen: WatchUpdate) {
        let mut inner = locked(&self.inner);
        let is_new = match seen {
            WatchUpdate::Listed(_, objects) => {
                match kind {
                    Kind::TenantQuota => inner.quotas.clear(),
                    Kind::Namespace => inner.namespaces.clear(),
                    Kind::ResourceQuota => inner.resource_quotas.clear(),
                }
                inner.listed.insert(kind);
                objects.into_iter().for_each(|object| _ = inner.take(kind, object, true));
                true
            }
            WatchUpdate::Stored(object) => inner.take(kind, object, true),
            WatchUpdate::Deleted(object) => inner.take(kind, object, false),
            // Plans stay as they are, and no review is answered, until it is listed again.
            WatchUpdate::Lost(_) => {
                inner.listed.remove(&kind);
                false
            }
            WatchUpdate::UpTo(_) => false,
        };
        drop(inner);
        if is_new {
            self.changes.send_replace(());
        }
    }
}

pub fn read_quota(object: &Value) -> Result<TenantQuota<'static>, String> {
    let document = document(object)?;
    TenantQuota::read(document.root()).map(TenantQuota::into_owned).map_err(|malformed| malformed.to_string())
}

fn read_resource_quota(object: &Value) -> Result<ResourceQuota<'static>, String> {
    let document = document(object)?;
    let quota = ResourceQuota::read(document.root()).map_err(|malformed| malformed.to_string())?;
    Ok(quota.into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_plans_depend_on_wakes_the_planner() {
        let tenants = Tenants::new("headroom", &[]);
        let mut changes = tenants.changes.subscribe();
        let mut is_woken = || {
            let has_changed = changes.has_changed().unwrap();
            changes.mark_unchanged();
            has_changed
        };
        let quota = |pods: u32, used: u32| json!({"metadata": {"name": "team"}, "spec": {"quota": {"hard": {"pods": pods}}}, "status": {"used": used}});
        for (seen, expected) in [
            (WatchUpdate::Stored(quota(1, 0)), true),
            (WatchUpdate::Stored(quota(1, 1)), false),
            (WatchUpdate::Stored(quota(2, 1)), true),
            (WatchUpdate::UpTo(7), false),
            // What was known stays, and is known again when it is listed.
            (WatchUpdate::Lost("forbidden".to_owned()), false),
            (WatchUpdate::Listed(8, vec![quota(2, 1)]), true),
            (WatchUpdate::Deleted(quota(2, 1)), true),
        ] {
            tenants.take(Kind::TenantQuota, seen);
            assert_eq!(is_woken(), expected);
        }
        assert!(tenants.quotas().is_empty());
        let namespace = |team: &str, phase: &str| json!({"metadata": {"name": "shop", "labels": {"team": team}}, "status": {"phase": phase}});
        for (namespace, expected) in [
            (namespace("a", "Active"), true),
            (namespace("a", "Terminating"), false),
            (namespace("b", "Terminating"), true),
        ] {
            tenants.take(Kind::Namespace, WatchUpdate::Stored(namespace));
            assert_eq!(is_woken(), expected);
        }
        assert_eq!(tenants.labels("shop").unwrap()["team"], "b");
    }
}
