//! The ledgers that this replica knows, from its watch and from its own writes, whichever is newer.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::json::Node;
use headroom_api_server::parts::locked;
use headroom_quota_protocol::{OpenLedger, Plan, State};
use tokio::sync::watch;

use crate::objects::{self, LedgerContent, Named};
use headroom_api_server::api_client::{ApiClient, ApiResult, revision_in, revision_of, text_at};
use headroom_api_server::watch::WatchUpdate;

#[derive(Debug, Clone)]
pub struct View {
    pub ledger: String,
    pub revision: u64,
    pub plan: Arc<Plan>,
    pub state: Arc<State>,
}

impl View {
    /// Usage, and the amounts that claims reserve in addition, by node.
    pub fn used_and_reserved(&self) -> Vec<(ResourceList<'static>, ResourceList<'static>)> {
        let open = OpenLedger::new(&self.plan, self.state.as_ref().clone());
        let pairs = open.usage_with_claims().iter().zip(&self.state.used);
        pairs
            .map(|(total, used)| {
                let reserved = total
                    .paired_with(used)
                    .map(|(name, total, used)| (name.clone(), used.map_or(Quantity::ZERO, |used| total.minus(used))));
                (used.clone(), reserved.filter(|(_, amount)| amount.is_positive()).collect())
            })
            .collect()
    }
}

pub struct LedgerCache {
    api: ApiClient,
    namespace: String,
    inner: Mutex<CachedLedgers>,
    /// Tells of each change of a ledger.
    pub changes: watch::Sender<()>,
    /// Tells of ledgers that have another plan, are gone, or cannot be read. Claims change all the time, and need no other plan.
    pub plan_changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct CachedLedgers {
    views: BTreeMap<String, View>,
    /// The ledgers that charge a namespace. There may be as many ledgers as namespaces.
    by_namespace: HashMap<String, BTreeSet<String>>,
    /// By ledger and number.
    plans: BTreeMap<(String, u64), Arc<Plan>>,
    /// Ledgers that cannot be read, and why.
    broken: BTreeMap<String, String>,
    is_listed: bool,
    /// The ledgers that changed since the leader last asked.
    touched: BTreeSet<String>,
}

impl CachedLedgers {
    /// Returns true if the ledger has another plan now.
    fn put(&mut self, view: View) -> bool {
        let has_plan = self.views.get(&view.ledger).is_some_and(|known| Arc::ptr_eq(&known.plan, &view.plan));
        if !has_plan {
            self.remove(&view.ledger);
            for namespace in view.plan.namespaces.keys() {
                self.by_namespace.entry(namespace.clone()).or_default().insert(view.ledger.clone());
            }
        }
        self.touched.insert(view.ledger.clone());
        self.views.insert(view.ledger.clone(), view);
        !has_plan
    }

    fn remove(&mut self, ledger: &str) {
        let Some(view) = self.views.remove(ledger) else { return };
        self.touched.remove(ledger);
        for namespace in view.plan.namespaces.keys() {
            if let Some(ledgers) = self.by_namespace.get_mut(namespace) {
                ledgers.remove(ledger);
                if ledgers.is_empty() {
                    self.by_namespace.remove(namespace);
                }
            }
        }
    }
}

impl LedgerCache {
    pub fn new(api: ApiClient, namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        let (changes, plan_changes) = (watch::Sender::new(()), watch::Sender::new(()));
        Self { api, namespace, inner: Mutex::default(), changes, plan_changes }
    }

    fn plan_changed(&self) {
        self.plan_changes.send_replace(());
        self.changes.send_replace(());
    }

    pub fn is_listed(&self) -> bool {
        locked(&self.inner).is_listed
    }

    pub fn view(&self, ledger: &str) -> Option<View> {
        locked(&self.inner).views.get(ledger).cloned()
    }

    pub fn views(&self) -> Vec<View> {
        locked(&self.inner).views.values().cloned().collect()
    }

    /// The ledgers that a namespace is charged to, in the order in which every replica reserves.
    pub fn covering(&self, namespace: &str) -> Vec<View> {
        let inner = locked(&self.inner);
        let ledgers = inner.by_namespace.get(namespace).into_iter().flatten();
        ledgers.filter_map(|ledger| inner.views.get(ledger).cloned()).collect()
    }

