//! The ledgers that this replica knows, from its watch and from its own writes, whichever is newer.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headroom_core::amount::{Quantity, ResourceList};
use headroom_core::json::Node;
use headroom_tenant_quota::{OpenLedger, Plan, State};
use tokio::sync::watch;

use super::objects::{self, Kept, Named};
use headroom_kube::api_client::{ApiClient, revision_in};
use headroom_kube::watch::Seen;

/// A ledger at one revision.
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
    inner: Mutex<Inner>,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    views: BTreeMap<String, View>,
    plans: HashMap<(String, u64), Arc<Plan>>,
    /// Ledgers that cannot be read, and why.
    broken: BTreeMap<String, String>,
    is_listed: bool,
}

impl LedgerCache {
    pub fn new(api: ApiClient, namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        Self { api, namespace, inner: Mutex::default(), changes: watch::Sender::new(0) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies about each change of a ledger.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn is_listed(&self) -> bool {
        self.inner().is_listed
    }

    pub fn view(&self, ledger: &str) -> Option<View> {
        self.inner().views.get(ledger).cloned()
    }

    pub fn views(&self) -> Vec<View> {
        self.inner().views.values().cloned().collect()
    }

    /// The ledgers that a namespace is charged to, in the order in which every replica reserves.
    pub fn covering(&self, namespace: &str) -> Vec<View> {
        let covers = |view: &&View| view.plan.namespaces.contains_key(namespace);
        self.inner().views.values().filter(covers).cloned().collect()
    }

    /// Reads an object of the watch, unless its state is known already.
    pub fn read(&self, object: Node<'_>) -> Option<Named> {
        let name = objects::text_at(object, &["metadata", "name"])?;
        let known = self.inner().views.get(name.as_ref()).map(|view| view.revision);
        if known.zip(revision_in(object)).is_some_and(|(known, seen)| seen <= known) {
            return Some((name.into_owned(), Ok(Kept::Known)));
        }
        objects::read_named(object)
    }

    pub fn broken(&self) -> BTreeMap<String, String> {
        self.inner().broken.clone()
    }

    /// The highest number of a ledger's plans, active or not.
    pub fn last_plan(&self, ledger: &str) -> u64 {
        let inner = self.inner();
        let numbers = inner.plans.keys().filter(|(of, _)| of == ledger).map(|(_, number)| *number);
        let active = inner.views.get(ledger).map(|view| view.plan.number);
        numbers.chain(active).max().unwrap_or_default()
    }

    /// Plans that were replaced.
    pub fn stale_plans(&self) -> Vec<(String, u64)> {
        let inner = self.inner();
        let is_stale =
            |(ledger, number): &&(String, u64)| inner.views.get(ledger).is_none_or(|view| *number < view.plan.number);
        inner.plans.keys().filter(is_stale).cloned().collect()
    }

    pub fn add_plan(&self, ledger: &str, plan: Arc<Plan>) {
        self.inner().plans.insert((ledger.to_owned(), plan.number), plan);
    }

    /// Adds a state that was read or written, unless a newer one is known.
    pub fn add_state(&self, ledger: &str, revision: u64, state: State) -> Option<View> {
        let mut inner = self.inner();
        if let Some(view) = inner.views.get(ledger).filter(|view| view.revision >= revision) {
            return Some(view.clone());
        }
        let plan = inner.plans.get(&(ledger.to_owned(), state.plan)).cloned()?;
        let view = View { ledger: ledger.to_owned(), revision, plan, state: Arc::new(state) };
        inner.views.insert(ledger.to_owned(), view.clone());
        inner.broken.remove(ledger);
        drop(inner);
        self.changed();
        Some(view)
    }

    pub fn take(&self, seen: Seen<Named>) {
        match seen {
            Seen::Listed(_, objects) => {
                let is_there = |name: &str| objects.iter().any(|(known, _)| known == name);
                let mut inner = self.inner();
                inner.views.retain(|ledger, _| is_there(ledger));
                inner.broken.retain(|ledger, _| is_there(ledger));
                inner.plans.retain(|(ledger, number), _| is_there(&objects::plan_name(ledger, *number)));
                inner.is_listed = true;
                drop(inner);
                // Plans before the states that name them.
                let (plans, states): (Vec<Named>, Vec<Named>) =
                    objects.into_iter().partition(|(_, kept)| matches!(kept, Ok(Kept::Plan { .. })));
                plans.into_iter().chain(states).for_each(|named| self.store(named));
                self.changed();
            }
            Seen::Stored(named) => self.store(named),
            Seen::Deleted((name, kept)) => {
                let mut inner = self.inner();
                match kept {
                    Ok(Kept::Plan { ledger, plan }) => {
                        inner.plans.remove(&(ledger, plan.number));
                    }
                    _ => {
                        inner.views.remove(&name);
                        inner.broken.remove(&name);
                    }
                }
                drop(inner);
                self.changed();
            }
            Seen::UpTo(_) | Seen::Lost(_) => {}
        }
    }

    fn store(&self, (name, kept): Named) {
        match kept {
            Ok(Kept::Known) => {}
            Ok(Kept::Plan { ledger, plan }) => self.add_plan(&ledger, Arc::new(plan)),
            Ok(Kept::State { ledger, revision, state }) => {
                // If the watch has not delivered its plan yet, `load` reads it.
                self.add_state(&ledger, revision, state);
            }
            Err(unreadable) => {
                tracing::error!(ledger = name, %unreadable, "cannot read a ledger; was it edited by hand?");
                self.inner().broken.insert(name, unreadable.to_string());
                self.changed();
            }
        }
    }

    /// Reads a ledger from etcd. An error is a message.
    pub async fn load(&self, ledger: &str) -> Result<View, String> {
        let path = objects::ledgers(&self.namespace);
        let object = self.api.get(&path.at(ledger)).await.map_err(|failure| failure.to_string())?;
        let Kept::State { revision, state, .. } = objects::read_value(&object).map_err(|error| error.to_string())?
        else {
            return Err("the object is a plan, not a ledger's state".to_owned());
        };
        let number = state.plan;
        if let Some(view) = self.add_state(ledger, revision, state.clone()) {
            return Ok(view);
        }
        let name = objects::plan_name(ledger, number);
        let object = self.api.get(&path.at(&name)).await.map_err(|failure| format!("{name}: {failure}"))?;
        self.store((name.clone(), objects::read_value(&object)));
        self.add_state(ledger, revision, state).ok_or_else(|| format!("{name} cannot be read"))
    }
}
