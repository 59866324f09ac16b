//! TenantQuotas and namespaces, from this replica's watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use headroom_core::amount::Quantity;
use headroom_core::cluster::resource_quota::ResourceQuota;
use headroom_core::json::Document;
use headroom_dryrun::kinds::{labels_of, metadata};
use headroom_tenant_quota::label_selector::Labels;
use headroom_tenant_quota::message::Consumers;
use headroom_tenant_quota::tenant_quota::{NEVER_CHARGED, TenantQuota, read_spec};
use serde_json::Value;
use tokio::sync::watch;

use super::objects::name_of;
use headroom_kube::watch::Seen;

#[derive(Debug)]
pub struct Tenants {
    /// Namespaces that are never charged.
    exempt: BTreeSet<String>,
    inner: Mutex<Inner>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The whole objects, for their status.
    quotas: BTreeMap<String, Value>,
    namespaces: BTreeMap<String, Labels>,
    /// By namespace and name; empty if the ledger does not enforce ResourceQuotas.
    resource_quotas: BTreeMap<(String, String), Value>,
    has_quotas: bool,
    has_namespaces: bool,
}

impl Tenants {
    pub fn new(own: &str, exempt: &[String]) -> Self {
        let exempt = NEVER_CHARGED.into_iter().chain([own]).map(str::to_owned).chain(exempt.iter().cloned()).collect();
        Self { exempt, inner: Mutex::default(), changes: watch::Sender::new(0) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub fn is_listed(&self) -> bool {
        let inner = self.inner();
        inner.has_quotas && inner.has_namespaces
    }

    pub fn is_exempt(&self, namespace: &str) -> bool {
        self.exempt.contains(namespace)
    }

    pub fn exempt(&self) -> &BTreeSet<String> {
        &self.exempt
    }

    /// The quotas that can be read, and the names of the others with the reason.
    pub fn quotas(&self) -> (Vec<TenantQuota>, BTreeMap<String, String>) {
        let (mut quotas, mut unreadable) = (Vec::new(), BTreeMap::new());
        for (name, object) in &self.inner().quotas {
            match read_quota(object) {
                Ok(quota) => quotas.push(quota),
                Err(problem) => _ = unreadable.insert(name.clone(), problem),
            }
        }
        (quotas, unreadable)
    }

    /// The ResourceQuotas of namespaces that may be charged.
    pub fn resource_quotas(&self) -> BTreeMap<(String, String), Value> {
        let mut quotas = self.inner().resource_quotas.clone();
        quotas.retain(|(namespace, _), _| !self.is_exempt(namespace));
        quotas
    }

    pub fn objects(&self) -> BTreeMap<String, Value> {
        self.inner().quotas.clone()
    }

    /// The labels of all namespaces that may be charged.
    pub fn namespaces(&self) -> Vec<(String, Labels)> {
        let namespaces = self.inner().namespaces.clone();
        namespaces.into_iter().filter(|(name, _)| !self.is_exempt(name)).collect()
    }

    pub fn labels(&self, namespace: &str) -> Option<Labels> {
        self.inner().namespaces.get(namespace).cloned()
    }

    /// Returns true if a valid quota covers a namespace with these labels, so that a plan must list it.
    pub fn is_covered(&self, namespace: &str, labels: &Labels) -> bool {
        let (quotas, _) = self.quotas();
        quotas.iter().any(|quota| quota.covers(namespace, labels) && quota.problems().is_empty())
    }

    /// The consumers of a bound, from the quota's status.
    pub fn consumers(&self, quota: &str, name: &str) -> Consumers {
        let inner = self.inner();
        let list = |field: &str| {
            let shares = inner.quotas.get(quota).and_then(|quota| quota.pointer("/status")?.get(field)?.as_array());
            let share = |share: &Value| {
                let amount: Quantity = share.get("used")?.get(name)?.as_str()?.parse().ok()?;
                Some((share.get("name")?.as_str()?.to_owned(), amount))
            };
            Consumers::shares(shares.into_iter().flatten().filter_map(share))
        };
        Consumers { namespaces: list("namespaces"), children: list("children") }
    }

    pub fn take_quotas(&self, seen: Seen) {
        self.take(
            seen,
            |inner, name, object| match object {
                Some(object) => {
                    // A changed status needs no new plan, and every quota's status changes with each pod.
                    let is_same = inner.quotas.get(&name).is_some_and(|old| old.get("spec") == object.get("spec"));
                    inner.quotas.insert(name, object);
                    !is_same
                }
                None => inner.quotas.remove(&name).is_some(),
            },
            |inner| {
                inner.quotas.clear();
                inner.has_quotas = true;
            },
        );
    }

    pub fn take_namespaces(&self, seen: Seen) {
        self.take(
            seen,
            |inner, name, object| match object {
                Some(object) => {
                    let labels = labels_of(&object);
                    inner.namespaces.insert(name, labels.clone()).is_none_or(|old| old != labels)
                }
                None => inner.namespaces.remove(&name).is_some(),
            },
            |inner| {
                inner.namespaces.clear();
                inner.has_namespaces = true;
            },
        );
    }

    pub fn take_resource_quotas(&self, seen: Seen) {
        let key = |object: &Value| (metadata(object, "namespace").to_owned(), name_of(object).to_owned());
        let mut inner = self.inner();
        match seen {
            Seen::Listed(_, objects) => {
                inner.resource_quotas = objects.into_iter().map(|object| (key(&object), object)).collect();
            }
            Seen::Stored(object) => {
                let is_new =
                    inner.resource_quotas.get(&key(&object)).and_then(|old| old.get("spec")) != object.get("spec");
                inner.resource_quotas.insert(key(&object), object);
                if !is_new {
                    // A changed status needs no new plan.
                    return;
                }
            }
            Seen::Deleted(object) => _ = inner.resource_quotas.remove(&key(&object)),
            Seen::UpTo(_) | Seen::Lost(_) => return,
        }
        drop(inner);
        self.changed();
    }

    /// Wakes the planner.
    pub fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// `put` returns true if plans may depend on the change.
    fn take(&self, seen: Seen, put: impl Fn(&mut Inner, String, Option<Value>) -> bool, clear: impl Fn(&mut Inner)) {
        let mut inner = self.inner();
        let is_new = match seen {
            Seen::Listed(_, objects) => {
                clear(&mut inner);
                for object in objects {
                    put(&mut inner, name_of(&object).to_owned(), Some(object));
                }
                true
            }
            Seen::Stored(object) => put(&mut inner, name_of(&object).to_owned(), Some(object)),
            Seen::Deleted(object) => put(&mut inner, name_of(&object).to_owned(), None),
            Seen::UpTo(_) | Seen::Lost(_) => false,
        };
        drop(inner);
        if is_new {
            self.changed();
        }
    }
}

/// Reads a TenantQuota. An error is a message.
pub fn read_quota(object: &Value) -> Result<TenantQuota, String> {
    let text = object.to_string();
    let document = Document::read(&text).map_err(|error| error.to_string())?;
    TenantQuota::read(document.root()).map_err(|malformed| malformed.to_string())
}

/// The ResourceQuotas by namespace, in the order of their names. Unreadable ones are skipped: the API server would not
/// store them.
pub fn by_namespace(objects: &BTreeMap<(String, String), Value>) -> BTreeMap<String, Vec<ResourceQuota<'static>>> {
    let mut quotas: BTreeMap<String, Vec<ResourceQuota<'static>>> = BTreeMap::new();
    for ((namespace, name), object) in objects {
        let text = object.to_string();
        let read = || {
            let document = Document::read(&text).ok()?;
            read_spec(document.root().get("spec").ok()??).ok()
        };
        match read() {
            Some(quota) => {
                quotas.entry(namespace.clone()).or_default().push(ResourceQuota { name: name.clone().into(), ..quota })
            }
            None => tracing::warn!(namespace, name, "a ResourceQuota cannot be read"),
        }
    }
    quotas
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_plans_depend_on_wakes_the_planner() {
        let tenants = Tenants::new("headroom", &[]);
        let mut changes = tenants.changes();
        let mut is_woken = || {
            let has_changed = changes.has_changed().unwrap();
            changes.mark_unchanged();
            has_changed
        };
        let quota = |pods: u32, used: u32| json!({"metadata": {"name": "team"}, "spec": {"quota": {"hard": {"pods": pods}}}, "status": {"used": used}});
        for (seen, expected) in [
            (Seen::Stored(quota(1, 0)), true),
            (Seen::Stored(quota(1, 1)), false),
            (Seen::Stored(quota(2, 1)), true),
            (Seen::UpTo(7), false),
            (Seen::Listed(8, vec![quota(2, 1)]), true),
            (Seen::Deleted(quota(2, 1)), true),
        ] {
            tenants.take_quotas(seen);
            assert_eq!(is_woken(), expected);
        }
        assert!(tenants.quotas().0.is_empty());
        let namespace = |team: &str, phase: &str| json!({"metadata": {"name": "shop", "labels": {"team": team}}, "status": {"phase": phase}});
        for (namespace, expected) in [
            (namespace("a", "Active"), true),
            (namespace("a", "Terminating"), false),
            (namespace("b", "Terminating"), true),
        ] {
            tenants.take_namespaces(Seen::Stored(namespace));
            assert_eq!(is_woken(), expected);
        }
        assert_eq!(tenants.labels("shop").unwrap()["team"], "b");
    }
}