    /// The ledgers that changed since the last call, and those that charge one of these namespaces.
    pub fn take_touched(&self, namespaces: &BTreeSet<String>) -> BTreeSet<String> {
        let mut inner = locked(&self.inner);
        let mut ledgers = std::mem::take(&mut inner.touched);
        let charging = namespaces.iter().filter_map(|namespace| inner.by_namespace.get(namespace));
        ledgers.extend(charging.flatten().cloned());
        ledgers
    }

    /// Reads an object of the watch, unless its state is known already.
    pub fn read(&self, object: Node<'_>) -> Option<Named> {
        let name = text_at(object, &["metadata", "name"])?;
        let known = locked(&self.inner).views.get(name.as_ref()).map(|view| view.revision);
        if known.zip(revision_in(object)).is_some_and(|(known, seen)| seen <= known) {
            return Some((name.into_owned(), Ok(LedgerContent::AlreadyRead)));
        }
        objects::read_named(object)
    }

    pub fn broken(&self) -> BTreeMap<String, String> {
        locked(&self.inner).broken.clone()
    }

    /// The highest number of a ledger's plans, active or not.
    pub fn last_plan(&self, ledger: &str) -> u64 {
        let inner = locked(&self.inner);
        let mut plans = inner.plans.range((ledger.to_owned(), 0)..=(ledger.to_owned(), u64::MAX));
        let last = plans.next_back().map(|((_, number), _)| *number);
        let active = inner.views.get(ledger).map(|view| view.plan.number);
        last.max(active).unwrap_or_default()
    }

    pub fn stale_plans(&self) -> HashSet<(String, u64)> {
        let inner = locked(&self.inner);
        let is_stale =
            |(ledger, number): &&(String, u64)| inner.views.get(ledger).is_none_or(|view| *number < view.plan.number);
        inner.plans.keys().filter(is_stale).cloned().collect()
    }

    pub fn add_plan(&self, ledger: &str, plan: Arc<Plan>) {
        locked(&self.inner).plans.insert((ledger.to_owned(), plan.number), plan);
    }

    /// Adds a state that was read or written, unless a newer one is known.
    pub fn add_state(&self, ledger: &str, revision: u64, state: State) -> Option<View> {
        let mut inner = locked(&self.inner);
        if let Some(view) = inner.views.get(ledger).filter(|view| view.revision >= revision) {
            return Some(view.clone());
        }
        let plan = inner.plans.get(&(ledger.to_owned(), state.plan)).cloned()?;
        let view = View { ledger: ledger.to_owned(), revision, plan, state: Arc::new(state) };
        let has_other_plan = inner.put(view.clone());
        inner.broken.remove(ledger);
        drop(inner);
        if has_other_plan {
            self.plan_changes.send_replace(());
        }
        self.changes.send_replace(());
        Some(view)
    }

    pub fn take(&self, seen: WatchUpdate<Named>) {
        match seen {
            WatchUpdate::Listed(_, objects) => {
                let there: HashSet<&str> = objects.iter().map(|(name, _)| name.as_str()).collect();
                let mut inner = locked(&self.inner);
                let gone: Vec<String> =
                    inner.views.keys().filter(|ledger| !there.contains(ledger.as_str())).cloned().collect();
                gone.iter().for_each(|ledger| inner.remove(ledger));
                inner.broken.retain(|ledger, _| there.contains(ledger.as_str()));
                inner.plans.retain(|(ledger, number), _| there.contains(&*objects::plan_name(ledger, *number)));
                inner.is_listed = true;
                drop(inner);
                // Plans before the states that name them.
                let (plans, states): (Vec<Named>, Vec<Named>) =
                    objects.into_iter().partition(|(_, kept)| matches!(kept, Ok(LedgerContent::Plan { .. })));
                plans.into_iter().chain(states).for_each(|named| self.store(named));
                self.plan_changed();
            }
            WatchUpdate::Stored(named) => self.store(named),
            WatchUpdate::Deleted((name, kept)) => {
                let mut inner = locked(&self.inner);
                if let Ok(LedgerContent::Plan { ledger, plan }) = kept {
                    inner.plans.remove(&(ledger, plan.number));
                } else {
                    inner.remove(&name);
                    inner.broken.remove(&name);
                    drop(inner);
                    self.plan_changed();
                }
            }
            // Until they are listed again, nothing is planned by them, and no review is answered.
            WatchUpdate::Lost(_) => locked(&self.inner).is_listed = false,
            WatchUpdate::UpTo(_) => {}
        }
    }

    fn store(&self, (name, kept): Named) {
        match kept {
            Ok(LedgerContent::AlreadyRead) => {}
            Ok(LedgerContent::Plan { ledger, plan }) => self.add_plan(&ledger, Arc::new(plan)),
            // If the watch has not delivered its plan yet, `load` reads it.
            Ok(LedgerContent::State { revision, state }) => _ = self.add_state(&name, revision, state),
            Err(unreadable) => {
                tracing::error!(ledger = name, %unreadable, "cannot read a ledger; was it edited by hand?");
                locked(&self.inner).broken.insert(name, unreadable);
                self.plan_changed();
            }
        }
    }

    /// Writes a state in the place of a revision, or the first one. Returns its own revision.
    pub async fn write(&self, ledger: &str, state: State, over: Option<u64>) -> ApiResult<Option<u64>> {
        let object = objects::write_state(&self.namespace, ledger, &state, over);
        let path = objects::ledgers(&self.namespace);
        let written = match over {
            Some(_) => self.api.replace_for_metadata(&path.at(ledger), &object).await?,
            None => self.api.create(&path, &object).await?,
        };
        let revision = revision_of(&written);
        if let Some(revision) = revision {
            self.add_state(ledger, revision, state);
        }
        Ok(revision)
    }

    /// Reads a ledger from etcd. An error is a message.
    pub async fn load(&self, ledger: &str) -> Result<View, String> {
        let path = objects::ledgers(&self.namespace);
        let known = self.view(ledger).map(|view| view.revision);
        let object = self.api.get(&path.at(ledger)).await.map_err(|failure| failure.to_string())?;
        let LedgerContent::State { revision, state } = objects::read_value(&object)? else {
            return Err("the object is a plan, not a ledger's state".to_owned());
        };
        let number = state.plan;
        if known.is_some_and(|known| revision < known) {
            // Only an etcd that was restored from a backup is behind what was known before it was asked.
            tracing::warn!(ledger, revision, known, "a ledger has gone back");
            // It stays until there is another one, because without a ledger nothing is bounded.
            locked(&self.inner).views.entry(ledger.to_owned()).and_modify(|view| view.revision = 0);
        }
        if let Some(view) = self.add_state(ledger, revision, state.clone()) {
            return Ok(view);
        }
        let name = objects::plan_name(ledger, number);
        let object = self.api.get(&path.at(&name)).await.map_err(|failure| format!("{name}: {failure}"))?;
        self.store((name.clone(), objects::read_value(&object)));
        self.add_state(ledger, revision, state).ok_or_else(|| format!("{name} cannot be read"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(ledger: &str, number: u64, namespaces: &[&str]) -> View {
        let namespaces: Vec<_> = namespaces.iter().map(|namespace| format!("{namespace} 0")).collect();
        let plan = Arc::new(Plan::read(number, &["team 1 - pods=1"], &namespaces).unwrap());
        View { ledger: ledger.to_owned(), revision: number, plan, state: Arc::default() }
    }

    #[track_caller]
    fn check(inner: &CachedLedgers, expected: &[&str]) {
        let mut found: Vec<String> = inner
            .by_namespace
            .iter()
            .map(|(namespace, ledgers)| {
                format!("{namespace} {}", ledgers.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
            })
            .collect();
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_namespace_is_charged_to_the_ledgers_whose_current_plans_name_it() {
        let mut inner = CachedLedgers::default();
        assert!(inner.put(view("b", 1, &["shop", "pay"])));
        assert!(inner.put(view("a", 1, &["shop"])));
        check(&inner, &["pay b", "shop a b"]);
        let again = View { revision: 5, ..inner.views["b"].clone() };
        assert!(!inner.put(again), "only its state is another");
        assert_eq!(inner.views["b"].revision, 5);
        assert!(inner.put(view("b", 2, &["pay", "web"])));
        check(&inner, &["pay b", "shop a", "web b"]);
        inner.remove("b");
        inner.remove("b");
        check(&inner, &["shop a"]);
        assert_eq!(
            inner.touched,
            BTreeSet::from(["a".to_owned()]),
            "nobody asks for them where this replica does not lead"
        );
    }
}
